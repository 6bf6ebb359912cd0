// Both state machines through a network of bad luck: results are exact, or the hosts compute, and
// never both.
#include <fmt/core.h>

#include <catch2/catch.hpp>

#include "coll/switch/socket_address.hpp"
#include "offload/network.hpp"

namespace weft::testing {
namespace {

using innet::Answer;
using innet::Element;
using innet::Operation;
using State = offload::Leader::State;
using Bytes = std::vector<std::byte>;

Bytes numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count * 8);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::uniform_real_distribution<>(-1e6, 1e6)(random) *
                         std::pow(10, static_cast<int>(random() % 20) - 10);
    std::memcpy(bytes.data() + i * 8, &value, 8);
  }
  return bytes;
}

// Sums in the order that ordered mode promises.
Bytes sum_in_order(std::vector<Bytes> vectors, const offload::SumOrder& order) {
  for (const auto& step : order) {
    const Bytes& from = vectors[static_cast<std::size_t>(step.from)];
    Bytes& to = vectors[static_cast<std::size_t>(step.to)];
    for (std::size_t i = 0; i < to.size(); i += 8) {
      double a, b;
      std::memcpy(&a, to.data() + i, 8);
      std::memcpy(&b, from.data() + i, 8);
      a += b;
      std::memcpy(to.data() + i, &a, 8);
    }
  }
  return vectors[0];
}

// With tops every tor has one of the spines above it, and all spines have all tops.
struct Topology {
  int hosts, tors, spines, tops = 0;
};

struct World {
  World(std::uint64_t seed, Topology shape, Luck luck, bool ordered = true) : network(seed, luck) {
    innet::AggregatorOptions options;
    options.payload_bytes = 256;
    options.seed = seed + 1;
    options.is_spine = true;
    for (int i = 0; i < shape.tops; ++i)
      tops.push_back(std::make_unique<Switch>(network, address(5, i), options));
    for (auto& top : tops) options.spines.push_back(top->at());
    for (int i = 0; i < shape.spines; ++i)
      spines.push_back(std::make_unique<Switch>(network, address(3, i), options));
    options.is_spine = false;
    for (int i = 0; i < shape.tors; ++i) {
      options.spines.clear();
      for (int j = 0; j < shape.spines; ++j)
        if (shape.tops == 0 || i % shape.spines == j) options.spines.push_back(address(3, j));
      tors.push_back(std::make_unique<Switch>(network, address(2, i), options));
    }
    // Uneven numbers of hosts: the first switches have one more, and one has one alone.
    for (int i = 0; i < shape.hosts; ++i)
      tor_of.push_back(i == 0 ? tors.back()->at()
                              : tors[static_cast<std::size_t>(i % shape.tors)]->at());
    hosts = std::make_unique<Hosts>(network, tor_of, ordered);
  }
  // All begin at times of their own, and end one operation. How many computed it by messages.
  int operation(std::size_t count, std::uint64_t seed) {
    std::vector<Bytes> vectors;
    for (std::size_t i = 0; i < hosts->hosts.size(); ++i)
      vectors.push_back(numbers(count, seed * 100 + i));
    const Bytes expected = sum_in_order(vectors, hosts->order);
    std::vector<std::uint64_t> begin_ns;
    for (std::size_t i = 0; i < vectors.size(); ++i)
      begin_ns.push_back(network.now_ns + network.random() % 3'000'000);
    std::vector<bool> begun(vectors.size());
    int by_hosts = 0;
    const bool settled = hosts->settle([&](Hosts::Host& host) {
      const auto i = static_cast<std::size_t>(host.number);
      if (!begun[i] && network.now_ns >= begin_ns[i]) {
        begun[i] = true;
        host.leader.begin(Element::f64, Operation::sum, vectors[i], network.now_ns);
      }
      if (!begun[i]) return false;
      if (host.leader.state() == State::done) return true;
      if (host.leader.state() != State::host) return false;
      // The hosts' algorithm ends nowhere before all are in it.
      for (std::size_t other = 0; other < vectors.size(); ++other) {
        const auto& leader = hosts->hosts[other]->leader;
        if (!begun[other] || leader.operation() != host.leader.operation()) return false;
        if (leader.state() != State::host && leader.state() != State::done) return false;
        if (leader.state() == State::done && host_ops[other] != leader.operation()) return false;
      }
      ++by_hosts;
      host_ops[i] = host.leader.operation();
      host.leader.finish(expected);
      return true;
    });
    REQUIRE(settled);
    for (auto& host : hosts->hosts) {
      const auto result = host->leader.result();
      REQUIRE(Bytes(result.begin(), result.end()) == expected);
    }
    return by_hosts;
  }

