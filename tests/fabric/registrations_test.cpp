// The registration cache over a real device; skipped without one (tests/softroce/run has one).
#include "fabric/verbs/registrations.hpp"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/verbs/device.hpp"
#include "fabric/verbs/port_address.hpp"
#include "tests/support/named_device.hpp"

namespace {

using namespace weft;
using namespace weft::verbs;

std::unique_ptr<Device> open_device() {
  std::vector<Port> ports;
  Port port;
  std::unique_ptr<Device> device;
  Status status = find_ports(ports);
  if (status) status = choose_port(ports, weft::testing::named_device(), port);
  if (status) status = Device::open(port, device);
  if (!status) WARN("skipped: " << status.text());
  return device;
}

void* map(std::size_t bytes, int rights = PROT_READ | PROT_WRITE) {
  void* memory = mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return memory;
}

// From a multiple of 1 MiB on: what lies near is registered at once, up to the next ones.
std::byte* map_aligned(std::size_t bytes) {
  constexpr std::uintptr_t kMiB = 1 << 20;
  const auto all = reinterpret_cast<std::uintptr_t>(map(bytes + kMiB));
  const std::uintptr_t begin = (all + kMiB - 1) / kMiB * kMiB;
  if (begin > all) munmap(reinterpret_cast<void*>(all), begin - all);
  if (all + kMiB > begin) munmap(reinterpret_cast<void*>(begin + bytes), all + kMiB - begin);
  return reinterpret_cast<std::byte*>(begin);
}

}  // namespace

TEST_CASE("registrations are kept while their memory is the same", "[registrations]") {
  const auto device = open_device();
  if (device == nullptr) return;
  Registrations cache(device->pd, 64u << 20, facts_of(device->port.transport));
  INFO(cache.watch_status().text());
  REQUIRE(cache.watch_status().ok());
  constexpr std::size_t kBytes = 1 << 20;
  std::byte* memory = map_aligned(kBytes);

  Registration* first = nullptr;
  Registration* again = nullptr;
  REQUIRE(cache.acquire(memory, kBytes, true, first).ok());
  const std::uint32_t key = first->lkey();
  cache.release(first);
  REQUIRE(cache.acquire(memory + 100, kBytes - 200, true, again).ok());
  CHECK(again->lkey() == key);
  CHECK(cache.counts().hits == 1);
  cache.release(again);

  SECTION("unmapped and mapped again at the same place: registered anew") {
    for (int round = 1; round <= 20; ++round) {
      munmap(memory, kBytes);
      REQUIRE(mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0) == memory);
      const auto misses = cache.counts().misses;
      REQUIRE(cache.acquire(memory, kBytes, true, again).ok());
      CHECK(cache.counts().misses == misses + 1);
      cache.release(again);
    }
    CHECK(cache.counts().changes == 20);
    // Nothing of the former ones is left.
    cache.collect();
    CHECK(cache.counts().entries == 1);
  }
  SECTION("discarded in part: registered anew") {
    madvise(memory + 8192, 4096, MADV_DONTNEED);
    const auto misses = cache.counts().misses;
    REQUIRE(cache.acquire(memory, kBytes, true, again).ok());
    CHECK(cache.counts().misses == misses + 1);
    cache.release(again);
  }
  SECTION("malloc and free, over and over") {
    for (int round = 0; round < 200; ++round) {
      const std::size_t bytes = (static_cast<std::size_t>(round) * 7919 % 400 + 1) * 1024;
      auto* block = static_cast<char*>(malloc(bytes));
      std::memset(block, round, bytes);
      REQUIRE(cache.acquire(block, bytes, true, again).ok());
      cache.release(again);
      free(block);
    }
  }
  SECTION("threads that free while others register") {
    std::vector<std::thread> threads;
    std::atomic<int> failures{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&cache, &failures, t] {
        for (int i = 0; i < 100; ++i) {
          const std::size_t bytes = (static_cast<std::size_t>(i + t) % 50 + 1) * 8192;
          void* block = malloc(bytes);
          Registration* mine = nullptr;
          if (!cache.acquire(block, bytes, true, mine).ok()) ++failures;
          if (mine != nullptr) cache.release(mine);
          free(block);
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(failures == 0);
  }
  munmap(memory, kBytes);
}

TEST_CASE("memory is registered with what lies near", "[registrations]") {
  const auto device = open_device();
  if (device == nullptr) return;
  Registrations cache(device->pd, 64u << 20, facts_of(device->port.transport));
  constexpr std::size_t kBytes = 1 << 20;
  std::byte* memory = map_aligned(2 * kBytes);
  Registration* one = nullptr;
  for (std::size_t at = 0; at < kBytes; at += 5000) {
    REQUIRE(cache.acquire(memory + at, 4000, true, one).ok());
    cache.release(one);
  }
  // The last may reach into the next window.
  CHECK(cache.counts().misses <= 2);
  munmap(memory, 2 * kBytes);
  cache.collect();
  CHECK(cache.counts().entries == 0);
  // Next to memory that is not there, and to some that is not writable.
  memory = static_cast<std::byte*>(map(4 * 4096));
  munmap(memory + 2 * 4096, 4096);
  mprotect(memory + 3 * 4096, 4096, PROT_READ);
  REQUIRE(cache.acquire(memory, 2 * 4096, true, one).ok());
  cache.release(one);
  CHECK(cache.acquire(memory + 3 * 4096, 4096, true, one).code() == Code::bad_argument);
  REQUIRE(cache.acquire(memory + 3 * 4096, 4096, false, one).ok());
  cache.release(one);
  munmap(memory, 4 * 4096);
}

TEST_CASE("what is kept is bounded", "[registrations]") {
  const auto device = open_device();
  if (device == nullptr) return;
  constexpr std::size_t kBytes = 1 << 20;
  Registrations cache(device->pd, 4 * kBytes, facts_of(device->port.transport));
  std::byte* memory = map_aligned(16 * kBytes);
  Registration* one = nullptr;
  for (std::size_t i = 0; i < 16; ++i) {
    REQUIRE(cache.acquire(memory + i * kBytes, kBytes, true, one).ok());
    cache.release(one);
    CHECK(cache.counts().bytes <= 4 * kBytes);
  }
  // What is longer than all that may be kept is used and given back.
  REQUIRE(cache.acquire(memory, 16 * kBytes, true, one).ok());
  cache.release(one);
  CHECK(cache.counts().bytes <= 4 * kBytes);
  munmap(memory, 16 * kBytes);
}

TEST_CASE("memory that cannot be registered gives an error that says why", "[registrations]") {
  const auto device = open_device();
  if (device == nullptr) return;
  Registrations cache(device->pd, 64u << 20, facts_of(device->port.transport));
  Registration* one = nullptr;
  SECTION("not there") {
    void* memory = map(8192);
    munmap(memory, 8192);
    CHECK(!cache.acquire(memory, 8192, true, one).ok());
  }
  SECTION("read-only: for reading it will do") {
    void* memory = map(8192);
    mprotect(memory, 8192, PROT_READ);
    CHECK(cache.acquire(memory, 8192, true, one).code() == Code::bad_argument);
    REQUIRE(cache.acquire(memory, 8192, false, one).ok());
    cache.release(one);
    munmap(memory, 8192);
  }
  SECTION("more than may be locked") {
    // Root may lock more than the limit by a capability, which is put aside for the moment.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct before[2]{}, without[2]{};
    REQUIRE(syscall(SYS_capget, &header, before) == 0);
    std::memcpy(without, before, sizeof before);
    without[0].effective &= ~(1u << CAP_IPC_LOCK);
    REQUIRE(syscall(SYS_capset, &header, without) == 0);
    rlimit old{};
    getrlimit(RLIMIT_MEMLOCK, &old);
    const rlimit small{4u << 20, old.rlim_max};
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &small) == 0);
    std::byte* memory = map_aligned(16u << 20);
    // What is kept makes room for what is needed now.
    for (std::size_t i = 0; i < 8; ++i) {
      REQUIRE(cache.acquire(memory + i * (1u << 20), 1u << 20, true, one).ok());
      cache.release(one);
    }
    // Also for what others register, as rings.
    void* ring = map(3u << 20);
    const auto register_ring = [&] { return ibv_reg_mr(device->pd, ring, 3u << 20, 0); };
    CHECK(register_ring() == nullptr);
    ibv_mr* mr = nullptr;
    while (mr == nullptr && cache.make_room()) mr = register_ring();
    REQUIRE(mr != nullptr);
    CHECK(ibv_dereg_mr(mr) == 0);
    munmap(ring, 3u << 20);
    const Status status = cache.acquire(memory, 16u << 20, true, one);
    CHECK(status.code() == Code::no_memory);
    CHECK(status.text().find("ulimit -l") != std::string::npos);
    munmap(memory, 16u << 20);
    REQUIRE(syscall(SYS_capset, &header, before) == 0);
    setrlimit(RLIMIT_MEMLOCK, &old);
  }
}

