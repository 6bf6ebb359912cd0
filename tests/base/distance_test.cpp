// When a verdict on the distance of cores changes. How far they are is the machine's matter.
#include "base/distance.hpp"

#include <sched.h>

#include <catch2/catch.hpp>

using namespace weft;

TEST_CASE("a verdict changes only after several measurements, both ways") {
  DistanceVerdict verdict;
  CHECK(!verdict.note(false));
  for (int i = 0; i < DistanceVerdict::kSeen; ++i) {
    CHECK(verdict.far == 0);
    CHECK(verdict.note(true));
  }
  CHECK(verdict.far == 1);
  CHECK(!verdict.note(true));
  for (int i = 0; i < DistanceVerdict::kSeen; ++i) {
    CHECK(verdict.far == 1);
    CHECK(verdict.note(false));
  }
  CHECK(verdict.far == 0);
}

TEST_CASE("single measurements against the rest change nothing") {
  DistanceVerdict verdict;
  for (int i = 0; i < 100; ++i) {
    verdict.note(true);
    verdict.note(false);
    CHECK(verdict.far == 0);
  }
}

TEST_CASE("what is set is not measured") {
  Distance distance;
  CHECK(distance.is_measured());
  distance.set(true);
  CHECK(!distance.is_measured());
  for (int i = 0; i < 100; ++i) distance.note_line(1);
  CHECK(distance.is_far());
}

// However long it takes: a core is never far from itself.
TEST_CASE("looks from one core alone say nothing") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  DistanceLines lines{};
  for (int i = 0; i < 100'000; ++i) lines.look();
  CHECK(!lines.is_far());
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
}
