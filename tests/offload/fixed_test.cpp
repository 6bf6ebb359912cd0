// Sums of floats by switches that add integers of 32 bits alone: within the bound that
// fixed_point.hpp states, the same on all hosts, and the hosts' own where integers cannot tell.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "coll/offload/fixed_point.hpp"
#include "offload/network.hpp"

namespace weft::testing {
namespace {

using innet::Element;
using innet::Operation;
using State = offload::Leader::State;
using Bytes = std::vector<std::byte>;

std::vector<float> floats(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mantissa = static_cast<float>(std::uniform_real_distribution<>(-1, 1)(random));
    // Chunks of very different sizes, some of zeros, some subnormal.
    const int size = static_cast<int>(i / 80 * 37 % 220) - 150;
    values[i] = random() % 5 == 0 ? 0.0f : std::ldexp(mantissa, size);
  }
  return values;
}

Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct World {
  World(std::uint64_t seed, int num_hosts, int num_tors, Luck luck) : network(seed, luck) {
    innet::AggregatorOptions options;
    options.payload_bytes = 256;
    options.seed = seed + 1;
    // All it can do.
    options.elements =
        1u << static_cast<unsigned>(Element::i32) | 1u << static_cast<unsigned>(Element::fixed);
    options.operations = 1u << static_cast<unsigned>(Operation::sum);
    options.features = 0;
    options.is_spine = true;
    if (num_tors > 1) switches.push_back(std::make_unique<Switch>(network, address(3, 0), options));
    options.is_spine = false;
    if (num_tors > 1) options.spines.push_back(address(3, 0));
    for (int i = 0; i < num_tors; ++i)
      switches.push_back(std::make_unique<Switch>(network, address(2, i), options));
    std::vector<innet::Address> tors;
    for (int i = 0; i < num_hosts; ++i) tors.push_back(address(2, i % num_tors));
    hosts = std::make_unique<Hosts>(network, tors, false);
    hosts->fixed = true;
  }
  // All begin, and run until the switch or the hosts are to have done it.
  void reduce(const std::vector<std::vector<float>>& vectors) {
    begin(vectors);
    REQUIRE(hosts->settle([](Hosts::Host& at) {
      return at.leader.state() == State::done || at.leader.state() == State::host;
    }));
  }
  void begin(const std::vector<std::vector<float>>& vectors) {
    for (std::size_t i = 0; i < vectors.size(); ++i)
      hosts->hosts[i]->leader.begin(Element::f32, Operation::sum, bytes_of(vectors[i]),
                                    network.now_ns);
  }
  int num_in(State state) const {
    int count = 0;
    for (const auto& host : hosts->hosts) count += host->leader.state() == state;
    return count;
  }
  std::vector<float> result(std::size_t host) const {
    const auto bytes = hosts->hosts[host]->leader.result();
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  Network network;
  std::vector<std::unique_ptr<Switch>> switches;
  std::unique_ptr<Hosts> hosts;
};

constexpr std::size_t kChunk = 256 / 4 - 1;

void check_bound(const std::vector<std::vector<float>>& vectors, const std::vector<float>& sums) {
  const auto n = vectors.size();
  const int bits = static_cast<int>(std::ceil(std::log2(static_cast<double>(n))));
  for (std::size_t first = 0; first < sums.size(); first += kChunk) {
    const std::size_t end = std::min(first + kChunk, sums.size());
    double largest = 0;
    for (const auto& vector : vectors)
      for (std::size_t i = first; i < end; ++i)
        largest = std::max(largest, std::abs(static_cast<double>(vector[i])));
    int exponent = 0;
    (void)std::frexp(largest, &exponent);
    for (std::size_t i = first; i < end; ++i) {
      double exact = 0;
      for (const auto& vector : vectors) exact += vector[i];
      const float ulp = std::nextafter(std::abs(sums[i]), std::numeric_limits<float>::infinity()) -
                        std::abs(sums[i]);
      const double bound =
          largest == 0 ? 0
                       : static_cast<double>(n) * std::ldexp(1.0, exponent + bits - 31) + ulp / 2.0;
      if (!(std::abs(sums[i] - exact) <= bound)) {
        INFO("element " << i << ": " << sums[i] << " for " << exact << ", bound " << bound);
        REQUIRE(false);
      }
    }
  }
}

std::vector<std::vector<float>> all_floats(int num_hosts, std::size_t count, std::uint64_t seed) {
  std::vector<std::vector<float>> vectors;
  for (int i = 0; i < num_hosts; ++i)
    vectors.push_back(floats(count, seed * 100 + static_cast<std::uint64_t>(i)));
  return vectors;
}

TEST_CASE("sums of integers are within the bound, and the same on all hosts") {
  for (const double loss : {0.0, 0.1})
    for (const int num_hosts : {1, 2, 5, 16})
      for (const std::size_t count : {1u, 63u, 64u, 500u, 3000u}) {
        INFO("loss " << loss << ", " << num_hosts << " hosts, " << count << " floats");
        World world(count + static_cast<std::size_t>(num_hosts), num_hosts, num_hosts > 4 ? 3 : 1,
                    {loss, 0.05, 5'000, 40'000, 0.02, 30'000'000});
        REQUIRE(world.hosts->enrol(1, 8).empty());
        for (std::uint64_t round = 0; round < 3; ++round) {
          const auto vectors = all_floats(num_hosts, count, round);
          world.reduce(vectors);
          REQUIRE(world.num_in(State::done) == num_hosts);
          const auto sums = world.result(0);
          for (int i = 1; i < num_hosts; ++i)
            REQUIRE(bytes_of(world.result(static_cast<std::size_t>(i))) == bytes_of(sums));
          check_bound(vectors, sums);
        }
      }
}

TEST_CASE("the largest floats do not overflow the integers") {
  World world(1, 16, 1, {});
  REQUIRE(world.hosts->enrol(1, 8).empty());
  for (const float value : {1.0f, std::nextafter(1.0f, 0.0f), -1.0f, 1.9999999f,
                            std::numeric_limits<float>::max() / 16}) {
    world.reduce(std::vector(16, std::vector<float>(70, value)));
    REQUIRE(world.num_in(State::done) == 16);
    CHECK(world.result(3) == std::vector<float>(70, value * 16));
  }
}

TEST_CASE("infinities and NaNs are the hosts' to add, on all of them, and the switch goes on") {
  for (const float strange : {std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), std::nanf("")})
    for (const std::size_t place : {0u, 70u, 2999u}) {
      World world(7, 4, 1, {0.05, 0.05, 5'000, 40'000, 0, 0});
      REQUIRE(world.hosts->enrol(1, 8).empty());
      auto vectors = all_floats(4, 3000, 1);
      vectors[2][place] = strange;
      world.reduce(vectors);
      CHECK(world.num_in(State::host) == 4);
      for (auto& host : world.hosts->hosts) {
        CHECK_FALSE(host->leader.is_frozen());
        host->leader.finish(bytes_of(vectors[0]));
      }
      const auto plain = all_floats(4, 3000, 2);
      world.reduce(plain);
      CHECK(world.num_in(State::done) == 4);
      check_bound(plain, world.result(1));
    }
}

TEST_CASE("a switch that dies in a sum of integers costs no result") {
  int by_hosts = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    World world(seed, 5, 1, {0.05, 0.05, 5'000, 40'000, 0, 0});
    REQUIRE(world.hosts->enrol(1, 8).empty());
    const auto vectors = all_floats(5, 1500, seed);
    world.begin(vectors);
    world.network.run_until(world.network.now_ns + 10'000 + world.network.random() % 3'000'000);
    world.switches[0]->stop();
    REQUIRE(world.hosts->settle([](Hosts::Host& at) {
      return at.leader.state() == State::done || at.leader.state() == State::host;
    }));
    const int done = world.num_in(State::done);
    CHECK((done == 5 || world.num_in(State::host) == 5));
    by_hosts += done == 0;
    if (done == 5)
      for (std::size_t i = 0; i < 5; ++i) check_bound(vectors, world.result(i));
  }
  CHECK(by_hosts > 0);
}

TEST_CASE("what a switch may say for an exponent does no harm") {
  const Bytes some = bytes_of({1.5f, -3e38f, std::numeric_limits<float>::denorm_min()});
  Bytes integers(some.size()), back(some.size());
  for (const std::int32_t exponent :
       {offload::kNoExponent, offload::kNotFinite, std::numeric_limits<std::int32_t>::min(),
        std::numeric_limits<std::int32_t>::max(), -148, 0, 128, 100'000, -100'000}) {
    offload::to_fixed(some, exponent, 64, integers.data());
    offload::from_fixed(integers, exponent, 64, back.data());
  }
  CHECK(offload::exponent_of(some) == 128);
  CHECK(offload::exponent_of(bytes_of({0.0f, -0.0f})) == offload::kNoExponent);
}

}  // namespace
}  // namespace weft::testing
