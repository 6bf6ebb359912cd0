// An exchange that closes over another host's fabric while there is no memory for what still comes.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/wait.hpp"
#include "ranks.hpp"
#include "tests/support/loopback/loopback.hpp"
#include "weft/transport.hpp"

using namespace weft;
using namespace weft::transport;
using fabric::loopback::Network;

namespace {
constexpr std::size_t kBlock = 700'000;
std::atomic<bool> is_short{false};
std::atomic<int> num_refused{0};
}  // namespace

// Not inlined: the compiler would take free() for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (is_short.load() && bytes >= kBlock && bytes < 2 * kBlock) {
    num_refused.fetch_add(1);
    throw std::bad_alloc();
  }
  if (void* made = std::malloc(bytes)) return made;
  throw std::bad_alloc();
}
// A sanitizer's own would not go with the free() below.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weft::testing {

TEST_CASE("what comes while an exchange closes counts as read, also where it cannot be fetched") {
  REQUIRE(::setenv("WEFT_FABRIC", "loopback", 1) == 0);
  REQUIRE(::setenv("WEFT_PEER_TIMEOUT_MS", "10000", 1) == 0);
  std::atomic<std::uint64_t> closes_ns{0};
  with_ranks(2, [&](Job& job) {
    const std::vector<std::byte> block(kBlock);
    {
      Exchange<Bytes> exchange(job, 1, {.block_bytes = 1 << 20, .rendezvous_bytes = 4096});
      // The lane is there first.
      if (job.rank() == 0) {
        EXPECT(exchange.send(1, 0, Bytes(block).first(100)) == Code::ok);
        EXPECT(exchange.flushSend(0) == Code::ok);
      } else {
        for (Bytes message; !exchange.receive(0, message);) {
        }
        for (Bytes message; exchange.receive(0, message);) {
        }
      }
      EXPECT(job.barrier().ok());
      if (job.rank() == 0) {
        Network::of_process()->set_faults({.seed = 1, .max_delay_us = 200'000});
        EXPECT(exchange.send(1, 0, Bytes(block)) == Code::ok);
        is_short = true;
        EXPECT(exchange.flushSend(0) == Code::ok);
        closes_ns = now_ns();
      }
    }
    is_short = false;
    Network::of_process()->set_faults({});
  });
  CHECK(num_refused > 0);
  CHECK(now_ns() - closes_ns < 5'000'000'000);
  CHECK_NOTHING_WRONG();
}

}  // namespace weft::testing
