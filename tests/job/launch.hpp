#pragma once
// What the tests of weftrun on one host and on several share.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace weft::testing {

using Words = std::vector<std::string>;

inline Words shell(const std::string& script) { return {"sh", "-c", script}; }

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Words sorted_lines(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

inline std::vector<pid_t> numbers_in(const std::string& text) {
  std::vector<pid_t> pids;
  std::istringstream stream(text);
  for (pid_t pid; stream >> pid;) pids.push_back(pid);
  return pids;
}

// Sections of a test case. two_ranks(command): the words that run the command in two ranks.
void check_signals(auto&& two_ranks) {
  SECTION("that end by them") {
    const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1);
    Process run(two_ranks(shell("ulimit -c 0; exec " JOB_PROBE " stay")));
    REQUIRE(run.wait_for_lines(2));
    run.signal(signal);
    CHECK(run.wait() == 128 + signal);
  }
  SECTION("that handle them") {
    Process run(
        two_ranks(shell("trap 'echo caught; exit 0' TERM; echo ready; "
                        "while :; do sleep 0.05; done")));
    REQUIRE(run.wait_for_lines(2));
    run.signal(SIGTERM);
    CHECK(run.wait() == 0);
    CHECK(sorted_lines(run.out()) == Words{"caught", "caught", "ready", "ready"});
  }
  SECTION("that ignore them, until the second") {
    Process run(two_ranks(shell("trap '' TERM INT; echo ready; while :; do sleep 1; done")));
    REQUIRE(run.wait_for_lines(2));
    run.signal(SIGINT);
    run.signal(SIGTERM);
    CHECK(run.wait() > 128);
  }
}

}  // namespace weft::testing