TEST_CASE("addresses that hosts route come before link-local ones", "[registrations]") {
  ibv_gid v4{}, own{}, global{}, link{};
  v4.raw[10] = v4.raw[11] = 0xff;
  own = v4;
  v4.raw[12] = 10, v4.raw[15] = 7;
  own.raw[12] = 169, own.raw[13] = 254, own.raw[15] = 1;
  global.raw[0] = 0x20, global.raw[15] = 1;
  link.raw[0] = 0xfe, link.raw[1] = 0x80, link.raw[15] = 1;
  CHECK(gid_rank(v4) > gid_rank(global));
  CHECK(gid_rank(global) > gid_rank(own));
  CHECK(gid_rank(own) > gid_rank(link));
  CHECK(gid_address(v4) == "10.0.0.7");
  CHECK(gid_address(global) == "2000::1");
  CHECK(gid_address(link) == "fe80::1");
}

TEST_CASE("the port in use is the usable, near, fast one, or the one asked for",
          "[registrations]") {
  const auto port = [](const char* name, double gbit) {
    Port one;
    one.device.append(name);
    one.gbit_per_s = gbit;
    return one;
  };
  const Port slow = port("a", 25), fast = port("b", 100);
  Port far = port("c", 400), down = port("d", 800);
  far.near = false;
  down.why_unusable.append("the port is down");
  Port chosen;
  REQUIRE(choose_port({slow, far, fast, down}, "", chosen).ok());
  CHECK(chosen.device == "b");
  REQUIRE(choose_port({slow, far, fast, down}, "c:1", chosen).ok());
  CHECK(chosen.device == "c");
  const Status status = choose_port({slow, far, fast, down}, "d", chosen);
  CHECK(status.code() == Code::unsupported);
  CHECK(status.text().find("the port is down") != std::string::npos);
  CHECK(choose_port({slow}, "a:2", chosen).code() == Code::unsupported);
  CHECK(choose_port({slow}, "a:x", chosen).code() == Code::bad_setting);
}
