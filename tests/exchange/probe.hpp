#pragma once
// What the ranks of fault tests share. Rank 2 of a job of three dies or does harm; the others print
// one line if all is as it must be: "ok".
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "weft/transport.hpp"

namespace weft::testing {

using namespace weft::transport;
using transport::Job;
using transport::RemoteMemory;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

#define REQUIRE(...)                                                                 \
  do {                                                                               \
    if (!(__VA_ARGS__)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
      _exit(1);                                                                      \
    }                                                                                \
  } while (0)

inline constexpr int kVictim = 2;
// What comes for sure may take so long on a machine that is busy.
inline constexpr auto kPatience = 60s;
// Set where ranks may not share memory. Then a death is noticed by silence, else it is seen much
// sooner than in a second.
inline const char* const kTimeoutMs = std::getenv("WEFT_PEER_TIMEOUT_MS");
inline const auto kLimit =
    (kTimeoutMs == nullptr ? 0ms : std::chrono::milliseconds(std::atoi(kTimeoutMs))) + 1000ms;
inline bool late = false;
// It is told now, and happened after `since`.
inline void note_told(Clock::time_point since) { late = late || Clock::now() - since > kLimit; }

// The two others still do with each other what they did before.
inline void go_on(Job& job, Exchange<std::uint64_t>& exchange, bool other_came = false) {
  const int other = 1 - job.rank();
  REQUIRE(exchange.send(other, 0, 4711) == Code::ok);
  REQUIRE(exchange.flushSend(0) == Code::ok);
  std::uint64_t message = 0;
  const auto start = Clock::now();
  while (!other_came) {
    if (exchange.receive(0, message)) {
      other_came = message == 4711;
      continue;
    }
    // It may notice the death later.
    const Status status = exchange.wait(0, kPatience);
    REQUIRE(status.ok() || status == Code::peer_lost);
    REQUIRE(Clock::now() - start < kPatience);
  }
}

[[noreturn]] inline void die() {
  kill(getpid(), SIGKILL);
  _exit(1);
}

// Until a process has ended, as the kernel sees it.
inline void wait_for_end(pid_t pid) {
  const std::string files = "/proc/" + std::to_string(pid) + "/fd/0";
  const auto start = Clock::now();
  while (access(files.c_str(), F_OK) == 0) REQUIRE(Clock::now() - start < kPatience);
}

// What the ranks of a job do, under the name by which a test asks for it.
struct Scenario {
  std::string_view name;
  std::function<void(Job&)> run;
};

// The main of a probe: joins the job of three and runs the scenario that the command line names.
inline int run_scenario(int argc, char** argv, std::span<const Scenario> scenarios) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto found = std::ranges::find(scenarios, name, &Scenario::name);
  REQUIRE(found != scenarios.end());
  Job job;
  REQUIRE(job.size() >= 3);
  found->run(job);
  std::puts(late ? "late" : "ok");
  return 0;
}

}  // namespace weft::testing
