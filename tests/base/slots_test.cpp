// Things by number: an old number finds nothing, and a number is never 0.
#include "base/containers/slots.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

using weft::Slots;

TEST_CASE("a number finds its thing until that is gone", "[slots]") {
  Slots<int> slots;
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 100; ++i) {
    slots.make_room();
    numbers.push_back(slots.add(i));
  }
  CHECK(slots.size() == 100);
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t number = numbers[static_cast<std::size_t>(i)];
    REQUIRE(slots.find(number) != nullptr);
    CHECK(*slots.find(number) == i);
    CHECK(slots.in_place(number ^ 0xffff'0000) == slots.find(number));
    CHECK(slots.find(number ^ 0x10000) == nullptr);
  }
  CHECK(slots.find(0x10000 + 100) == nullptr);
  CHECK(slots.remove(numbers[7]) == 7);
  CHECK(slots.find(numbers[7]) == nullptr);
  CHECK(slots.in_place(numbers[7]) == nullptr);
  const std::uint32_t next = slots.add(-7);
  CHECK(next == numbers[7] + 0x10000);
  CHECK(slots.find(numbers[7]) == nullptr);
  CHECK(*slots.find(next) == -7);
}

TEST_CASE("numbers of one place go round, and are never 0", "[slots]") {
  Slots<int> slots;
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 0xffff; ++i) {
    slots.make_room();
    seen.insert(slots.add(i));
    slots.remove(*seen.rbegin());
  }
  CHECK(seen.size() == 0xffff);
  CHECK(*seen.begin() == 0x10000);
  CHECK(slots.add(0) == 0x10000);
  slots.make_room();
  CHECK(slots.add(1, 0x30005) == 0x50001);
  slots.make_room();
  CHECK(slots.add(2, 0x10000) == 0x10002);
}

TEST_CASE("each thing is visited once, and may go meanwhile", "[slots]") {
  Slots<std::unique_ptr<int>, std::uint64_t> slots;
  for (int i = 0; i < 10; ++i) {
    slots.make_room();
    slots.add(std::make_unique<int>(i));
  }
  int sum = 0;
  slots.for_each([&](std::uint64_t number, std::unique_ptr<int>& thing) {
    sum += *thing;
    if (*thing % 2 == 0) slots.remove(number);
  });
  CHECK(sum == 45);
  CHECK(slots.size() == 5);
  CHECK(slots.find(std::uint64_t{1} << 32) == nullptr);
  CHECK(**slots.find(std::uint64_t{1} << 32 | 1) == 1);
}
