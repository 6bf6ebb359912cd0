// A member dies in the middle of a collective: the others get peer_lost within a second.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/in_time.hpp"

namespace weft::testing {
namespace {

TEST_CASE("the death of a member ends collectives with peer_lost") {
  for (const char* ranks : {"2", "3", "5"})
    for (const char* algorithm : {"auto", "message"})
      for (const char* call : {"barrier", "bcast", "allreduce", "alltoall"}) {
        INFO(call << ", " << ranks << " ranks, " << algorithm);
        Process::Environment environment;
        if (std::string(algorithm) == "message")
          environment = {{"WEFT_COLL_ALGORITHMS",
                          "barrier=dissemination,bcast=binomial,allreduce=recursive_doubling,"
                          "alltoall=pairwise"}};
        std::string expected;
        for (int i = 1; i < std::atoi(ranks); ++i) expected += "peer_lost\n";
        check_in_time({std::getenv("WEFTRUN"), "-n", ranks, "--on-death", "continue",
                       std::getenv("LOSS_PROBE"), call},
                      environment, 20'000, 128 + 9, expected);
      }
}

// From here to the user's memory of the one that dies, and back.
TEST_CASE("the death of a member ends collectives that copy directly with peer_lost") {
  for (const char* ranks : {"2", "3"})
    for (const char* call : {"bcast", "allreduce", "reduce", "reduce_scatter", "gather", "scatter",
                             "allgather", "alltoall"}) {
      INFO(call << ", " << ranks << " ranks");
      std::string expected;
      for (int i = 1; i < std::atoi(ranks); ++i) expected += "peer_lost\n";
      check_in_time({std::getenv("WEFTRUN"), "-n", ranks, "--on-death", "continue",
                     std::getenv("LOSS_PROBE"), call},
                    {{"WEFT_COLL_DIRECT_MIN_BYTES", "1"}, {"WEFT_COLL_CROWDED", "no"}}, 20'000,
                    128 + 9, expected);
    }
}

}  // namespace
}  // namespace weft::testing
