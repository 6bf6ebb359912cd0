// A collective three ways in turn, in one job: by hosts alone, by the switch alone, and as auto
// chooses. tests/offload/three_ways starts it. Arguments: COLLECTIVE, ROUNDS, MILLISECONDS of a
// way's turn, then BYTES of the whole vector, any number of them. The element is a 64-bit integer,
// or with `COLLECTIVE:double` a double. Rank 0 prints for each length, in microseconds a call, the
// medians of the rounds for hosts, switch and auto; the medians of the rounds' ratios of auto to
// the better of the other two, and of the hosts' second turn to their first, which is noise; and
// the share of auto's calls that the switch took.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/wait.hpp"
#include "coll/offload/offload.hpp"
#include "coll/select/counts.hpp"
#include "job/members.hpp"
#include "tagged/engine.hpp"

namespace weft::testing {
namespace {

// The hosts twice: what these differ by is noise.
enum Way { hosts, by_switch, automatic, hosts_again, kNumWays };

[[noreturn]] void fail(const std::string& text) {
  fmt::print(stderr, "ways: {}\n", text);
  std::exit(1);
}
void expect(const Status& status) {
  if (!status) fail(status.text());
}

// The calls of one collective, with memory for the longest vector.
class Calls {
 public:
  Calls(const std::string& collective, bool is_double, int size, std::size_t most)
      : collective_(collective),
        sum_(is_double ? innet::Element::f64 : innet::Element::i64, innet::Operation::sum),
        mine_(most / 8 + static_cast<std::size_t>(size)),
        got_(most / 8 + static_cast<std::size_t>(size)),
        counts_(static_cast<std::size_t>(size)) {}

  static bool knows(const std::string& name) {
    constexpr const char* kNames[] = {"barrier",   "bcast",          "allreduce", "reduce",
                                      "allgather", "reduce_scatter", "block"};
    return std::ranges::find(kNames, name) != std::end(kNames);
  }

  void once(coll::Team& team, std::size_t bytes) {
    const std::size_t count = bytes / 8, size = counts_.size();
    if (collective_ == "barrier") {
      expect(coll::barrier(team));
    } else if (collective_ == "bcast") {
      expect(coll::bcast(team, mine_.data(), bytes, 0));
    } else if (collective_ == "allreduce") {
      expect(coll::allreduce(team, mine_.data(), got_.data(), count, sum_.reduction()));
    } else if (collective_ == "reduce") {
      expect(coll::reduce(team, mine_.data(), got_.data(), count, sum_.reduction(), 0));
    } else if (collective_ == "allgather") {
      expect(
          coll::allgather(team, mine_.data(), got_.data(), std::max<std::size_t>(8, bytes / size)));
    } else {
      // Equal parts as of MPI_Reduce_scatter_block, or what is over to the first.
      for (std::size_t rank = 0; rank < size; ++rank)
        counts_[rank] = collective_ == "block" ? std::max<std::size_t>(1, count / size)
                                               : count / size + (rank < count % size ? 1 : 0);
      expect(
          coll::reduce_scatter(team, mine_.data(), got_.data(), counts_.data(), sum_.reduction()));
    }
  }

 private:
  std::string collective_;
  offload::SumOp sum_;
  std::vector<std::int64_t> mine_, got_;
  std::vector<std::size_t> counts_;
};

struct Ways {
  tagged::Engine& engine;
  std::array<std::unique_ptr<coll::Team>, kNumWays> teams;
  // Between turns, so that none of those has its memory in caches for that.
  std::unique_ptr<coll::Team> between;
  const offload::SumOp most{innet::Element::f64, innet::Operation::max};

