#include "tools/weft-info/why.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <stdio.h>
#include <stdlib.h>

#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/boards.hpp"
#include "launcher/hang/watch.hpp"
#include "launcher/hang/why.hpp"
#include "launcher/processes/process_entry.hpp"

namespace weft {
namespace {

using weftrun::RankView;
using weftrun::Watch;

constexpr int kMostRanks = 1 << 20;

// The job that a process was started in.
struct Job {
  std::string key;
  int rank = -1, size = 0;
};

int number_in(const std::string& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && *end == 0 && number >= 0 && number <= kMostRanks ? number : -1;
}

Job job_of(pid_t pid) {
  Job job;
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  for (std::string variable; std::getline(file, variable, '\0');) {
    const std::size_t at = variable.find('=');
    if (at == std::string::npos) continue;
    const std::string name = variable.substr(0, at), value = variable.substr(at + 1);
    if (name == kJobKeyVariable) job.key = value;
    if (name == kRankVariable) job.rank = number_in(value);
    if (name == kSizeVariable) job.size = number_in(value);
  }
  return job;
}

// A rank of the job that this weftrun has started; pid itself if it is none.
pid_t rank_of(pid_t pid) {
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  while (const dirent* entry = processes != nullptr ? readdir(processes.get()) : nullptr) {
    const pid_t other = atoi(entry->d_name);
    if (other <= 0 || job_of(other).rank < 0) continue;
    // With shells around the program between.
    constexpr int kMostBetween = 8;
    auto ancestor = weftrun::read_process_entry(other);
    for (int i = 0; ancestor && ancestor->parent > 1 && i < kMostBetween; ++i) {
      if (ancestor->parent == pid && blocked::Reader().open(other).ok()) return other;
      ancestor = weftrun::read_process_entry(ancestor->parent);
    }
  }
  return pid;
}

}  // namespace

int print_why(pid_t pid) {
  if (job_of(pid).rank < 0) pid = rank_of(pid);
  blocked::Reader reader;
  if (Status status = reader.open(pid); !status) {
    fprintf(stderr, "weft-info: %s\n", status.text().c_str());
    return 1;
  }
  const Job job = job_of(pid);
  std::map<int, RankView> views;
  const auto add = [&views](int rank, pid_t process) {
    blocked::Reader own;
    if (!own.open(process)) return;  // a shell around the program, say
    Watch watch;
    watch.add(rank, process);
    views[rank] = view_of(rank, watch.look(rank, true));
  };
  // Without a launcher of Weft, the one process alone.
  const bool has_key = !job.key.empty() && job.rank >= 0;
  add(has_key ? job.rank : 0, pid);
  if (!has_key && views[0].state == RankView::State::blocked) {
    RankView view = views[0];
    views.clear();
    view.rank = view.found.record.rank;
    views[view.rank] = view;
    // Nothing is known of the others.
    for (int rank = 0; rank < static_cast<int>(blocked::kMostMembers); ++rank)
      if (view.found.record.has_member(static_cast<std::size_t>(rank))) views[rank].rank = rank;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(has_key ? opendir("/proc") : nullptr,
                                                      closedir);
  while (const dirent* entry = processes != nullptr ? readdir(processes.get()) : nullptr) {
    const pid_t other = atoi(entry->d_name);
    if (other <= 0 || other == pid) continue;
    const Job its = job_of(other);
    if (its.key == job.key && its.rank >= 0) add(its.rank, other);
  }
  // Ranks that are not seen may do anything.
  for (int rank = 0; rank < job.size; ++rank) views[rank].rank = rank;
  std::vector<RankView> all;
  for (auto& [rank, view] : views) all.push_back(std::move(view));
  for (const std::string& line : weftrun::explain(all)) printf("%s\n", line.c_str());
  if (!has_key)
    printf(
        "  this process alone was looked at, as weftrun has not started it: --why of the others\n"
        "  tells what they wait for\n");
  return 0;
}

}  // namespace weft
