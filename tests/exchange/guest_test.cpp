// The library leaves alone what is the process's own.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/process.hpp"

namespace weft::testing {
namespace {

void run(const char* scenario, const Process::Environment& environment = {},
         std::vector<std::string> launcher = {std::getenv("WEFTRUN"), "-n", "2", "--timeout",
                                              "30"}) {
  INFO(scenario);
  std::string expected = launcher.empty() ? "ok\n" : "ok\nok\n";
  launcher.insert(launcher.end(), {std::getenv("GUEST_PROBE"), scenario});
  Process process(launcher, environment);
  const int code = process.wait(40'000);
  INFO(process.err());
  CHECK(code == 0);
  CHECK(process.out() == expected);
}

const Process::Environment kTcp = {{"WEFT_FABRIC", "tcp"}, {"WEFT_INTERFACE", "lo"}};

}  // namespace

TEST_CASE("threads of the library take no signals") {
  run("signals");
  run("signals", kTcp);
  // The first rank runs the rendezvous itself.
  run("signals",
      {{"WEFT_RANK", "0"},
       {"WEFT_SIZE", "1"},
       {"WEFT_JOB_KEY", "a test's"},
       {"WEFT_RENDEZVOUS", "127.0.0.1:" + std::to_string(20000 + getpid() % 10000)}},
      {});
#ifdef OPENMPI_MPIRUN
  run("signals", {{"ASAN_OPTIONS", "detect_leaks=0"}},
      {OPENMPI_MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "2"});
#endif
}

TEST_CASE("a forked child ends without a word to the peers") {
  run("fork");
  run("fork", kTcp);
}

}  // namespace weft::testing
