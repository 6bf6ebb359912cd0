// The model, against formulas of the literature and against what no algorithm can better.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "base/settings.hpp"
#include "coll/algorithms/algorithms.hpp"
#include "coll/select/counts.hpp"
#include "coll/select/model.hpp"

namespace weft::test {
namespace {

using namespace coll;
using C = Collective;

// Of a collective among n members with m bytes, as Rule counts them.
struct Shape {
  Collective collective;
  int n;
  double m;
  double rounds() const { return std::ceil(std::log2(n)); }
  double all_but_one() const { return (n - 1.0) / n; }
};

// (segments + hops) steps that carry a segment each, with as many segments as are best.
double in_segments(double bytes, double hops, double alpha, double byte) {
  double best = std::numeric_limits<double>::infinity();
  for (double segments = 1; segments <= bytes && segments < 1e5; segments *= 1.05) {
    const double whole = std::floor(segments);
    best = std::min(best, (whole + hops) * (alpha + bytes / whole * byte));
  }
  return best;
}

// The best of the published formulas (docs/design/collectives.md names them).
double published(const Shape& s, const Network& network) {
  const double a = network.alpha(), b = network.per_byte, g = network.reduce_per_byte;
  const double n = s.n, m = s.m, rounds = s.rounds(), part = s.all_but_one() * m;
  switch (s.collective) {
    case C::barrier:
      return rounds * a;
    case C::bcast:
      return std::min({rounds * (a + m * b), 2 * rounds * a + 2 * part * b,
                       in_segments(m, std::max(0.0, n - 2), a, b),
                       in_segments(m, rounds - 1, a, b)});
    case C::reduce:
      return std::min({rounds * (a + m * (b + g)), 2 * rounds * a + 2 * part * b + part * g});
    case C::allreduce:
      // Those that are no power of two take two rounds more where all is combined.
      return std::min(
          {(std::floor(std::log2(n)) + (std::exp2(rounds) == n ? 0 : 2)) * (a + m * (b + g)),
           2 * rounds * a + 2 * part * b + part * g});
    case C::gather:
    case C::scatter:
    case C::allgather:
      return rounds * a + (n - 1) * m * b;
    case C::alltoall:
      // The first is for powers of two.
      return std::min(rounds * (a + std::floor(n / 2) * m * b), (n - 1) * (a + m * b));
    case C::reduce_scatter:
      return rounds * a + part * (b + g);
    case C::scan:
      return rounds * (a + m * (b + 2 * g));
  }
  return 0;
}

// The sum of what the rounds, the bytes and the combinations take at least (E. Chan, M. Heimlich,
// A. Purkayastha, R. van de Geijn, "Collective communication: theory, practice, and experience",
// 2007, section 4).
double least(const Shape& s, const Network& network) {
  const double b = network.per_byte, g = network.reduce_per_byte;
  const double m = s.m, part = s.all_but_one() * m, rounds = s.rounds() * network.alpha();
  switch (s.collective) {
    case C::barrier:
      return rounds;
    case C::bcast:
      return rounds + m * b;
    case C::reduce:
      return rounds + m * b + part * g;
    case C::allreduce:
      return rounds + 2 * part * b + part * g;
    case C::gather:
    case C::scatter:
    case C::allgather:
    case C::alltoall:
      return rounds + (s.n - 1) * m * b;
    case C::reduce_scatter:
      return rounds + part * (b + g);
    case C::scan:
      return rounds + m * (b + g);
  }
  return 0;
}

Algorithm chosen(const Shape& s, const Choices& choices = {}) {
  return choose(s.collective, {s.n, static_cast<std::size_t>(s.m)}, choices);
}

double time_of(const Shape& s, Algorithm algorithm, const Network& network) {
  return coll::time_of(s.collective, algorithm, s.n, static_cast<std::size_t>(s.m), network);
}

template <class Check>
void for_shapes(const std::vector<int>& sizes, const std::vector<double>& lengths,
                const Check& check) {
  for (std::size_t c = 0; c < kNumCollectives; ++c)
    for (const int n : sizes)
      for (const double m : lengths) {
        const Shape shape{static_cast<Collective>(c), n, m};
        const bool has_blocks = shape.collective == C::gather || shape.collective == C::scatter ||
                                shape.collective == C::allgather || shape.collective == C::alltoall;
        if (has_blocks && n * m > 64e6) continue;
        INFO(name(shape.collective) << ", " << n << " members, " << m << " bytes");
        check(shape);
      }
}

TEST_CASE("what the table takes is as good as the best formula, and near the bounds") {
  const Network network{1500, 0, 0.08, 0.1};  // the formulas have overheads in their alpha
  for_shapes({2, 3, 4, 7, 8, 16, 33, 64, 100, 1000},
             {8, 256, 4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 24}, [&](const Shape& shape) {
               const Algorithm algorithm = chosen(shape);
               INFO(name(algorithm));
               const double time = time_of(shape, algorithm, network);
               CHECK(time <= 1.1 * published(shape, network));
               CHECK(time >= network.alpha());
               // Prefixes of middle lengths for many members have no short way here.
               const bool is_far = shape.collective == C::alltoall ||
                                   (shape.collective == C::scan && shape.n > 32 && shape.m > 8192 &&
                                    shape.m <= 1 << 20);
               if (!is_far) CHECK(time <= 2 * least(shape, network));
             });
}

TEST_CASE("a table that is made for a network takes what is fastest there") {
  const Network network{20000, 3000, 8, 0.1};
  Settings settings;
  const std::string table = table_for(network, 64);
  INFO(table);
  REQUIRE(settings.set("COLL_ALGORITHMS", table).ok());
  const Choices choices = Choices::from(settings);
  for_shapes({2, 3, 4, 6, 8, 12, 16, 48, 64}, {8, 256, 4096, 16384, 65536, 1 << 18, 1 << 20},
             [&](const Shape& shape) {
               double fastest = time_of(shape, chosen(shape), network);
               for (const Algorithm algorithm : algorithms_of(shape.collective))
                 fastest = std::min(fastest, time_of(shape, algorithm, network));
               CHECK(time_of(shape, chosen(shape, choices), network) <= 1.3 * fastest);
             });
}

TEST_CASE("times of single messages") {
  const Network network{1000, 100, 2, 3};
  const auto time = [&](const auto& first, const auto& second) {
    std::vector<Plan> plans(2);
    first(plans[0]);
    second(plans[1]);
    return coll::time_of(plans, network);
  };
  const auto nothing = [](Plan&) {};
  CHECK(time(nothing, nothing) == 0);
  const auto send = [](Plan& plan) { plan.send(1, kInput, 50); };
  const auto receive = [](Plan& plan) { plan.receive(0, kOutput, 50); };
  // Overhead, latency, bytes, overhead.
  CHECK(time(send, receive) == Approx(100 + 1000 + 50 * 2 + 100));
  // Two messages share both ports, but not the way between.
  const auto send_twice = [](Plan& plan) {
    plan.send(1, kInput, 50);
    plan.send(1, kInput, 50);
  };
  const auto receive_twice = [](Plan& plan) {
    plan.receive(0, kOutput, 50);
    plan.receive(0, kOutput + 50, 50);
  };
  CHECK(time(send_twice, receive_twice) == Approx(100 + 1000 + 2 * 50 * 2 + 100));
  // What is combined waits for its message, and takes time by itself.
  CHECK(time(send, [](Plan& plan) {
          const int came = plan.receive(0, kOutput, 50);
          plan.reduce(kOutput, kInput, 50, came);
        }) == Approx(100 + 1000 + 50 * 2 + 100 + 50 * 3));
}

TEST_CASE("every algorithm that the table or the settings take is counted") {
  for (const Rule& rule : rules()) CHECK(has_algorithm(rule.collective, rule.algorithm));
  const auto row = std::ranges::find(setting_rows(), Setting::coll_algorithms, &SettingRow::id);
  REQUIRE(row != setting_rows().end());
  for (std::size_t c = 0; c < kNumCollectives; ++c) {
    const auto collective = static_cast<C>(c);
    const std::string picks = '|' + std::string(pick_of(row->meaning, name(collective))) + '|';
    for (int a = 0; a <= static_cast<int>(kLastAlgorithm); ++a) {
      const auto algorithm = static_cast<Algorithm>(a);
      INFO(name(collective) << " by " << name(algorithm));
      const bool is_sent_at_once = collective == C::alltoall && algorithm == Algorithm::linear;
      const bool is_picked = picks.find('|' + std::string(name(algorithm)) + '|') != picks.npos;
      CHECK(has_algorithm(collective, algorithm) == (is_picked || is_sent_at_once));
    }
  }
}

}  // namespace
}  // namespace weft::test
