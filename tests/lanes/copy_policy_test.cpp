// The table by which bytes are copied inside a host, alone.
#include "lanes/copy_policy.hpp"

#include <catch2/catch.hpp>

using namespace weft;

TEST_CASE("each length has one way, and the ways come in order") {
  Settings settings;
  REQUIRE(settings.set("EAGER_MAX_BYTES", "16K").ok());
  const CopyPolicy policy = CopyPolicy::read(settings, 16000);
  CHECK(policy.piece_bytes == CopyPolicy::kPieceBytes);
  struct Row {
    std::size_t length;
    bool announced, shared;
  };
  constexpr Row kRows[] = {
      {0, false, false},    {16384, false, false}, {16385, true, false},
      {32767, true, false}, {32768, true, true},   {1u << 30, true, true},
  };
  for (const Row& row : kRows) {
    INFO(row.length);
    CHECK(policy.uses_rendezvous(row.length) == row.announced);
    CHECK(policy.is_shared(row.length) == row.shared);
  }
}

TEST_CASE("no entry is longer than the ring takes") {
  CHECK(CopyPolicy::read(Settings(), 1000).piece_bytes == 1000);
}

TEST_CASE("data for a mirror are never copied by both sides") {
  const CopyPolicy plain = CopyPolicy::plain(1000, 5000);
  CHECK(plain.piece_bytes == 1000);
  CHECK(plain.uses_rendezvous(5001));
  CHECK_FALSE(plain.uses_rendezvous(5000));
  CHECK_FALSE(plain.is_shared(std::size_t{1} << 40));
}