  Network network;
  std::vector<std::unique_ptr<Switch>> tops, spines, tors;
  std::vector<innet::Address> tor_of;
  std::unique_ptr<Hosts> hosts;
  std::map<std::size_t, std::uint32_t> host_ops;
};

// The paper's regular case, formulas (1) to (6): S nodes of N sockets of P processes, ranks one
// after the other. Indices are from 1.
namespace regular {

std::vector<int> mrr(int sockets, int processes) {
  std::vector<int> ranks;
  for (int i = 0; i < sockets; ++i) ranks.push_back(i * processes);
  return ranks;
}
std::vector<int> nmrr(int sockets, int nodes, int processes) {
  std::vector<int> ranks;
  for (int i = sockets; i < nodes * sockets; ++i) ranks.push_back(i * processes);
  return ranks;
}
int mrr_of(int nmrr_index, int sockets) { return (nmrr_index - 1) % sockets + 1; }
std::vector<int> nmrr_of(int mrr_index, int sockets, int nodes) {
  std::vector<int> indices;
  for (int k = 0; k <= nodes - 2; ++k) indices.push_back(k * sockets + mrr_index);
  return indices;
}
int ring_next(int index, int sockets, int nodes_under_tor) {
  return index <= (nodes_under_tor - 1) * sockets ? index + sockets : (index - 1) % sockets + 1;
}

}  // namespace regular

const Luck kGood{};
Luck bad(double loss) { return {loss, 0.05, 5'000, 40'000, 0.02, 30'000'000}; }

TEST_CASE("every window packet is sent and received once by a host, and once by each link") {
  for (const Topology shape :
       {Topology{4, 1, 0}, {16, 1, 0}, {9, 3, 2}, {16, 4, 2}, {18, 6, 2, 1}}) {
    World world(5, shape, kGood);
    REQUIRE(world.hosts->enrol(1, 16).empty());
    world.network.sent.clear();
    world.network.payload.clear();
    constexpr std::size_t kCount = 3200;  // 100 packets of 256 bytes
    // All begin at once: who is early repeats.
    std::vector<Bytes> vectors(static_cast<std::size_t>(shape.hosts), numbers(kCount, 1));
    for (auto& host : world.hosts->hosts)
      host->leader.begin(Element::f64, Operation::sum, vectors[0], world.network.now_ns);
    REQUIRE(
        world.hosts->settle([](Hosts::Host& host) { return host.leader.state() == State::done; }));
    for (const auto& [link, packets] : world.network.sent) CHECK(packets == 100);
    for (const auto& [link, bytes] : world.network.payload) CHECK(bytes == kCount * 8);
    const std::size_t links = static_cast<std::size_t>(
        shape.hosts + (shape.tors > 1 ? shape.tors : 0) + (shape.tops > 0 ? shape.spines : 0));
    CHECK(world.network.sent.size() == 2 * links);
  }
}

