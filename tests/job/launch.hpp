#pragma once
// What the tests of weftrun on one host and on several share.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>
#include <algorithm>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
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

inline pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  int parent = -1;
  REQUIRE(sscanf(text.c_str() + text.rfind(')') + 1, " %*c %d", &parent) == 1);
  return parent;
}

// A process and what descends from it, parents first.
inline std::vector<pid_t> tree_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    if (const pid_t pid = atoi(entry.path().filename().c_str()); pid > 0) {
      std::ifstream file(entry.path() / "stat");
      std::string text;
      std::getline(file, text);
      int parent = 0;
      if (sscanf(text.c_str() + text.rfind(')') + 1, " %*c %d", &parent) == 1)
        children.emplace(parent, pid);
    }
  std::vector<pid_t> tree{root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const auto [begin, end] = children.equal_range(tree[i]);
    for (auto child = begin; child != end; ++child) tree.push_back(child->second);
  }
  return tree;
}

// Kills one process of a job, each time another one at another moment, then asks the rest to end.
// command(rank): the words that run this shell script in every rank. ROUNDS sets how often, SEED
// begins with other moments.
inline void kill_at_any_moment(auto&& command) {
  const char* rounds = getenv("ROUNDS");
  const char* seed = getenv("SEED");
  std::mt19937 random(seed != nullptr ? static_cast<unsigned>(atoi(seed)) : 1);
  for (int round = 0; round < (rounds != nullptr ? atoi(rounds) : 20); ++round) {
    // All that descends from weftrun holds it open, so that its end is the end of the last of them.
    int alive[2];
    REQUIRE(pipe(alive) == 0);
    fcntl(alive[0], F_SETFD, FD_CLOEXEC);
    Process run(command("setsid sleep 1000 & timeout 1000 sleep 1000 & wait"));
    close(alive[1]);
    const double part = static_cast<double>(random() % 1000) / 1000;
    poll(nullptr, 0, static_cast<int>(part * part * 200));
    const auto tree = tree_of(run.pid());
    const pid_t victim = tree[random() % 3 == 0 ? 0 : random() % tree.size()];
    kill(victim, SIGKILL);
    INFO("round " << round << ", victim " << victim << " of " << tree.size());
    // A process that only a rank waits for may be gone without an effect.
    pollfd ended{alive[0], POLLIN, 0};
    if (poll(&ended, 1, 300) == 0) {
      run.signal(SIGINT);
      run.signal(SIGTERM);
    }
    CHECK(poll(&ended, 1, 15000) == 1);
    CHECK(ended.revents == POLLHUP);
    close(alive[0]);
    CHECK(run.wait() > 0);
  }
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
