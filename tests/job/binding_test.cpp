// Which processors ranks get, on hosts that are made up.
#include <catch2/catch.hpp>

#include "launcher/binding.hpp"

using namespace weft::weftrun;
using weft::Code;
using Shares = std::vector<Processors>;

namespace {

// Two sockets of two cores of two hardware threads each, numbered as Linux does: the second threads
// of all cores come last. A level 2 cache for each core and a level 3 cache for each socket.
Units two_sockets() {
  Units host;
  host.cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  host.sockets = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  host.numa_nodes = host.sockets;
  host.caches[1] = host.cores;
  host.caches[2] = host.sockets;
  return host;
}

Shares shares(const Binding& binding, int num_ranks) {
  Shares processors;
  REQUIRE(choose_processors(binding, two_sockets(), num_ranks, processors).ok());
  return processors;
}

}  // namespace

TEST_CASE("ranks have equal shares of the units") {
  const Shares cores{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  CHECK(shares({}, 4) == cores);
  CHECK(shares({}, 2) == Shares{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(shares({}, 5).empty());
  CHECK(shares({.hwthreads = true}, 8) == Shares{{0}, {4}, {1}, {5}, {2}, {6}, {3}, {7}});
  CHECK(shares({.unit = Bind::none}, 2).empty());
  CHECK(shares({.unit = Bind::core}, 6) == Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 4}, {1, 5}});
  CHECK(shares({.unit = Bind::core, .units_each = 1}, 2) == Shares{{0, 4}, {1, 5}});
  CHECK(shares({.unit = Bind::core, .units_each = 2}, 3) ==
        Shares{{0, 1, 4, 5}, {2, 3, 6, 7}, {0, 1, 4, 5}});
  CHECK(shares({.unit = Bind::l2cache}, 4) == cores);
  CHECK(shares({.unit = Bind::l3cache}, 3) == Shares{{0, 1, 4, 5}, {2, 3, 6, 7}, {0, 1, 4, 5}});
  CHECK(shares({.unit = Bind::socket}, 1) == Shares{{0, 1, 2, 3, 4, 5, 6, 7}});
}

TEST_CASE("ranks are dealt out to units before they share what is within") {
  // ppr:2:socket fills a socket before the next, whether or not there are ranks for both.
  const Binding two_each{.map_unit = Bind::socket, .ranks_per_map_unit = 2};
  CHECK(shares(two_each, 4) == Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(shares(two_each, 2) == Shares{{0, 4}, {1, 5}});
  // Four to a socket of two cores are more than cores.
  CHECK(shares({.map_unit = Bind::socket, .ranks_per_map_unit = 4}, 4) == Shares(4, {0, 1, 4, 5}));
  // --map-by socket goes to one after the other.
  CHECK(shares({.map_unit = Bind::socket}, 4) == Shares{{0, 4}, {2, 6}, {1, 5}, {3, 7}});
  CHECK(shares({.unit = Bind::socket, .map_unit = Bind::socket}, 3) ==
        Shares{{0, 1, 4, 5}, {2, 3, 6, 7}, {0, 1, 4, 5}});
  // A unit that is larger than what it is dealt out to.
  CHECK(shares({.unit = Bind::socket, .map_unit = Bind::core, .ranks_per_map_unit = 1}, 3) ==
        Shares{{0, 1, 4, 5}, {0, 1, 4, 5}, {2, 3, 6, 7}});
  // No such units here.
  CHECK(shares({.map_unit = Bind::l1cache}, 2) == shares({}, 2));
}

TEST_CASE("a set of cores bounds all ranks") {
  CHECK(shares({.cpus = {1, 2}}, 2) == Shares{{1, 5}, {2, 6}});
  CHECK(shares({.cpus = {1, 2}}, 3) == Shares(3, {1, 2, 5, 6}));
  CHECK(shares({.unit = Bind::none, .cpus = {3}}, 2) == Shares(2, {3, 7}));
  CHECK(shares({.unit = Bind::socket, .cpus = {1, 2}}, 2) == Shares{{1, 5}, {2, 6}});
  CHECK(shares({.hwthreads = true, .cpus = {1, 2}}, 2) == Shares{{4}, {1}});
  Shares processors;
  const auto status = choose_processors({.cpus = {4}}, two_sockets(), 1, processors);
  CHECK(status.code() == Code::bad_argument);
  CHECK(status.text() == "--cpu-set 4: this host has cores 0 to 3");
}

TEST_CASE("units that a host has not are an error unless they need not be there") {
  Shares processors;
  Binding binding{.unit = Bind::l1cache};
  CHECK(choose_processors(binding, two_sockets(), 2, processors).code() == Code::unsupported);
  CHECK(processors.empty());
  binding.if_supported = true;
  CHECK(choose_processors(binding, two_sockets(), 2, processors).ok());
  CHECK(processors.empty());
}

TEST_CASE("processors are described by their cores where these are whole") {
  const Units host = two_sockets();
  CHECK(describe(host, {}) == "not bound");
  CHECK(describe(host, {2, 3, 6, 7}) == "cores 2-3 (processors 2-3,6-7)");
  CHECK(describe(host, {4}) == "processor 4");
  CHECK(describe(host, {0, 4, 5}) == "processors 0,4-5");
  Units plain;
  plain.cores = {{0}, {1}, {2}, {3}};
  CHECK(describe(plain, {2, 3}) == "cores 2-3");
  CHECK(describe(plain, {1}) == "core 1");
}

TEST_CASE("lists of numbers") {
  std::vector<int> numbers;
  CHECK(parse_ranges("8,0-2,1", numbers));
  CHECK(ranges_of(numbers) == "0-2,8");
  for (const char* text :
       {"", ",", "1,", "a", "1-", "-1", "2-1", "1 2", "99999999", "0-99999999"}) {
    std::vector<int> none;
    INFO(text);
    CHECK_FALSE(parse_ranges(text, none));
  }
}
