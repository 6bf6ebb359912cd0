// The allocator against a map of every byte, and a day's worth of sizes.
#include "objstore/shared/allocator.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using weft::objstore::Allocator;

TEST_CASE("the smallest hole that fits is taken") {
  Allocator allocator;
  allocator.add(0, 64 * 100);
  const auto a = allocator.allocate(64 * 10), b = allocator.allocate(64),
             c = allocator.allocate(640), d = allocator.allocate(1), e = allocator.allocate(64 * 5);
  REQUIRE((a && b && c && d && e));
  CHECK(*d % 64 == 0);
  allocator.free(*a, 64 * 10);
  allocator.free(*c, 640);
  allocator.free(*b, 64);  // between them: one hole of 21
  CHECK(allocator.num_holes() == 2);
  CHECK(*allocator.allocate(64 * 21) == *a);
  CHECK(allocator.num_holes() == 1);
  CHECK_FALSE(allocator.allocate(64 * 100));
}

TEST_CASE("no two objects share a byte, and no byte is lost") {
  std::mt19937_64 random(7);
  constexpr std::uint64_t kUnits = 4096;
  Allocator allocator;
  std::vector<bool> taken(2 * kUnits);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  allocator.add(0, kUnits * 64);
  bool is_right = true;
  std::uint64_t used = 0, end = kUnits;
  for (int step = 0; step < 60000; ++step) {
    if (step == 30000) {
      allocator.add(kUnits * 64, kUnits * 64);
      end = 2 * kUnits;
    }
    if (live.empty() || random() % 2 == 0) {
      const std::uint64_t bytes = random() % (random() % 4 == 0 ? 20000 : 300);
      const auto place = allocator.allocate(bytes);
      if (!place) continue;
      is_right &= *place % 64 == 0;
      for (std::uint64_t unit = *place / 64; unit < (*place + Allocator::rounded(bytes)) / 64;
           ++unit) {
        is_right &= unit < end && !taken[unit];
        taken[unit] = true;
      }
      used += Allocator::rounded(bytes);
      live.emplace_back(*place, bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto [place, bytes] = live.back();
      live.pop_back();
      allocator.free(place, bytes);
      used -= Allocator::rounded(bytes);
      for (std::uint64_t unit = place / 64; unit < (place + Allocator::rounded(bytes)) / 64; ++unit)
        taken[unit] = false;
    }
    is_right &= allocator.free_bytes() == end * 64 - used;
    REQUIRE(is_right);
  }
  for (const auto& [place, bytes] : live) allocator.free(place, bytes);
  CHECK(allocator.num_holes() == 1);
  CHECK(allocator.largest_hole() == 2 * kUnits * 64);
}

// 1 GiB kept nine tenths full with sizes from 64 bytes to 4 MiB, each power of two as often as the
// others, oldest first out as eviction does it: what is free must not fall to dust.
TEST_CASE("after a day of random sizes large objects still find room") {
  std::mt19937_64 random(11);
  Allocator allocator;
  constexpr std::uint64_t kMemory = 1 << 30;
  allocator.add(0, kMemory);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  std::size_t eldest = 0;
  std::uint64_t failures = 0, evicted_for_room = 0;
  constexpr int kObjects = 86400;  // one a second
  for (int i = 0; i < kObjects; ++i) {
    const std::uint64_t scale = std::uint64_t{64} << random() % 16;
    const std::uint64_t bytes = scale + random() % scale;
    while (allocator.free_bytes() < kMemory / 10 + bytes) {
      allocator.free(live[eldest].first, live[eldest].second);
      ++eldest;
    }
    auto place = allocator.allocate(bytes);
    while (!place) {
      ++failures;
      allocator.free(live[eldest].first, live[eldest].second);
      evicted_for_room += live[eldest++].second;
      place = allocator.allocate(bytes);
    }
    live.emplace_back(*place, bytes);
  }
  INFO("holes " << allocator.num_holes() << ", largest " << allocator.largest_hole() << " of "
                << allocator.free_bytes() << " free; evictions for lack of a hole " << failures
                << ", bytes " << evicted_for_room);
  CHECK(failures < kObjects / 100);
  CHECK(allocator.largest_hole() > 4 << 20);
}
