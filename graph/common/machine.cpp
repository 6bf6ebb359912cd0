#include "machine.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "agree.hpp"

namespace weft::graph {
namespace {

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

// The number behind `key` in lines of "key number"; 0 if it is not there.
std::uint64_t number_of(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string word;
  for (std::uint64_t value = 0; in >> word >> value;)
    if (word == key) return value;
  return 0;
}

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// What a control group's limit leaves. Its pages of files can be dropped, and are not counted.
std::uint64_t left_in_group(const std::string& folder, const char* limit, const char* usage,
                            const char* files) {
  std::uint64_t most = 0, used = 0;
  if (!(std::ifstream(folder + limit) >> most) || !(std::ifstream(folder + usage) >> used))
    return kUnlimited;
  const std::string stat = folder + "memory.stat";
  const std::uint64_t cached = number_of(stat, std::string(files) + "inactive_file") +
                               number_of(stat, std::string(files) + "active_file");
  used -= std::min(used, cached);
  return most - std::min(most, used);
}

std::uint64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, pages * 4096);
}

}  // namespace

std::string mib(std::uint64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

std::uint64_t available_memory() {
  std::uint64_t bytes = kUnlimited;
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) bytes = kib * 1024;
  }
  // A container's own limits, by both versions of control groups.
  return std::min({bytes, left_in_group("/sys/fs/cgroup/", "memory.max", "memory.current", ""),
                   left_in_group("/sys/fs/cgroup/memory/", "memory.limit_in_bytes",
                                 "memory.usage_in_bytes", "total_")});
}

int share_of_cores(const transport::Job& job) {
  int num_here = 0;
  for (int rank = 0; rank < job.size(); ++rank) num_here += job.same_host(rank, job.rank()) ? 1 : 0;
  // The launcher has bound this rank to cores of its own.
  cpu_set_t set;
  const auto cpus = static_cast<int>(usable_cpus().size());
  const auto online =
      static_cast<int>(sched_getaffinity(1, sizeof set, &set) == 0 ? CPU_COUNT(&set) : cpus);
  const int share = cpus < online ? cpus : cpus / num_here;
  return std::clamp(share, 1, transport::kMaxThreads);
}

std::vector<int> own_cores(transport::Job& job, int num_threads) {
  struct RankCores {
    int num_threads;
    int num_cpus, first_cpu, last_cpu;
  };
  const std::vector<int> cpus = usable_cpus();
  const RankCores mine{num_threads, static_cast<int>(cpus.size()), cpus.front(), cpus.back()};
  std::vector<RankCores> all;
  throw_if(job.all_gather(mine, all));
  int begin = 0, total = 0;
  for (int rank = 0; rank < job.size(); ++rank) {
    const RankCores& cores = all[static_cast<std::size_t>(rank)];
    if (!job.same_host(rank, job.rank())) continue;
    if (cores.first_cpu != mine.first_cpu || cores.last_cpu != mine.last_cpu ||
        cores.num_cpus != mine.num_cpus)
      return {};
    if (rank < job.rank()) begin += cores.num_threads;
    total += cores.num_threads;
  }
  if (total > mine.num_cpus) return {};
  return {cpus.begin() + begin, cpus.begin() + begin + num_threads};
}

Status check_memory(transport::Job& job, std::uint64_t bytes_needed, const std::string& what,
                    const char* advice) {
  std::vector<std::uint64_t> needed;
  throw_if(job.all_gather(bytes_needed, needed));
  std::uint64_t here = 0;
  for (int rank = 0; rank < job.size(); ++rank)
    if (job.same_host(rank, job.rank())) here += needed[static_cast<std::size_t>(rank)];
  Status status;
  if (const std::uint64_t available = available_memory(); here > available)
    status = {Code::no_memory, what + " needs " + mib(here) + " of memory on " +
                                   job.host(job.rank()) + ", which has " + mib(available) +
                                   " left, " + mib(here - available) + " too little: " + advice};
  else if (const std::uint64_t left = address_space_left(); bytes_needed > left)
    status = {Code::no_memory, what + " needs " + mib(bytes_needed) +
                                   " of memory in each process, and its limit (ulimit -v) leaves " +
                                   mib(left)};
  return agree(job, status);
}

}  // namespace weft::graph
