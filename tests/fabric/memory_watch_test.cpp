// Memory that changes under a registration is noticed before whoever changed it goes on.
#include "fabric/verbs/memory_watch.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using weft::verbs::MemoryWatch;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 64 * kPage;

struct Seen {
  std::mutex lock;
  std::uintptr_t begin = 0, end = 0;
  int count = 0;

  static void changed(void* context, std::uintptr_t begin, std::uintptr_t end) {
    auto& self = *static_cast<Seen*>(context);
    self.begin = begin;
    self.end = end;
    ++self.count;
  }
  // How often memory at the address changed since it was last asked.
  int take(std::uintptr_t address) {
    const std::lock_guard guard(lock);
    const bool hit = begin <= address && address < end;
    return hit ? std::exchange(count, 0) : 0;
  }
};

std::byte* map(std::size_t bytes = kBytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

TEST_CASE("changes of watched memory are told before they return", "[watch]") {
  Seen seen;
  MemoryWatch watch(seen.lock, Seen::changed, &seen);
  if (const weft::Status status = watch.start(); !status) {
    WARN("skipped: " << status.text());
    return;
  }
  const auto watched = [&](std::byte* memory, std::size_t bytes = kBytes) {
    const std::lock_guard guard(seen.lock);
    return watch.watch(number(memory), number(memory) + bytes);
  };

  SECTION("unmapped, in part too") {
    for (int round = 0; round < 100; ++round) {
      std::byte* memory = map();
      REQUIRE(watched(memory));
      memory[0] = std::byte{2};  // writing is no change
      REQUIRE(seen.take(number(memory)) == 0);
      munmap(memory + kPage, kPage);
      REQUIRE(seen.take(number(memory) + kPage) == 1);
      munmap(memory, kBytes);
      REQUIRE(seen.take(number(memory)) == 1);
    }
  }
  SECTION("discarded") {
    std::byte* memory = map();
    REQUIRE(watched(memory));
    REQUIRE(madvise(memory, kPage, MADV_DONTNEED) == 0);
    CHECK(seen.take(number(memory)) == 1);
    CHECK(memory[0] == std::byte{0});
    munmap(memory, kBytes);
  }
  SECTION("mapped over") {
    std::byte* memory = map();
    REQUIRE(watched(memory));
    REQUIRE(mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0) == memory);
    CHECK(seen.take(number(memory)) == 1);
    munmap(memory, kBytes);
  }
  SECTION("moved") {
    std::byte* memory = map();
    REQUIRE(watched(memory));
    void* moved = mremap(memory, kBytes, 4 * kBytes, MREMAP_MAYMOVE);
    REQUIRE(moved != MAP_FAILED);
    if (moved != memory) {
      const std::lock_guard guard(seen.lock);
      CHECK(seen.count >= 1);
    }
    munmap(moved, 4 * kBytes);
  }
#ifndef __SANITIZE_ADDRESS__  // its allocator keeps what is freed
  SECTION("freed by the C library, with a mapping and with the heap's end") {
    for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{100'000}}) {
      auto* memory = static_cast<std::byte*>(malloc(bytes));
      REQUIRE(memory != nullptr);
      std::memset(memory, 1, bytes);
      const std::uintptr_t begin = (number(memory) + kPage - 1) & ~(kPage - 1);
      const std::uintptr_t end = (number(memory) + bytes) & ~(kPage - 1);
      {
        const std::lock_guard guard(seen.lock);
        REQUIRE(watch.watch(begin, end));
      }
      const bool mapped = bytes > 200'000;
      free(memory);
      // The small one may stay in the heap, and then is the same memory still.
      if (mapped) CHECK(seen.take(begin) == 1);
    }
  }
#endif
  SECTION("a child's changes are not this process's") {
    std::byte* memory = map();
    REQUIRE(watched(memory));
    const pid_t child = fork();
    if (child == 0) {
      munmap(memory, kBytes);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(seen.take(number(memory)) == 0);
    munmap(memory, kBytes);
    CHECK(seen.take(number(memory)) == 1);
  }
  SECTION("no longer watched") {
    std::byte* memory = map();
    REQUIRE(watched(memory));
    {
      const std::lock_guard guard(seen.lock);
      watch.unwatch(number(memory), number(memory) + kBytes);
    }
    munmap(memory, kBytes);
    CHECK(seen.take(number(memory)) == 0);
  }
  SECTION("what is not there cannot be watched") {
    // Where no mapping is ever placed: what has been unmapped may soon be another thread's.
    CHECK(!watched(reinterpret_cast<std::byte*>(std::uintptr_t{16} << 20)));
  }
}

#ifndef __SANITIZE_ADDRESS__  // whose own memory would be watched, too
TEST_CASE("a watch ends though its thread's own stack is watched", "[watch]") {
  for (int round = 0; round < 20; ++round) {
    Seen seen;
    MemoryWatch watch(seen.lock, Seen::changed, &seen);
    if (!watch.start()) return;
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0;
      char rights[5] = "";
      if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) == 3 &&
          std::string_view(rights) == "rw-p")
        ranges.emplace_back(begin, end);
    }
    const std::lock_guard guard(seen.lock);
    int num_watched = 0;
    for (const auto& [begin, end] : ranges) num_watched += watch.watch(begin, end);
    REQUIRE(num_watched > 0);
  }
}
#endif

TEST_CASE("a watch that cannot be had says so, and ends", "[watch]") {
  const rlimit before = [] {
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    return limit;
  }();
  const int next = dup(0);
  REQUIRE(next >= 0);
  close(next);
  for (rlim_t more = 0; more < 2; ++more) {
    Seen seen;
    MemoryWatch watch(seen.lock, Seen::changed, &seen);
    const rlimit few{static_cast<rlim_t>(next) + more, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    const weft::Status status = watch.start();
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_FALSE(status.ok());
    CHECK_FALSE(watch.works());
  }
  const int after = dup(0);
  CHECK(after == next);
  close(after);
}