TEST_CASE("where results take long, contributions are not repeated before they can be here") {
  // From 10 us, where the least time to a repetition is long, to three times that.
  for (const std::uint64_t delay_ns : {5'000, 1'500'000, 6'000'000}) {
    INFO(delay_ns << " ns a way");
    World world(11, {8, 1, 0}, {0, 0, delay_ns, delay_ns / 4});
    REQUIRE(world.hosts->enrol(1, 16).empty());
    const std::vector<Bytes> vectors(8, numbers(8192, 1));  // 256 packets of 256 bytes
    const auto repeated = [&] {
      std::uint64_t sum = 0;
      for (auto& host : world.hosts->hosts) sum += host->leader.counters().repeated;
      return sum;
    };
    std::uint64_t learnt = 0;
    for (int operation = 0; operation < 10; ++operation) {
      if (operation == 2) learnt = repeated();
      for (auto& host : world.hosts->hosts)
        host->leader.begin(Element::f64, Operation::sum, vectors[0], world.network.now_ns);
      REQUIRE(world.hosts->settle(
          [](Hosts::Host& host) { return host.leader.state() == State::done; }));
    }
    CHECK(repeated() - learnt <= 8 * 8 * 256 / 100);
  }
}

TEST_CASE("a leader whose sockets came late counts operations as the others do") {
  World world(7, {3, 1, 0}, kGood);
  const Bytes vector = numbers(40, 1);
  for (std::size_t host = 1; host < 3; ++host) {
    auto& leader = world.hosts->hosts[host]->leader;
    for (int i = 0; i < 3; ++i) {
      leader.begin(Element::f64, Operation::sum, vector, world.network.now_ns);
      REQUIRE(leader.state() == State::host);
      leader.finish(vector);
    }
  }
  world.hosts->hosts[0]->leader.number_from(3);
  REQUIRE(world.hosts->enrol(1, 16).empty());
  CHECK(world.operation(500, 1) == 0);
  CHECK(world.operation(500, 2) == 0);
}

// The nearest number with eight bits of mantissa, halfway the even one, as bits of a bfloat16. What
// is added is a float in between.
std::uint16_t bfloat16_of(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<float>(value), &exponent);
  const auto near =
      static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
  std::uint32_t bits;
  std::memcpy(&bits, &near, 4);
  return static_cast<std::uint16_t>(bits >> 16);
}
double value_of(std::uint16_t bfloat16) {
  const std::uint32_t bits = std::uint32_t{bfloat16} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

TEST_CASE("sums of bfloat16 are rounded after each addition, in order") {
  World world(3, {4, 2, 1}, bad(0.05));
  REQUIRE(world.hosts->enrol(1, 8).empty());
  constexpr std::size_t kCount = 1000;
  std::vector<std::vector<std::uint16_t>> vectors(4, std::vector<std::uint16_t>(kCount));
  for (auto& vector : vectors)
    for (auto& one : vector)
      one = bfloat16_of(std::ldexp(std::uniform_real_distribution<>(-1, 1)(world.network.random),
                                   static_cast<int>(world.network.random() % 12)));
  for (std::size_t i = 0; i < 4; ++i) {
    const auto bytes = std::as_bytes(std::span(vectors[i]));
    world.hosts->hosts[i]->leader.begin(Element::bf16, Operation::sum, bytes, world.network.now_ns);
  }
  REQUIRE(
      world.hosts->settle([](Hosts::Host& host) { return host.leader.state() == State::done; }));
  for (std::size_t i = 0; i < kCount; ++i) {
    std::vector<double> sums;
    for (const auto& vector : vectors) sums.push_back(value_of(vector[i]));
    for (const auto& step : world.hosts->order) {
      double& to = sums[static_cast<std::size_t>(step.to)];
      to = value_of(bfloat16_of(to + sums[static_cast<std::size_t>(step.from)]));
    }
    for (const auto& host : world.hosts->hosts) {
      std::uint16_t got;
      std::memcpy(&got, host->leader.result().data() + 2 * i, 2);
      REQUIRE(value_of(got) == sums[0]);
    }
  }
}

TEST_CASE("results are exact at any loss, doubling and reordering") {
  for (const double loss : {0.0, 0.01, 0.1, 0.4}) {
    for (const Topology shape : {Topology{2, 1, 0}, {5, 2, 1}, {16, 4, 2}, {14, 6, 3, 2}}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        INFO("loss " << loss << ", " << shape.hosts << " hosts, seed " << seed);
        World world(seed, shape, bad(loss));
        REQUIRE(world.hosts->enrol(1, 8).empty());
        int by_hosts = 0;
        for (std::uint64_t n = 0; n < 12; ++n)
          by_hosts += world.operation(1 + world.network.random() % 700, seed * 1000 + n);
        if (loss < 0.2) CHECK(by_hosts == 0);
      }
    }
  }
}

