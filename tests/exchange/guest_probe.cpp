// One rank of a job, whose process has something of its own that the library must leave alone: its
// signals, its forked children. Started by guest_test.
#include <dirent.h>
#include <sys/wait.h>

#include <cinttypes>
#include <fstream>
#include <numeric>

#include "tests/exchange/probe.hpp"

namespace weft::testing {
namespace {

bool is_child = false;

// Threads of this process, but this one, that take signals.
int num_threads_with_signals() {
  int num = 0;
  DIR* tasks = opendir("/proc/self/task");
  REQUIRE(tasks != nullptr);
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == getpid()) continue;
    std::ifstream status(std::string("/proc/self/task/") + entry->d_name + "/status");
    for (std::string line; std::getline(status, line);) {
      std::uint64_t blocked = 0;
      if (std::sscanf(line.c_str(), "SigBlk: %" SCNx64, &blocked) != 1) continue;
      for (const int number : {SIGTERM, SIGUSR1, SIGALRM, SIGCHLD})
        if ((blocked >> (number - 1) & 1) == 0) ++num;
    }
  }
  closedir(tasks);
  return num;
}

void keep_signals(Job& job) {
  std::uint64_t word = 0;
  RemoteMemory mine;
  REQUIRE(job.share(&word, sizeof word, mine).ok());  // words of it are changed by a thread
  std::vector<RemoteMemory> all;
  REQUIRE(job.all_gather(mine, all).ok());
  REQUIRE(job.fetch_add(0, all[0], 1).code == Code::ok);
  REQUIRE(num_threads_with_signals() == 0);
  REQUIRE(job.barrier().ok());
  REQUIRE(job.unshare(mine).ok());
}

// A forked child that ends in order, with all destructors, says nothing in the parent's name.
void fork_child(Job& job) {
  Exchange<std::uint64_t> exchange(job, 1);
  const int size = job.size();
  const auto phase = [&] {
    std::uint64_t sum = 0;
    for (int to = 0; to < size; ++to)
      REQUIRE(exchange.send(to, 0, static_cast<std::uint64_t>(job.rank() + 1)) == Code::ok);
    REQUIRE(exchange.quiesce(0, [&](std::uint64_t value) { sum += value; }).ok());
    REQUIRE(sum == static_cast<std::uint64_t>(size * (size + 1) / 2));
  };
  phase();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(10);
    is_child = true;
    return;
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  phase();
  REQUIRE(job.barrier().ok());
  for (int rank = 0; rank < size; ++rank) REQUIRE(job.is_alive(rank));
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  const Scenario scenarios[] = {{"signals", keep_signals}, {"fork", fork_child}};
  {
    const std::string_view name = argc > 1 ? argv[1] : "";
    const auto found = std::ranges::find(scenarios, name, &Scenario::name);
    REQUIRE(found != std::end(scenarios));
    Job job;
    found->run(job);
  }
  if (is_child) _exit(0);
  std::puts("ok");
  return 0;
}
