// Ranks die, come to their limits, or write garbage, and the others go on.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/in_time.hpp"

namespace weft::testing {
namespace {

// probe: the variable that names the program. One rank dies, or more do, if one does.
void run(const char* probe, const char* scenario, bool dies,
         const Process::Environment& environment = {}, int num_ranks = 3, int num_dying = 1) {
  INFO(scenario);
  std::string out;
  for (int rank = dies ? num_dying : 0; rank < num_ranks; ++rank) out += "ok\n";
  check_in_time({std::getenv("WEFTRUN"), "-n", std::to_string(num_ranks), "--timeout", "150",
                 "--on-death", "continue", std::getenv(probe), scenario},
                environment, 160'000, dies ? 128 + 9 : 0, out);
}

int count(const std::string& text, const std::string& what) {
  int num = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++num;
  return num;
}

// Some ranks die, as the seed says, and all others find all in order.
void survive(int num_ranks, int seed, const Process::Environment& environment = {}) {
  INFO(num_ranks << " ranks, seed " << seed);
  Process process({std::getenv("WEFTRUN"), "-n", std::to_string(num_ranks), "--timeout", "80",
                   "--on-death", "continue", std::getenv("SURVIVORS_PROBE"), std::to_string(seed)},
                  environment);
  CHECK(process.wait(90'000) == 128 + 9);
  INFO(process.err());
  const int num_killed = count(process.err(), "was killed by signal 9");
  CHECK(num_killed < num_ranks);
  CHECK(count(process.out(), "ok\n") == num_ranks - num_killed);
}

// A longer run: SEEDS=FIRST:LAST build/tests/exchange/exchange_faults_test "ranks that live*".
void survive_all(int num_ranks, int first, int last, const Process::Environment& environment = {}) {
  if (const char* seeds = std::getenv("SEEDS"))
    if (std::sscanf(seeds, "%d:%d", &first, &last) != 2) FAIL("SEEDS is FIRST:LAST");
  for (int seed = first; seed <= last; ++seed) survive(num_ranks, seed, environment);
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

TEST_CASE("a death is told where only an exchange leads to the rank") {
  run("FAULT_PROBE", "apart", true, {}, 10);
}

TEST_CASE("ranks that live go on together, whoever dies in whatever they do") {
  survive_all(8, 1, 12);
  survive_all(16, 13, 16);
}

TEST_CASE("the same between ranks that share no memory") {
  const Process::Environment tcp = {
      {"WEFT_FABRIC", "tcp"}, {"WEFT_INTERFACE", "lo"}, {"WEFT_PEER_TIMEOUT_MS", "2000"}};
  for (const char* scenario : {"connect", "send", "receive", "read", "write", "phase", "leave"})
    run("FAULT_PROBE", scenario, true, tcp);
  const auto within = [](const char* timeout_ms) {
    return Process::Environment{
        {"WEFT_FABRIC", "tcp"}, {"WEFT_INTERFACE", "lo"}, {"WEFT_PEER_TIMEOUT_MS", timeout_ms}};
  };
  run("FAULT_PROBE", "stop", true, within("8000"), 5, 3);
  for (const char* scenario : {"little", "little_runs", "barrier", "announced"})
    run("LIMITS_PROBE", scenario, true, tcp);
  const auto with = [&](const char* name, const char* value) {
    Process::Environment environment = tcp;
    environment.emplace_back(name, value);
    return environment;
  };
  run("LIMITS_PROBE", "staged", true, with("WEFT_EXCHANGE_STAGING_BYTES", "4M"));
  run("LIMITS_PROBE", "rings", false, with("WEFT_LANE_MEMORY_BYTES", "5M"));
  for (const char* scenario : {"memory", "close"}) run("LIMITS_PROBE", scenario, false, tcp);
  // Some are past a call, and wait for messages of those that are still in it when a rank dies.
  survive_all(8, 21, 23, within("8000"));
  // A rank that is stopped for a while must not be taken for dead on a busy machine.
  run("LIMITS_PROBE", "release", false, within("30000"));
}

// By hand, with other seeds: SEEDS=407:410 build/tests/exchange/exchange_faults_test "[many]".
TEST_CASE("many ranks that share no memory", "[many]") {
  const Process::Environment patient = {
      {"WEFT_FABRIC", "tcp"}, {"WEFT_INTERFACE", "lo"}, {"WEFT_PEER_TIMEOUT_MS", "8000"}};
  run("FAULT_PROBE", "apart", true, patient, 10);
  survive_all(8, 407, 407, patient);
}

TEST_CASE("memory of another process is what its owner says") {
  run("LIMITS_PROBE", "memory", false);
}

TEST_CASE("no memory for rings is told to senders, and the receiver goes on") {
  run("LIMITS_PROBE", "rings", false, {{"WEFT_LANE_MEMORY_BYTES", "5M"}});
}

TEST_CASE("what a receiver has no descriptors for waits until it has") {
  run("LIMITS_PROBE", "descriptors", false, {{"WEFT_PEER_TIMEOUT_MS", "300"}});
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
