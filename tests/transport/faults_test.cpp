// Ranks die, come to their limits, or write garbage, and the others go on.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/in_time.hpp"

namespace weft::testing {
namespace {

// probe: the variable that names the program. Rank 2 is the one that dies, if one does.
void run(const char* probe, const char* scenario, bool dies,
         const Process::Environment& environment = {}) {
  INFO(scenario);
  check_in_time({std::getenv("WEFTRUN"), "-n", "3", "--timeout", "30", "--on-death", "continue",
                 std::getenv(probe), scenario},
                environment, 40'000, dies ? 128 + 9 : 0, dies ? "ok\nok\n" : "ok\nok\nok\n");
}

}  // namespace

TEST_CASE("the death of a rank ends what needs it, and nothing else") {
  for (const char* scenario : {"connect", "send", "receive", "read", "write", "phase", "leave"})
    run("FAULT_PROBE", scenario, true);
  for (const char* scenario : {"little", "little_runs", "barrier", "announced"})
    run("LIMITS_PROBE", scenario, true);
  // Little may be staged, so that senders wait for the one that dies.
  run("LIMITS_PROBE", "staged", true, {{"WEFT_EXCHANGE_STAGING_BYTES", "4M"}});
}

#ifdef WEFT_HAVE_OFI
TEST_CASE("the same between ranks that share no memory") {
  const Process::Environment ofi = {
      {"WEFT_FABRIC", "ofi"}, {"WEFT_OFI_INTERFACE", "lo"}, {"WEFT_PEER_TIMEOUT_MS", "2000"}};
  for (const char* scenario : {"connect", "send", "receive", "read", "write", "phase", "leave"})
    run("FAULT_PROBE", scenario, true, ofi);
  for (const char* scenario : {"little", "little_runs", "barrier", "announced"})
    run("LIMITS_PROBE", scenario, true, ofi);
  const auto with = [&](const char* name, const char* value) {
    Process::Environment environment = ofi;
    environment.emplace_back(name, value);
    return environment;
  };
  run("LIMITS_PROBE", "staged", true, with("WEFT_EXCHANGE_STAGING_BYTES", "4M"));
  run("LIMITS_PROBE", "rings", false, with("WEFT_LANE_MEMORY_BYTES", "5M"));
  for (const char* scenario : {"memory", "close"}) run("LIMITS_PROBE", scenario, false, ofi);
}
#endif

TEST_CASE("memory of another process is what its owner says") {
  run("LIMITS_PROBE", "memory", false);
}

TEST_CASE("no memory for rings is told to senders, and the receiver goes on") {
  run("LIMITS_PROBE", "rings", false, {{"WEFT_LANE_MEMORY_BYTES", "5M"}});
}

TEST_CASE("exchanges end with messages under way between processes") {
  run("LIMITS_PROBE", "close", false);
}

TEST_CASE("garbage in a ring closes that lane, and its reader survives") {
  for (const char* scenario : {"length", "odd", "empty", "kind", "wrong_phase", "size", "turn",
                               "announce", "announce_far", "announce_long", "announce_odd"})
    run("FAULT_PROBE", scenario, false);
  for (const char* scenario : {"length_over", "length_huge", "announce_unaligned"})
    run("HOSTILE_PROBE", scenario, false);
}

TEST_CASE("a lane that cannot be is refused once, and other lanes are not touched") {
  for (const char* scenario : {"lane_far", "lane_wraps", "lane_odd", "lane_small", "lane_huge",
                               "lane_nobody", "lane_thread", "lane_twice"})
    run("HOSTILE_PROBE", scenario, false);
}

TEST_CASE("a receiver that counts wrongly harms itself only") {
  for (const char* scenario : {"credit_ahead", "credit_behind"})
    run("HOSTILE_PROBE", scenario, true);
}

}  // namespace weft::testing
