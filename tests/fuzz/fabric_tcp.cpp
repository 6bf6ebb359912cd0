// The fabric tcp under a peer that connects to it and sends what it likes, in pieces as it likes.
// Nothing outside of the registered memory may change, and what is read is read within it.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/os/descriptor.hpp"
#include "fabric/tcp/endpoint.hpp"
#include "fabric/tcp/wire.hpp"
#include "tests/fuzz/script.hpp"

namespace {

using namespace weft;
using namespace weft::fabric;

// Reads all bytes of messages, and posts gets of its own, whose answers the peer makes up.
struct Client final : Events {
  explicit Client(Endpoint& endpoint) : endpoint(endpoint) {}
  bool on_incoming(Link& incoming, Bytes) override {
    if (link != nullptr) return false;  // that of an earlier input, read late
    link = &incoming;
    return true;
  }
  void on_up(Link&) override {}
  void on_down(Link& down, Code) override {
    endpoint.close(down);
    if (link == &down) link = nullptr;
  }
  void on_message(Link&, Bytes bytes) override {
    for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);
  }
  Endpoint& endpoint;
  Link* link = nullptr;
  unsigned sum = 0;
};

Endpoint& endpoint_of_all() {
  static const std::unique_ptr<Endpoint> endpoint = [] {
    Settings settings;
    std::unique_ptr<Endpoint> made;
    if (!settings.set("INTERFACE", "lo") || !tcp::make_endpoint(settings, made)) std::abort();
    return made;
  }();
  return *endpoint;
}

struct Request : WorkRequest {
  int times = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kBytes = 16 << 10;
  Script script{data, size};
  Endpoint& endpoint = endpoint_of_all();
  Client client(endpoint);
  // The sanitizer guards its ends.
  std::vector<std::byte> memory(kBytes), into(kBytes);
  Registration registration;
  if (!endpoint.register_memory(memory.data(), kBytes, kRead | kWrite, registration)) std::abort();

  const std::string address = endpoint.address();
  const Descriptor peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(peer.get(), reinterpret_cast<const sockaddr*>(address.data()),
                static_cast<socklen_t>(address.size())) != 0)
    std::abort();
  const auto poll = [&] {
    for (int i = 0; i < 10; ++i) endpoint.poll(client);
  };
  const auto write = [&](const void* from, std::size_t bytes) {
    (void)::send(peer.get(), from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  if (script.take<std::uint8_t>() != 0) {
    const tcp::Frame hello{tcp::Kind::hello, Code::ok, 0, 0, tcp::kMagic};
    write(&hello, sizeof hello);
    for (int i = 0; i < 1000 && client.link == nullptr; ++i) endpoint.poll(client);
  }
  Request requests[8];
  std::size_t num_posted = 0;
  while (script.size > 0) {
    switch (script.take<std::uint8_t>() % 4) {
      case 0: {  // bytes
        const std::vector<std::byte> some = script.take_bytes(script.take<std::uint16_t>());
        write(some.data(), some.size());
        break;
      }
      case 1: {  // an access, with the real secret
        struct {
          tcp::Frame frame;
          tcp::Access access;
        } const head{script.take<tcp::Frame>(),
                     {parts_of(registration.key).address + script.take<std::uint16_t>(),
                      parts_of(registration.key).secret}};
        write(&head, sizeof head);
        break;
      }
      case 2:
        if (client.link != nullptr && num_posted < std::size(requests)) {
          requests[num_posted].done = [](WorkRequest& request, Code) noexcept {
            if (++static_cast<Request&>(request).times > 1) std::abort();
          };
          if (endpoint.get(*client.link, into.data(), script.take<std::uint16_t>() % kBytes,
                           registration.key, 0, requests[num_posted]) == Code::ok)
            ++num_posted;
        }
        break;
      default:
        poll();
    }
  }
  ::shutdown(peer.get(), SHUT_WR);
  poll();
  if (client.link != nullptr) endpoint.close(*client.link);
  for (std::size_t i = 0; i < num_posted; ++i)
    if (requests[i].times != 1) std::abort();
  endpoint.deregister(registration);
  poll();
  return 0;
}
