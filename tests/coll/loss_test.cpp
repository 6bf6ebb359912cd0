// A member dies in the middle of a collective: the others get peer_lost within a second.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/process.hpp"

namespace weft::testing {
namespace {

TEST_CASE("the death of a member ends collectives with peer_lost") {
  for (const char* ranks : {"2", "3", "5"})
    for (const char* algorithm : {"auto", "message"})
      for (const char* call : {"barrier", "bcast", "allreduce", "alltoall"}) {
        INFO(call << ", " << ranks << " ranks, " << algorithm);
        Process::Environment environment;
        if (std::string(algorithm) == "message")
          environment = {{"WEFT_COLL_BARRIER", "dissemination"},
                         {"WEFT_COLL_BCAST", "binomial"},
                         {"WEFT_COLL_ALLREDUCE", "recursive_doubling"},
                         {"WEFT_COLL_ALLTOALL", "pairwise"}};
        std::string expected;
        for (int i = 1; i < std::atoi(ranks); ++i) expected += "peer_lost\n";
        // A machine that stands still, or is busy, makes a rank late, but hardly each time.
        for (int attempt = 0; attempt < 5; ++attempt) {
          Process process({std::getenv("WEFTRUN"), "-n", ranks, "--on-death", "continue",
                           std::getenv("LOSS_PROBE"), call},
                          environment);
          const int exit_code = process.wait(20'000);
          INFO(process.err());
          CHECK(exit_code == 128 + 9);
          if (attempt < 4 && process.out().find("late\n") != std::string::npos) continue;
          CHECK(process.out() == expected);
          break;
        }
      }
}

}  // namespace
}  // namespace weft::testing