TEST_CASE("a contribution that comes many reuses of its slot later is not added") {
  // Packets that are up to half a second late meet slots that were reused hundreds of times.
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    World world(seed, {3, 1, 0}, {0.0, 0.3, 5'000, 10'000, 0.2, 500'000'000});
    REQUIRE(world.hosts->enrol(1, 2).empty());
    for (std::uint64_t n = 0; n < 20; ++n) CHECK(world.operation(300, n) == 0);
    CHECK(world.tors[0]->core->counters().stale > 0);
  }
}

TEST_CASE("a switch that dies or restarts in the middle costs no result") {
  for (const double loss : {0.0, 0.1}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      INFO("loss " << loss << ", seed " << seed);
      // A third of them have three levels.
      const bool is_high = seed % 3 == 1;
      World world(seed, is_high ? Topology{6, 3, 2, 1} : Topology{6, 2, 1}, bad(loss));
      REQUIRE(world.hosts->enrol(1, 8).empty());
      CHECK(world.hosts->num_levels == (is_high ? 3 : 2));
      CHECK(world.operation(500, 1) == 0);
      // It happens while packets of the next operation are under way.
      const bool top = seed % 2 == 0, again = seed % 4 < 2;
      Switch& victim = !top                       ? *world.tors[seed % 3 == 0 ? 1 : 0]
                       : seed % 4 == 0 && is_high ? *world.tops[0]
                                                  : *world.spines[0];
      std::vector<Bytes> vectors;
      for (std::size_t i = 0; i < 6; ++i) vectors.push_back(numbers(500, seed * 7 + i));
      const Bytes expected = sum_in_order(vectors, world.hosts->order);
      for (std::size_t i = 0; i < 6; ++i)
        world.hosts->hosts[i]->leader.begin(Element::f64, Operation::sum, vectors[i],
                                            world.network.now_ns);
      world.network.run_until(world.network.now_ns + 10'000 + world.network.random() % 300'000);
      again ? victim.start() : victim.stop();
      int done = 0, host = 0;
      REQUIRE(world.hosts->settle([](Hosts::Host& at) {
        return at.leader.state() == State::done || at.leader.state() == State::host;
      }));
      for (auto& at : world.hosts->hosts) (at->leader.state() == State::done ? done : host) += 1;
      // All or none.
      CHECK((done == 6 || host == 6));
      for (auto& at : world.hosts->hosts) {
        if (at->leader.state() == State::host) {
          const auto kept = at->leader.contribution();
          CHECK(Bytes(kept.begin(), kept.end()) == vectors[static_cast<std::size_t>(at->number)]);
          at->leader.finish(expected);
        }
        const auto result = at->leader.result();
        CHECK(Bytes(result.begin(), result.end()) == expected);
      }
      // From here on the hosts compute, after at most one more operation that found out.
      for (std::uint64_t n = 2; n < 6; ++n) {
        const int by_hosts = world.operation(200, n);
        CHECK((by_hosts == 0 || by_hosts == 6));
        if (n > 3 && !(again && done == 6)) CHECK(by_hosts == 6);
      }
      // The group is made anew.
      if (!again) victim.start();
      REQUIRE(world.hosts->enrol(2, 8).empty());
      CHECK(world.operation(300, 9) == 0);
    }
  }
}

