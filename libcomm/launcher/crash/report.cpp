#include "launcher/crash/report.hpp"

#include <fmt/core.h>
#include <string.h>

#include <algorithm>

#include "job/boards.hpp"

namespace weft::weftrun {
namespace {

constexpr std::size_t kMostStacks = 5;

std::string head_of(const Crash& crash) {
  return fmt::format("rank {} (pid {} on {}) crashes by signal {} ({}){}{}{}", crash.rank,
                     crash.process, crash.host, crash.signal, strsignal(crash.signal),
                     crash.cause.empty() ? "" : ": ", crash.cause,
                     crash.call.empty() ? "" : ", in " + crash.call);
}

}  // namespace

std::string core_line(const std::string& file, bool is_written) {
  const std::string place = file.empty() ? "where core_pattern says" : file;
  if (is_written) return fmt::format("  its core file: {}", place);
  return fmt::format(
      "  there is no core file of it (it would be: {}): the signal leaves none, the hard limit "
      "(ulimit -Hc) is 0, or the folder cannot be written",
      place);
}

std::vector<std::string> CrashReports::lines_of(std::vector<Crash> crashes) {
  std::ranges::sort(crashes, {}, &Crash::rank);
  std::vector<std::string> lines;
  std::vector<bool> is_done(crashes.size());
  for (std::size_t i = 0; i < crashes.size(); ++i) {
    if (is_done[i]) continue;
    const Crash& crash = crashes[i];
    std::vector<int> others;
    for (std::size_t j = i + 1; j < crashes.size(); ++j) {
      if (is_done[j] || !crashes[j].is_like(crash)) continue;
      is_done[j] = true;
      others.push_back(crashes[j].rank);
    }
    const auto same =
        std::ranges::find_if(shown_, [&crash](const Crash& shown) { return shown.is_like(crash); });
    lines.push_back(head_of(crash));
    if (same != shown_.end()) {
      lines.push_back(fmt::format("  in the same place as rank {}", same->rank));
    } else if (shown_.size() < kMostStacks) {
      for (const std::string& place : crash.stack) lines.push_back("  at " + place);
      shown_.push_back(crash);
    } else if (!crash.stack.empty()) {
      lines.push_back("  at " + crash.stack.front());
    }
    if (!crash.no_stack.empty()) lines.push_back("  " + crash.no_stack);
    if (!others.empty())
      lines.push_back(fmt::format("  and {} in the same place", name_ranks(others)));
  }
  return lines;
}

}  // namespace weft::weftrun
