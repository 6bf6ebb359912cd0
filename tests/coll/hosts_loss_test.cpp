// A member that others on its host alone see die: all are told long before the silence of its host
// would tell them, whatever they wait for, and their calls end with peer_lost.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/process.hpp"

namespace weft::testing {
namespace {

constexpr int kTimeoutMs = 120'000;
const Process::Environment kSilenceIsLong = {{"WEFT_INTERFACE", "lo"},
                                             {"WEFT_PEER_TIMEOUT_MS", "1000000"}};

void check_told(const std::string& call, const std::string& hosts, int victim,
                const Process::Environment& more = {}) {
  INFO(call << ", hosts " << hosts << ", rank " << victim << " dies");
  Process::Environment environment = kSilenceIsLong;
  environment.insert(environment.end(), more.begin(), more.end());
  std::string expected;
  for (std::size_t i = 1; i < hosts.size(); ++i) expected += "peer_lost\n";
  Process process({std::getenv("WEFTRUN"), "-n", std::to_string(hosts.size()), "--on-death",
                   "continue", std::getenv("LOSS_PROBE"), call, hosts, std::to_string(victim)},
                  environment);
  const int code = process.wait(kTimeoutMs);
  INFO(process.err());
  CHECK(code == 128 + 9);
  CHECK(process.out() == expected);
}

TEST_CASE("the death of a member that does not lead ends collectives on all hosts") {
  for (const char* call : {"barrier", "bcast", "bcast_0", "reduce", "allreduce", "gather",
                           "scatter", "allgather", "alltoall", "scan"})
    check_told(call, "aaaabbbb", 6);
}

TEST_CASE("the death of a member that leads ends collectives on all hosts") {
  for (const char* call : {"barrier", "bcast_0", "allreduce", "alltoall"}) {
    check_told(call, "aaaaabbc", 5);
    check_told(call, "abababab", 0);
  }
}

TEST_CASE("a death ends collectives by messages alone on all hosts") {
  for (const char* call : {"barrier", "bcast", "allreduce", "scan"})
    check_told(call, "aabbccdd", 5,
               {{"WEFT_COLL_ALGORITHMS",
                 "barrier=dissemination,bcast=binomial,allreduce=recursive_doubling"}});
}

}  // namespace
}  // namespace weft::testing
