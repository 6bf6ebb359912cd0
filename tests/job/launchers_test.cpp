// A job that weftrun did not start: alone, by hand with WEFT_RENDEZVOUS, and by Open MPI's mpirun
// through PMIx.
#include <fmt/core.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>

#include "tests/job/launch.hpp"

using namespace weft::testing;

namespace {

std::string free_address() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(fd);
  return fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
}

Process::Environment by_hand(int rank, int size, const std::string& address) {
  return {{"WEFT_RANK", std::to_string(rank)},
          {"WEFT_SIZE", std::to_string(size)},
          {"WEFT_RENDEZVOUS", address},
          {"WEFT_JOB_KEY", "secret"}};
}

#ifdef OPENMPI_MPIRUN
// Open MPI's own libraries leak at exit; only what the processes say counts here.
Process openmpi(const Words& options, const Words& command) {
  Words words{OPENMPI_MPIRUN, "--allow-run-as-root", "--oversubscribe"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), command.begin(), command.end());
  return Process(words, {{"ASAN_OPTIONS", "detect_leaks=0"}});
}
#endif

}  // namespace

TEST_CASE("a program started by nobody is a job of one") {
  Process run({JOB_PROBE});
  CHECK(run.wait() == 0);
  CHECK(run.out() == "rank 0 of 1 by alone\n");
}

TEST_CASE("a program whose launcher it cannot speak to says so and ends") {
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
                           "FLUX_JOB_SIZE", "ALPS_APP_SIZE", "PALS_NRANKS", "PMI_SIZE"}) {
    Process run({JOB_PROBE}, {{size, "16"}});
    CHECK(run.wait() == 3);
    CHECK(run.out().empty());
    CHECK(has(run.err(), fmt::format("{}=16", size)));
    Process one({JOB_PROBE}, {{size, "1"}});
    CHECK(one.wait() == 0);
    CHECK(one.out() == "rank 0 of 1 by alone\n");
    CHECK(one.err().empty());
  }
  Process advised({JOB_PROBE}, {{"SLURM_STEP_NUM_TASKS", "16"}});
  CHECK(advised.wait() == 3);
  CHECK(has(advised.err(), "srun --mpi=pmix or srun --mpi=pmi2"));
}

TEST_CASE("a PMI server that is not there is an error") {
  Process run({JOB_PROBE}, {{"PMI_FD", "77"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  CHECK(run.wait() == 3);
  CHECK(has(run.err(), "PMI_FD=77, which leads to no PMI server"));
  Process port({JOB_PROBE}, {{"PMI_PORT", free_address()}, {"PMI_ID", "0"}});
  CHECK(port.wait() == 3);
  CHECK(has(port.err(), "Connection refused"));
}

TEST_CASE("an unknown or bad setting is an error that names it") {
  Process run({JOB_PROBE}, {{"WEFT_SPIM_US", "1"}});
  CHECK(run.wait() == 3);
  CHECK(has(run.err(), "WEFT_SPIM_US is not a setting; did you mean WEFT_SPIN_US?"));
}

TEST_CASE("ranks started by hand find each other, in whatever order they start") {
  const std::string address = free_address();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank : {3, 1, 0, 2})
    ranks.push_back(std::make_unique<Process>(Words{JOB_PROBE}, by_hand(rank, 4, address)));
  for (const auto& rank : ranks) {
    const int status = rank->wait();
    INFO(rank->err());
    CHECK(status == 0);
    CHECK(has(rank->out(), "of 4 by rendezvous"));
  }
}

TEST_CASE("by hand, too, a rank that never comes is named") {
  const std::string address = free_address();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank : {0, 2}) {
    auto environment = by_hand(rank, 3, address);
    environment.emplace_back("WEFT_START_TIMEOUT_MS", "700");
    ranks.push_back(std::make_unique<Process>(Words{JOB_PROBE}, environment));
  }
  int num_named = 0;
  for (const auto& rank : ranks) {
    CHECK(rank->wait() == 3);
    num_named += has(rank->err(), "rank 1 has not started");
  }
  // The first whose time is over names it; when that is rank 0, its server goes, too.
  CHECK(num_named >= 1);
}

TEST_CASE("a rank started by hand dies: the others hear of it") {
  const std::string address = free_address();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank : {0, 1, 2})
    ranks.push_back(
        std::make_unique<Process>(Words{JOB_PROBE, "signal", "9"}, by_hand(rank, 3, address)));
  CHECK(ranks[2]->wait() == 137);
  bool named = false;
  for (int rank : {0, 1}) {
    CHECK(ranks[static_cast<std::size_t>(rank)]->wait() == 3);
    named |= has(ranks[static_cast<std::size_t>(rank)]->err(), "peer lost: rank 2 died");
  }
  CHECK(named);
}

