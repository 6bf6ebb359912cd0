// Nodes over the loopback that lack memory for one thing at one step: what was begun ends, and no
// call throws or hangs. Exit status 0, or 1 with what was not so.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "node/rails.hpp"
#include "tests/support/loopback/loopback.hpp"
#include "weft/node.hpp"

namespace {
std::atomic<std::size_t> missing{0};  // allocations of this size fail; 0: none
std::atomic<int> num_refused{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (bytes == missing && bytes != 0) {
    ++num_refused;
    throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace weft;
using fabric::loopback::Network;

int num_wrong = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  ++num_wrong;
  std::printf("not so: %s\n", what);
}

struct Two {
  explicit Two(const char* fabrics)
      : server({.name = "server",
                .secret = "s",
                .timeout_ms = 1000,
                .fabrics = fabrics,
                .progress_thread = false}),
        client({.name = "client",
                .secret = "s",
                .timeout_ms = 1000,
                .fabrics = fabrics,
                .progress_thread = false}) {
    std::string address;
    expect(server.address(address).ok(), "the server has an address");
    bool done = false;
    client.connect_async(address, [&](Status, Peer peer) {
      to = peer;
      done = true;
    });
    poll_until([&] { return done; });
  }
  template <class F>
  bool poll_until(F&& is_done) {
    for (const std::uint64_t limit = now_ns() + 5'000'000'000; !is_done() && now_ns() < limit;) {
      client.progress();
      server.progress();
    }
    return is_done();
  }
  PeerMemory share(std::vector<std::uint64_t>& words) {
    MemoryKey key;
    expect(server.register_memory(words.data(), words.size() * 8).ok() &&
               server.key(words.data(), kAllRights, key).ok(),
           "memory is shared");
    return client.memory(to, key);
  }
  Peer to;
  Node server, client;
};

// The put out of bounds ends in the same poll that cannot open the second thread's link.
void end_beside_a_rail() {
  Network::of_process()->set_options({.links = 3});
  Two two("loopback");
  std::vector<std::uint64_t> a(64), b(64), data(64, 1);
  const PeerMemory at_a = two.share(a);
  Operation first, second, third;
  two.client.put(at_a, 0, data.data(), 8, first);
  expect(two.poll_until([&] { return first.is_done(); }), "a put ends");
  const PeerMemory at_b = two.share(b);
  for (int i = 0; i < 1000; ++i) two.server.progress();
  std::thread([&] { two.client.put(at_a, 0, data.data(), 8, second); }).join();
  two.client.put(at_b, 4096, data.data(), 8, third);
  missing = sizeof(transport::Rail*);
  two.client.progress();
  missing = 0;
  expect(two.poll_until([&] { return second.is_done() && third.is_done(); }),
         "what a poll without memory had ended is told");
  Network::of_process()->set_options({});
}

// A large put over two devices, of which one lacks memory for its link.
void put_without_a_rail() {
  Two two("loopback,loopback");
  std::vector<std::uint64_t> memory(512 << 10), data(512 << 10, 7);
  const PeerMemory there = two.share(memory);
  Operation first, large;
  two.client.put(there, 0, data.data(), 8, first);
  expect(two.poll_until([&] { return first.is_done(); }), "a put ends");
  missing = sizeof(transport::Rail);
  two.client.put(there, 0, data.data(), data.size() * 8, large);
  expect(two.poll_until([&] { return large.is_done(); }), "a put that is striped ends");
  missing = 0;
  expect(large.code() == Code::ok && memory == data, "it has arrived");
}

}  // namespace

int main() {
  end_beside_a_rail();
  put_without_a_rail();
  expect(num_refused > 1, "memory was refused");
  return num_wrong == 0 ? 0 : 1;
}