TEST_CASE("a top that is gone is not taken for the next group, nor a spine that is full") {
  World world(5, {12, 4, 2, 2}, kGood);
  REQUIRE(world.hosts->enrol(1, 8).empty());
  CHECK(world.hosts->num_levels == 3);
  CHECK(world.operation(300, 1) == 0);
  const std::size_t used = world.tops[0]->core->num_groups() == 1 ? 0 : 1;
  REQUIRE(world.tops[used]->core->num_groups() == 1);
  world.tops[used]->stop();
  world.network.run_until(world.network.now_ns + 2'000'000'000);
  REQUIRE(world.hosts->enrol(2, 8).empty());
  CHECK(world.tops[1 - used]->core->num_groups() == 1);
  CHECK(world.operation(300, 2) == 0);
  // Tors under both spines: two levels do, unless a spine takes but two of the four.
  for (const bool is_small : {false, true}) {
    innet::Capabilities can;
    can.features = innet::kFeatureOrdered;
    can.elements = can.operations = ~0u;
    can.payload_bytes = 64;
    can.max_children = 4;
    can.free_groups = 9;
    innet::Capabilities::Spine one;
    one.answers = true;
    one.features = innet::kFeatureOrdered;
    one.elements = one.operations = ~0u;
    one.payload_bytes = 64;
    one.free_groups = 5;
    one.max_children = is_small ? 2 : 4;
    for (int spine = 0; spine < 2; ++spine) {
      one.address = address(3, spine);
      can.spines.push_back(one);
    }
    one.max_children = 2;
    one.address = address(5, 0);
    for (const std::uint8_t below : {1, 2}) {
      one.below = below;
      can.spines.push_back(one);
    }
    std::vector<offload::Report> reports;
    for (int i = 0; i < 8; ++i) reports.push_back({address(2, i % 4), true, can});
    const offload::Tree tree = offload::grow(reports, true);
    REQUIRE(tree.refusal.empty());
    CHECK(tree.levels == (is_small ? std::vector{4, 2, 1} : std::vector{4, 1}));
    CHECK(tree.top == (is_small ? address(5, 0) : address(3, 0)));
    CHECK(tree.branches[7].num_above == (is_small ? 2 : 1));
    CHECK(tree.branches[7].above[0] ==
          (is_small ? innet::Parent{address(3, 1), 1, 2} : innet::Parent{address(3, 0), 3, 4}));
    // What two levels add in another order than three.
    CHECK((tree.order == offload::order_of_sums({address(2, 0), address(2, 1), address(2, 2),
                                                 address(2, 3), address(2, 0), address(2, 1),
                                                 address(2, 2), address(2, 3)})) != is_small);
  }
}

TEST_CASE("switches that lead in a circle answer, and are asked no more than they were") {
  Network network(3, kGood);
  innet::AggregatorOptions options;
  options.is_spine = true;
  options.seed = 1;
  std::vector<std::unique_ptr<Switch>> circle;
  for (int i = 0; i < 3; ++i) {
    options.spines = {address(3, (i + 1) % 3)};
    circle.push_back(std::make_unique<Switch>(network, address(3, i), options));
  }
  Hosts hosts(network, std::vector<innet::Address>(2, address(3, 0)), true);
  CHECK(hosts.enrol(1, 4).empty());
  network.run_until(network.now_ns + 1'000'000'000);
  std::uint64_t asked = 0;
  for (auto& one : circle) asked += one->core->counters().queries;
  // Each of a query's two copies up, and no more.
  CHECK(asked <= 3 * circle[0]->core->counters().queries);
}

TEST_CASE("10,000 leaders under three levels of switches") {
  World world(1, {10'000, 160, 3, 1}, kGood);
  REQUIRE(world.hosts->enrol(1, 4) == "");
  CHECK(world.hosts->num_levels == 3);
  CHECK(world.operation(60, 1) == 0);
  CHECK(world.tops[0]->core->counters().completed == 2);
}

TEST_CASE("a spine that is gone is not taken for the next group") {
  World world(5, {4, 2, 2}, kGood);
  REQUIRE(world.hosts->enrol(1, 8).empty());
  CHECK(world.operation(300, 1) == 0);
  const std::size_t used = world.spines[0]->core->num_groups() == 1 ? 0 : 1;
  REQUIRE(world.spines[used]->core->num_groups() == 1);
  world.spines[used]->stop();
  world.network.run_until(world.network.now_ns + 2'000'000'000);
  REQUIRE(world.hosts->enrol(2, 8).empty());
  CHECK(world.spines[1 - used]->core->num_groups() == 1);
  CHECK(world.operation(300, 2) == 0);
}

TEST_CASE("a leader that lacks the result takes it from one that has it") {
  int fetched = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    World world(seed, {4, 1, 0}, kGood);
    REQUIRE(world.hosts->enrol(1, 4).empty());
    // As much as one window: all of it is contributed at once.
    std::vector<Bytes> vectors(4, numbers(100, seed));
    for (std::size_t i = 0; i < 4; ++i)
      world.hosts->hosts[i]->leader.begin(Element::f64, Operation::sum, vectors[i],
                                          world.network.now_ns);
    // One hears nothing of the switch any more, the others get their results; then it dies.
    world.network.run_until(world.network.now_ns + 6'000);
    const auto deaf = static_cast<int>(seed % 4);
    world.network.detach(address(1, deaf));
    REQUIRE(world.hosts->settle(
        [&](Hosts::Host& at) { return at.number == deaf || at.leader.state() != State::working; }));
    world.tors[0]->stop();
    REQUIRE(world.hosts->settle([](Hosts::Host& at) {
      return at.leader.state() == State::done || at.leader.state() == State::host;
    }));
    const auto& leader = world.hosts->hosts[static_cast<std::size_t>(deaf)]->leader;
    fetched += static_cast<int>(leader.counters().fetched);
    const auto first =
        world.hosts->hosts[static_cast<std::size_t>((deaf + 1) % 4)]->leader.result();
    const auto mine = leader.result();
    if (leader.state() == State::done)
      CHECK(Bytes(mine.begin(), mine.end()) == Bytes(first.begin(), first.end()));
  }
  CHECK(fetched == 30);
}

TEST_CASE("a switch refuses what it has no room for, and forgets dead groups") {
  Network network(3, kGood);
  innet::AggregatorOptions options;
  options.max_groups = 2;
  options.seed = 1;
  Switch tor(network, address(2, 0), options);
  std::vector<std::unique_ptr<Hosts>> jobs;
  for (std::uint32_t i = 0; i < 3; ++i) {
    jobs.push_back(
        std::make_unique<Hosts>(network, std::vector<innet::Address>(2, address(2, 0)), true));
    jobs.back()->group = 100 + i;
    const std::string why = jobs.back()->enrol(1, 4);
    CHECK(why.empty() == (i < 2));
  }
  CHECK(tor.core->num_groups() == 2);
  tor.core->expire(network.now_ns + 59'000'000'000);
  CHECK(tor.core->num_groups() == 2);
  tor.core->expire(network.now_ns + 61'000'000'000);
  CHECK(tor.core->num_groups() == 0);
  CHECK(jobs[2]->enrol(1, 4).empty());
}

TEST_CASE("the paper's worked example: N=2, S=9, P=4") {
  CHECK(regular::mrr(2, 4) == std::vector{0, 4});
  CHECK(regular::nmrr(2, 9, 4) ==
        std::vector{8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68});
  // NMRR 8, 16, ... speak to MRR 0; 12, 20, ... to 4.
  for (int i = 1; i <= 16; ++i) CHECK(regular::mrr_of(i, 2) == (i % 2 == 1 ? 1 : 2));
  CHECK(regular::nmrr_of(1, 2, 9) == std::vector{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(regular::nmrr_of(2, 2, 9) == std::vector{2, 4, 6, 8, 10, 12, 14, 16});
  // Under the first TOR: 0, 8, 16 and 4, 12, 20 in circles (indices 1, 3, 5 and 2, 4, 6).
  const int expected[] = {3, 4, 5, 6, 1, 2};
  for (int i = 1; i <= 6; ++i) CHECK(regular::ring_next(i, 2, 3) == expected[i - 1]);
  // The general case gives the same leaders.
  std::vector<offload::Location> places;
  for (int rank = 0; rank < 72; ++rank) places.push_back({rank / 8, rank / 4 % 2, {}});
  std::vector<int> leaders;
  for (const auto& group : offload::lead(places, offload::Mode::socket)) {
    leaders.push_back(group[0]);
    CHECK(group.size() == 4);
  }
  std::vector<int> srr = regular::mrr(2, 4);
  for (const int rank : regular::nmrr(2, 9, 4)) srr.push_back(rank);
  CHECK(leaders == srr);
  CHECK(offload::lead(places, offload::Mode::node).size() == 9);
}

TEST_CASE("sockets have one leader where a switch has children enough, else nodes") {
  for (const int nodes : {3, 32, 33, 64, 65}) {
    std::vector<offload::Location> locations;
    for (int rank = 0; rank < nodes * 4; ++rank)
      locations.push_back({rank / 4, rank % 4 / 2, address(2, 0)});
    const auto mode = offload::mode_that_fits(locations, offload::Mode::socket);
    CHECK(mode == (nodes <= 32 ? offload::Mode::socket : offload::Mode::node));
    CHECK(offload::lead(locations, mode).size() ==
          static_cast<std::size_t>(nodes <= 32 ? 2 * nodes : nodes));
    // Two switches have twice as many.
    for (std::size_t rank = 0; rank < locations.size(); rank += 1)
      locations[rank].tor = address(2, static_cast<int>(rank) / 4 % 2);
    CHECK(offload::mode_that_fits(locations, offload::Mode::socket) ==
          (nodes <= 64 ? offload::Mode::socket : offload::Mode::node));
    CHECK(offload::mode_that_fits(locations, offload::Mode::node) == offload::Mode::node);
  }
}

TEST_CASE("addresses of both kinds survive packets and sockets") {
  for (const char* text : {"127.0.0.1:9000", "0.0.0.0:1", "255.255.255.255:65535", "[::1]:9000",
                           "[::]:1", "[2001:db8::ff00:42:8329]:4791", "[::10.1.2.3]:80"}) {
    INFO(text);
    const auto one = innet::parse_address(text);
    REQUIRE(one);
    CHECK(innet::text(*one) == text);
    CHECK(innet::from_socket(innet::to_socket(*one, innet::family_of(*one))) == *one);
    CHECK(innet::from_socket(innet::to_socket(*one, AF_INET6)) == *one);
    innet::Branch branch;
    branch.num_children = 2;
    branch.window = branch.lease_s = 1;
    branch.payload_bytes = 64;
    branch.num_above = 2;
    branch.above = {innet::Parent{*one, 1, 2}, innet::Parent{address(3, 0), 0, 1}};
    CHECK(innet::decode_branch(innet::encode(branch)) == branch);
    innet::Capabilities can;
    can.max_children = 7;
    can.groups = 100;
    can.free_groups = 99;
    can.slots = 1u << 31;
    can.free_slots = 3;
    for (int i = 0; i < innet::kMaxKnown; ++i) {
      auto& spine = can.spines.emplace_back();
      spine.below = static_cast<std::uint8_t>(i / 2);
      spine.address = *one;
      spine.max_children = static_cast<std::uint16_t>(i + 1);
    }
    const auto bytes = innet::encode(can);
    CHECK(bytes.size() <= innet::kQueryBytes);
    CHECK(innet::decode_capabilities(bytes) == can);
  }
}

TEST_CASE("a group has no more children than its switches say, and addresses of one kind") {
  innet::Capabilities can;
  can.features = innet::kFeatureOrdered;
  can.elements = can.operations = ~0u;
  can.payload_bytes = 64;
  can.max_children = 4;
  can.free_groups = 1;
  innet::Capabilities::Spine above;
  above.address = address(3, 0);
  above.answers = true;
  above.features = innet::kFeatureOrdered;
  above.elements = above.operations = ~0u;
  above.payload_bytes = 64;
  above.free_groups = 1;
  const auto refusal = [&](int leaders, int tors, std::uint16_t spine_takes) {
    std::vector<offload::Report> reports;
    innet::Capabilities all = can;
    above.max_children = spine_takes;
    all.spines = {above};
    for (int i = 0; i < leaders; ++i) reports.push_back({address(2, i % tors), true, all});
    return offload::grow(reports, true).refusal;
  };
  CHECK(refusal(4, 1, 2).empty());
  CHECK(refusal(5, 1, 2) == "5 leaders are more than the switch 10.2.0.0:1000 takes, 4");
  CHECK(refusal(8, 2, 2).empty());
  CHECK(refusal(9, 2, 2) == "5 leaders are more than the switch 10.2.0.0:1000 takes, 4");
  CHECK(refusal(9, 3, 3).empty());
  CHECK(refusal(9, 3, 2) == "3 switches are more than a spine takes, 2");
  CHECK(refusal(9, 3, 1) == "3 switches are more than a spine takes, 1");
  CHECK(refusal(9, 3, 0) == "no spine with room answers to the switches of all nodes");
  // Nor has a switch more than the protocol has numbers for, whatever it says.
  for (const std::uint16_t children : {64, 65, 300, 65535}) {
    innet::Capabilities own = can, spine = can;
    own.max_children = above.max_children = children;
    spine.spines = {above};
    const bool is_read = children <= innet::kMaxChildren;
    CHECK(innet::decode_capabilities(innet::encode(own)).has_value() == is_read);
    CHECK(innet::decode_capabilities(innet::encode(spine)).has_value() == is_read);
  }
  const std::vector<offload::Report> mixed{{*innet::parse_address("10.0.0.1:9000"), true, can},
                                           {*innet::parse_address("[fd00::1]:9000"), true, can}};
  CHECK(offload::grow(mixed, true).refusal ==
        "the switches 10.0.0.1:9000 and [fd00::1]:9000 have addresses of IPv4 and of IPv6");
  // And a switch keeps to it.
  Network network(3, kGood);
  innet::AggregatorOptions options;
  options.seed = 1;
  options.max_children = 2;
  Switch tor(network, address(2, 0), options);
  Hosts two(network, std::vector<innet::Address>(2, tor.at()), true);
  CHECK(two.enrol(1, 4).empty());
  Hosts three(network, std::vector<innet::Address>(3, tor.at()), true);
  three.group = 78;
  CHECK(three.enrol(1, 4) == "3 leaders are more than the switch 10.2.0.0:1000 takes, 2");
}

TEST_CASE("a switch is given by its address or its name") {
  std::string error;
  const auto by_name = offload::find_switch("localhost:9000", error);
  REQUIRE(by_name);
  CHECK(innet::text(*by_name) == "127.0.0.1:9000");
  CHECK(offload::find_switch("10.1.2.3:80", error) == innet::parse_address("10.1.2.3:80"));
  const auto ipv6 = offload::find_switch("[fd00:0::1]:9000", error);
  REQUIRE(ipv6);
  CHECK(innet::text(*ipv6) == "[fd00::1]:9000");
  CHECK(ipv6->is_ipv6);
  // The same address in another form.
  CHECK(offload::find_switch("[::ffff:10.1.2.3]:80", error) == innet::parse_address("10.1.2.3:80"));
  for (const char* wrong : {"", ":", ":9000", "localhost", "localhost:", "localhost:0",
                            "localhost:65536", "localhost:9000x", "10.1.2:3:", "::1:9000", "[::1]",
                            "[::1]:0", "[::g]:9000", "[localhost]:9000"}) {
    INFO(wrong);
    error.clear();
    CHECK_FALSE(offload::find_switch(wrong, error));
    CHECK(error == fmt::format("\"{}\" is no ADDRESS:PORT, [IPV6]:PORT or NAME:PORT", wrong));
  }
  CHECK_FALSE(offload::find_switch("no-such-name.invalid:9000", error));
  CHECK(error.find("the switch \"no-such-name.invalid\": ") == 0);
  // Of several addresses of a name the first is no switch's; nothing may be sent to it.
  const auto broadcast = *innet::parse_address("255.255.255.255:80");
  const auto own = *innet::parse_address("127.0.0.1:80");
  CHECK(offload::first_with_route(std::vector{broadcast, own}) == own);
  CHECK(offload::first_with_route(std::vector{broadcast}) == broadcast);
  std::vector<offload::Location> locations;
  CHECK(offload::read_placement("0-1 0 0 localhost:1\n2 1 0 127.0.0.1:1\n", 3, locations, error));
  CHECK(locations[0].tor == locations[2].tor);
}

TEST_CASE("a placement file says what is wrong with it") {
  std::vector<offload::Location> places;
  std::string error;
  REQUIRE(offload::read_placement("0-1 7 0 127.0.0.1:9000 # first\n\n2 8 1 127.0.0.1:9001\n", 3,
                                  places, error));
  CHECK(places[1].node == 7);
  CHECK(places[2].socket == 1);
  CHECK(innet::text(places[2].tor) == "127.0.0.1:9001");
  for (const char* wrong :
       {"0-1 0 0 127.0.0.1:9000\n", "0-3 0 0 127.0.0.1:9000\n", "0-2 0 127.0.0.1:9000\n",
        "0-2 0 0 127.0.0.1\n", "0-2 0 0 127.0.0.1:0\n", "0-2 0 0 1.2.3.4:5 x\n",
        "x 0 0 1.2.3.4:5\n", "0-1 0 0 1.2.3.4:5\n1-2 0 0 1.2.3.4:5\n", ""}) {
    INFO(wrong);
    CHECK_FALSE(offload::read_placement(wrong, 3, places, error));
    CHECK_FALSE(error.empty());
  }
}

}  // namespace
}  // namespace weft::testing