#ifdef OPENMPI_MPIRUN
TEST_CASE("Open MPI's mpirun starts a job through PMIx") {
  Process run = openmpi({"-n", "3"}, {JOB_PROBE, "exchange"});
  const int status = run.wait(60000);
  INFO(run.err());
  CHECK(status == 0);
  for (int rank = 0; rank < 3; ++rank)
    CHECK(has(run.out(), fmt::format("rank {} of 3 by pmix", rank)));
}

TEST_CASE("Open MPI's mpirun: abort ends the job with its code") {
  Process run = openmpi({"-n", "3"}, {JOB_PROBE, "abort", "7"});
  CHECK(run.wait(60000) == 7);
}

TEST_CASE("Open MPI's mpirun: the others outlive a death, if it is to let them") {
  Process run = openmpi({"--enable-recovery", "-n", "3"}, {JOB_PROBE, "outlive", "1"});
  run.wait(60000);
  INFO(run.err());
  for (int rank = 0; rank < 2; ++rank) CHECK(has(run.out(), fmt::format("rank {} goes on", rank)));
}

TEST_CASE("Open MPI's mpirun: a rank that does not come to a fence is named") {
  Process run = openmpi({"-n", "3"}, {JOB_PROBE, "absent", "500"});
  CHECK(run.wait(60000) == 3);
  CHECK(has(run.err(), "timed out: after 500 ms rank 2 has not come to the fence"));
}

TEST_CASE("weftrun inside another launcher's process starts its own job") {
  Process run = openmpi({"-n", "1"}, {WEFTRUN, "-n", "2", JOB_PROBE});
  CHECK(run.wait(60000) == 0);
  CHECK(has(run.out(), "rank 1 of 2 by weftrun"));
}
#endif

#ifdef HYDRA
namespace {

Process hydra(const Words& options, const Words& command) {
  Words words{HYDRA};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), command.begin(), command.end());
  return Process(words);
}

void check_exchange(Process& run, const std::string& protocol) {
  const int status = run.wait(60000);
  INFO(run.err());
  CHECK(status == 0);
  CHECK(run.err().empty());
  for (int rank = 0; rank < 3; ++rank)
    CHECK(has(run.out(), fmt::format("rank {} of 3 by {}", rank, protocol)));
}

}  // namespace

TEST_CASE("MPICH's Hydra starts a job through PMI-1") {
  Process run = hydra({"-n", "3"}, {JOB_PROBE, "exchange"});
  check_exchange(run, "pmi1");
}

TEST_CASE("MPICH's Hydra starts a job through PMI-1 over ports") {
  Process run = hydra({"-pmi-port", "-n", "3"}, {JOB_PROBE, "exchange"});
  check_exchange(run, "pmi1");
}

TEST_CASE("MPICH's Hydra starts a job through PMI-2, which its processes prefer inside Slurm") {
  Process run = hydra({"-genv", "SLURM_JOB_ID", "1", "-n", "3"}, {JOB_PROBE, "exchange"});
  check_exchange(run, "pmi2");
}

TEST_CASE("MPICH's Hydra: abort ends the job with its code") {
  Process run = hydra({"-n", "3"}, {JOB_PROBE, "abort", "7"});
  CHECK(run.wait(60000) == 7);
}

TEST_CASE("MPICH's Hydra: a rank that does not come to a fence is no wait without end") {
  Process run = hydra({"-n", "3"}, {JOB_PROBE, "absent", "500"});
  CHECK(run.wait(60000) != 0);
  CHECK(has(run.err(), "timed out: after 500 ms some ranks have not come to the fence"));
}
#endif