  // The greatest of all ranks.
  double greatest(double value) {
    expect(coll::allreduce(*between, nullptr, &value, 1, most.reduction()));
    return value;
  }
  // Microseconds a call on the slowest process.
  double time(Calls& calls, Way way, std::size_t bytes, int num) {
    expect(coll::barrier(*between));
    const std::uint64_t begin = now_ns();
    for (int i = 0; i < num; ++i) calls.once(*teams[way], bytes);
    return greatest(static_cast<double>(now_ns() - begin)) / num / 1000;
  }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double ratio(const std::vector<double>& some, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < some.size(); ++i) ratios.push_back(some[i] / others[i]);
  return median(ratios);
}

// How many calls of this process the switches took.
std::uint64_t num_switched() {
  std::uint64_t num = 0;
  for (std::size_t i = 0; i < coll::kNumCollectives; ++i)
    if (const auto collective = static_cast<coll::Collective>(i);
        coll::has_algorithm(collective, coll::Algorithm::by_switch))
      num += coll::tally_of(collective, coll::Algorithm::by_switch)
                 .calls.load(std::memory_order_relaxed);
  return num;
}

void measure(Ways& ways, Calls& calls, std::size_t bytes, int rounds, double turn_us, bool prints) {
  constexpr int kMost = 2000;
  // Two trials, and what is between them; calls that take longer than their turns have one trial.
  double us = ways.time(calls, hosts, bytes, 2);
  us = ways.time(calls, hosts, bytes, 2);
  (void)ways.time(calls, by_switch, bytes, 1);
  (void)ways.time(calls, automatic, bytes, us * 100 > 5 * turn_us ? 20 : 120);
  std::array<std::vector<double>, kNumWays> found;
  std::uint64_t switched = 0, called = 0;
  // A way that is far slower has fewer calls in its turn.
  std::array<double, kNumWays> last{us, us, us, us};
  // Any order, the same on all ranks: a turn may leave its traces in the next one.
  std::array<Way, kNumWays> order{hosts, by_switch, automatic, hosts_again};
  std::minstd_rand random;
  for (int round = 0; round < rounds; ++round) {
    std::ranges::shuffle(order, random);
    for (const Way way : order) {
      const int num = std::clamp(static_cast<int>(turn_us / last[way]), 1, kMost);
      const std::uint64_t before = num_switched();
      last[way] = ways.time(calls, way, bytes, num);
      found[way].push_back(last[way]);
      if (way != automatic) continue;
      switched += num_switched() - before;
      called += static_cast<std::uint64_t>(num);
    }
  }
  std::array<double, kNumWays> us_of{};
  for (std::size_t way = 0; way < kNumWays; ++way) us_of[way] = median(found[way]);
  if (!prints) return;
  const Way better = us_of[by_switch] < us_of[hosts] ? by_switch : hosts;
  fmt::print("{} {:.2f} {:.2f} {:.2f} {:.3f} {:.3f} {:.2f}\n", bytes, us_of[hosts],
             us_of[by_switch], us_of[automatic], ratio(found[automatic], found[better]),
             ratio(found[hosts_again], found[hosts]),
             static_cast<double>(switched) / static_cast<double>(called));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  std::string collective = argc > 4 ? argv[1] : "";
  const std::size_t colon = collective.find(':');
  const bool is_double = colon != std::string::npos && collective.substr(colon) == ":double";
  collective = collective.substr(0, colon);
  if (!Calls::knows(collective)) return 2;
  std::vector<std::size_t> lengths;
  for (int i = 4; i < argc; ++i) lengths.push_back(std::strtoull(argv[i], nullptr, 10));
  Settings settings;
  expect(Settings::from_environment(environ, settings));
  std::unique_ptr<Members> job;
  expect(Members::open(settings, job));
  std::unique_ptr<tagged::Engine> engine;
  expect(tagged::Engine::create(*job, engine));
  {
    std::vector<int> all(static_cast<std::size_t>(job->size()));
    std::iota(all.begin(), all.end(), 0);
    Ways ways{*engine, {}, std::make_unique<coll::Team>(*engine, all, kNumWays + 1)};
    ways.between->keep_to_hosts();
    for (std::uint32_t way = 0; way < kNumWays; ++way)
      ways.teams[way] = std::make_unique<coll::Team>(*engine, all, way + 1);
    ways.teams[hosts]->keep_to_hosts();
    ways.teams[hosts_again]->keep_to_hosts();
    ways.teams[by_switch]->offload()->force();
    Calls calls(collective, is_double, job->size(), std::ranges::max(lengths));
    for (const std::size_t bytes : lengths)
      measure(ways, calls, bytes, std::atoi(argv[2]), 1000 * std::atof(argv[3]), job->rank() == 0);
    for (const auto& team : ways.teams) team->close_offload();
    ways.between->close_offload();
  }
  expect(engine->close());
  expect(job->board().close());
  return 0;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) { return weft::testing::run(argc, argv); }
