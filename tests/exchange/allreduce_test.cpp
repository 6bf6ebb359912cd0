// Allreduce between ranks that are threads of this process. tests/offload has it as processes, with
// switches.
#include "weft/allreduce.hpp"

#include <cmath>
#include <limits>

#include "tests/exchange/ranks.hpp"

namespace weft::testing {

using namespace weft::transport;

namespace {

constexpr Reduce kAll[] = {Reduce::sum,     Reduce::product, Reduce::min,    Reduce::max,
                           Reduce::bit_and, Reduce::bit_or,  Reduce::bit_xor};

// Of one rank; small, so that sums and products of all are exact in every type.
template <class T>
T value(int rank, std::size_t i) {
  return static_cast<T>(1 + (static_cast<std::size_t>(rank) * 5 + i) % 3);
}

int apply(int a, int b, Reduce operation) {
  switch (operation) {
    case Reduce::sum:
      return a + b;
    case Reduce::product:
      return a * b;
    case Reduce::min:
      return std::min(a, b);
    case Reduce::max:
      return std::max(a, b);
    case Reduce::bit_and:
      return a & b;
    case Reduce::bit_or:
      return a | b;
    case Reduce::bit_xor:
      return a ^ b;
  }
  return 0;
}

template <class T>
void check_type(Job& job, Allreduce& allreduce) {
  constexpr bool kIsInteger = std::is_integral_v<T>;
  for (const Reduce operation : kAll)
    for (const std::size_t count : {0, 1, 7, 3000}) {
      std::vector<T> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = value<T>(job.rank(), i);
      const Status status = allreduce.run(std::span(values), operation);
      if (!kIsInteger && operation >= Reduce::bit_and) {
        EXPECT(status == Code::bad_argument);
        continue;
      }
      EXPECT(status.ok());
      for (std::size_t i = 0; i < count; ++i) {
        int expected = value<int>(0, i);
        for (int rank = 1; rank < job.size(); ++rank)
          expected = apply(expected, value<int>(rank, i), operation);
        EXPECT(static_cast<int>(static_cast<double>(values[i])) == expected);
      }
    }
}

}  // namespace

TEST_CASE("Allreduce of every type and operation", "[allreduce]") {
  const int num_ranks = GENERATE(1, 2, 3, 4);
  with_ranks(num_ranks, [](Job& job) {
    Allreduce allreduce(job);
    check_type<signed char>(job, allreduce);
    check_type<std::uint8_t>(job, allreduce);
    check_type<std::int16_t>(job, allreduce);
    check_type<std::uint16_t>(job, allreduce);
    check_type<std::int32_t>(job, allreduce);
    check_type<std::uint32_t>(job, allreduce);
    check_type<long>(job, allreduce);
    check_type<long long>(job, allreduce);
    check_type<unsigned long>(job, allreduce);
    check_type<float>(job, allreduce);
    check_type<double>(job, allreduce);
    check_type<Bfloat16>(job, allreduce);
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("several Allreduces among other collective calls, and in their turn", "[allreduce]") {
  with_ranks(3, [](Job& job) {
    Allreduce first(job);
    for (int round = 0; round < 20; ++round) {
      Allreduce second(job);
      int one[] = {job.rank() + round}, two[] = {job.rank() * round};
      EXPECT(first.run(std::span(one), Reduce::sum).ok());
      int three = 1;
      EXPECT(job.all_reduce(three, std::plus<>()).ok());
      EXPECT(second.run(std::span(two), Reduce::max).ok());
      EXPECT(one[0] == 3 + 3 * round);
      EXPECT(two[0] == 2 * round);
      EXPECT(three == 3);
    }
  });
  CHECK_NOTHING_WRONG();
}

TEST_CASE("a Bfloat16 is the nearest to a float", "[allreduce]") {
  CHECK(Bfloat16(1.0f).bits == 0x3f80);
  CHECK(float(Bfloat16(-2.5f)) == -2.5f);
  // Halfway between two, to the even one; and a little above that.
  CHECK(Bfloat16(1.00390625f).bits == 0x3f80);
  CHECK(Bfloat16(1.01171875f).bits == 0x3f82);
  CHECK(Bfloat16(1.00390637f).bits == 0x3f81);
  CHECK(std::isinf(float(Bfloat16(std::numeric_limits<float>::max()))));
  CHECK(std::isinf(float(Bfloat16(-std::numeric_limits<float>::infinity()))));
  CHECK(std::isnan(float(Bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(float(Bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace weft::testing
