// A hostile peer that knows the secret: it meets a Node over the loopback fabric and sends what the
// input says. The Node has resolved one key for it and asks it for memory itself, so requests and
// answers both count. Whatever comes, nothing outside that memory changes, and the next peer is
// served. The input is a row of messages: two bytes of length, then the bytes.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "peer/bootstrap.hpp"
#include "peer/messages.hpp"
#include "script.hpp"
#include "tests/support/loopback/loopback.hpp"
#include "weft/node.hpp"

using namespace weft;

namespace {

constexpr std::size_t kBytes = 64;

struct Rogue final : peer::Bootstrap::Events, fabric::Events {
  bool on_met(peer::Connection& met, bool) override {
    connection = &met;
    return true;
  }
  void on_failed(peer::Connection&, const Status&) override { std::abort(); }
  bool on_frame(peer::Connection&, peer::FrameType, std::string_view, std::span<int>) override {
    return true;
  }
  void on_end(peer::Connection&, const Status&) override { connection = nullptr; }
  bool on_incoming(fabric::Link&, fabric::Bytes) override { return false; }
  void on_up(fabric::Link&) override { is_up = true; }
  void on_down(fabric::Link&, Code) override { is_down = true; }
  void on_message(fabric::Link&, fabric::Bytes) override {}

  peer::Connection* connection = nullptr;
  bool is_up = false, is_down = false;
};

struct World {
  World() {
    server.on_peer([this](const Peer& met) { peer = met; });
    server.on_message([](const Peer&, std::span<const std::byte> bytes) {
      std::vector<std::byte> copy(bytes.begin(), bytes.end());
    });
    if (!server.address(address) || !server.register_memory(memory + kBytes, kBytes) ||
        !server.key(memory + kBytes, kAllRights, key))
      std::abort();
  }
  static NodeSettings settings() {
    NodeSettings settings;
    settings.secret = "secret";
    settings.fabrics = "loopback";
    settings.progress_thread = false;
    return settings;
  }

  std::byte memory[3 * kBytes] = {};
  MemoryKey key;
  std::string address;
  Peer peer;
  Node server{settings()};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  world.peer = {};
  Rogue rogue;
  const auto endpoint = fabric::loopback::make_endpoint();
  peer::NodeAddress own, theirs;
  own.name = "rogue";
  own.generation = 7;
  own.fabrics.push_back({"loopback", endpoint->address()});
  if (!peer::from_text(world.address, theirs)) std::abort();
  peer::Bootstrap bootstrap(peer::Secret("secret"), own);
  auto poll = [&] {
    bootstrap.poll(rogue);
    endpoint->poll(rogue);
    world.server.progress();
  };
  if (!bootstrap.connect(theirs.bootstraps.at(0), ~0ull, nullptr)) std::abort();
  while (rogue.connection == nullptr) poll();
  transport::LinkHello hello{rogue.connection->cookie(), transport::kSessionVersion, 0, 0, 0, 0};
  const std::string_view at = theirs.on("loopback");
  fabric::Link* link = nullptr;
  if (!endpoint->open({reinterpret_cast<const std::byte*>(at.data()), at.size()},
                      {reinterpret_cast<const std::byte*>(&hello), sizeof hello}, link))
    std::abort();
  while (!rogue.is_up || !world.peer) poll();

  // What the Node wants of it.
  std::vector<std::byte> wanted(256, std::byte{1});
  Operation operations[3];
  {
    const PeerMemory remote = world.server.memory(world.peer, MemoryKey{});
    world.server.get(remote, 0, wanted.data(), wanted.size(), operations[0]);
    world.server.put(remote, 0, wanted.data(), wanted.size(), operations[1]);
    world.server.fetch_add(remote, 0, 1, operations[2]);
  }
  transport::ResolveMessage resolve{{.kind = transport::Kind::resolve}, world.key.bytes};
  resolve.flags = transport::kNumbered;
  resolve.number = 1;
  while (endpoint->message(*link, transport::as_bytes(resolve), {}) == Code::again) poll();

  Script script{data, size};
  while (script.size > 0 && !rogue.is_down) {
    const std::size_t length = script.take<std::uint16_t>();
    const auto message = script.take_bytes(std::min<std::size_t>(length, 4096));
    Code code;
    while ((code = endpoint->message(*link, message, {})) == Code::again) poll();
    if (code != Code::ok) break;
    poll();
  }
  for (int i = 0; i < 4; ++i) poll();
  endpoint->close(*link);
  if (rogue.connection != nullptr) bootstrap.close(*rogue.connection);
  for (Operation& operation : operations)
    while (!operation.is_done()) world.server.wait_some(1);
  for (std::size_t i = 0; i < 3 * kBytes; ++i)
    if ((i < kBytes || i >= 2 * kBytes) && world.memory[i] != std::byte{0}) std::abort();
  world.peer = {};
  return 0;
}
