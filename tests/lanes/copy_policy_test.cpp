// The table by which bytes are copied inside a host, alone.
#include "lanes/copy_policy.hpp"

#include <catch2/catch.hpp>

using namespace weft;

namespace {

constexpr std::size_t kEntryMax = 16000;  // what a ring of 64 KiB takes

Settings with(std::initializer_list<std::pair<const char*, const char*>> rows) {
  Settings settings;
  for (const auto& [name, value] : rows) REQUIRE(settings.set(name, value).ok());
  return settings;
}

}  // namespace

TEST_CASE("each length has one way, and the ways come in order") {
  const Settings settings = with(
      {{"EAGER_PIECE_BYTES", "2K"}, {"PAST_CACHE_MIN_BYTES", "12K"}, {"EAGER_MAX_BYTES", "16K"}});
  const CopyPolicy near = CopyPolicy::read(settings, true, kEntryMax);
  struct Row {
    std::size_t length;
    bool past_cache;
    std::size_t piece;
    bool announced, shared;
  };
  constexpr Row kRows[] = {
      {0, false, 2048, false, false},     {2048, false, 2048, false, false},
      {12284, false, 3071, false, false}, {12288, true, 8192, false, false},
      {16384, true, 8192, false, false},  {16385, true, 8192, true, false},
      {32767, true, 8192, true, false},   {32768, true, 8192, true, true},
      {1u << 30, true, 8192, true, true},
  };
  for (const Row& row : kRows) {
    INFO(row.length);
    CHECK(near.is_past_cache(row.length) == row.past_cache);
    CHECK(near.piece_of(row.length) == row.piece);
    CHECK(near.uses_rendezvous(row.length) == row.announced);
    CHECK(near.is_shared(row.length) == row.shared);
  }
}

TEST_CASE("left alone, data go past the caches where there is no common one") {
  CHECK(CopyPolicy::read(Settings(), false, kEntryMax).past_cache_bytes ==
        CopyPolicy::kFarPastCacheBytes);
  CHECK_FALSE(CopyPolicy::read(Settings(), true, kEntryMax).is_past_cache(std::size_t{1} << 40));
  const Settings set = with({{"PAST_CACHE_MIN_BYTES", "512"}});
  CHECK(CopyPolicy::read(set, false, kEntryMax).past_cache_bytes == 512);
  CHECK(CopyPolicy::read(set, true, kEntryMax).past_cache_bytes == 512);
}

TEST_CASE("a long message near is cut in four, within what a piece may have") {
  const CopyPolicy near = CopyPolicy::read(Settings(), true, kEntryMax);
  CHECK(near.piece_of(3000) == near.piece_bytes);
  CHECK(near.piece_of(16384) == 4096);
  CHECK(near.piece_of(1 << 20) == near.long_piece_bytes);
}

TEST_CASE("no entry is longer than the ring takes, nor shorter than a piece") {
  CHECK(CopyPolicy::read(Settings(), true, 1000).long_piece_bytes ==
        Settings().bytes(Setting::eager_piece_bytes));
  CHECK(CopyPolicy::read(Settings(), true, 5000).long_piece_bytes == 5000);
}

TEST_CASE("data for a mirror are never written past the caches") {
  const CopyPolicy plain = CopyPolicy::plain(1000, 5000);
  CHECK_FALSE(plain.is_past_cache(std::size_t{1} << 40));
  CHECK(plain.piece_of(1 << 20) == 1000);
  CHECK(plain.uses_rendezvous(5001));
  CHECK_FALSE(plain.uses_rendezvous(5000));
  CHECK_FALSE(plain.is_shared(std::size_t{1} << 40));
}
