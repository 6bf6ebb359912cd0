#include "launcher/hang/watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <tuple>

#include "base/wait.hpp"
#include "launcher/places/aside.hpp"
#include "launcher/places/symbols.hpp"
#include "launcher/processes/process_entry.hpp"

namespace weft::weftrun {
namespace {

using blocked::text_of;

// The pauses between two searches for the file of a rank that has none: it may be no program of
// Weft's.
constexpr std::uint64_t kLeastPauseNs = 500'000'000, kMostPauseNs = 16'000'000'000;
constexpr std::uint64_t kFreshNs = 1'000'000'000;  // a waiting rank writes five times as often
constexpr std::uint64_t kStaleNs = 5'000'000'000;
constexpr int kMostDepth = 4;  // of shells and tools around a program
constexpr int kPlaceMs = 1000;
constexpr std::uint64_t kMostSpentNs = 2'000'000'000;

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", pid, pid));
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

bool open_in_tree(pid_t pid, blocked::Reader& reader, int depth) {
  if (reader.open(pid)) return true;
  if (depth == kMostDepth) return false;
  for (const pid_t child : children_of(pid))
    if (open_in_tree(child, reader, depth + 1)) return true;
  return false;
}

// Innermost, as the program made the call there.
std::string find_place(const blocked::Record& record, bool asks) {
  const std::string module(text_of(record.module));
  Line line;
  line.function = text_of(record.symbol);
  line.module = module.substr(module.rfind('/') + 1);
  line.offset = record.offset;
  Aside aside;
  const auto work = [&] {
    const std::vector<Line> lines = Symbols(module).lines_at(record.offset);
    return lines.empty() || lines[0].function.empty() ? "" : lines[0].text();
  };
  if (asks && aside.start(work, kPlaceMs))
    if (const std::string& found = aside.wait(); !found.empty()) return found;
  return line.text();
}

}  // namespace

std::string place_of(const blocked::Record& record) {
  if (record.module[0] == '\0') return "";
  static std::map<std::pair<std::string, std::uint64_t>, std::string> known;
  const std::pair key(std::string(text_of(record.module)), record.offset);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  // Many places of a large program must not keep weftrun from its ranks' output for long.
  static std::uint64_t spent_ns = 0;
  const std::uint64_t start = now_ns();
  std::string& place = known[key];
  place = find_place(record, spent_ns < kMostSpentNs);
  spent_ns += now_ns() - start;
  return place;
}

bool Watch::open(Rank& rank, bool at_once) {
  if (rank.reader.is_open()) return true;
  const std::uint64_t now = now_ns();
  if (!at_once && now < rank.try_at_ns) return false;
  if (open_in_tree(rank.pid, rank.reader, 0)) return true;
  rank.pause_ns = std::clamp(rank.pause_ns * 2, kLeastPauseNs, kMostPauseNs);
  rank.try_at_ns = now + rank.pause_ns;
  return false;
}

std::optional<blocked::Found> Watch::read(const Rank& rank) const {
  std::vector<blocked::Found> found = rank.reader.read();
  if (found.empty()) return {};
  // A jump out of a call leaves its record behind.
  return *std::ranges::min_element(found, {}, &blocked::Found::age_ns);
}

RankView view_of(int rank, const Seen& seen) {
  RankView view;
  view.rank = rank;
  view.place = seen.place;
  view.is_stopped = seen.is_stopped;
  if (seen.found) {
    view.state = RankView::State::blocked;
    view.found = *seen.found;
  } else if (seen.is_readable) {
    view.state = RankView::State::running;
  }
  return view;
}

Seen Watch::look(int number, bool with_place) {
  Seen seen;
  const auto at = ranks_.find(number);
  if (at == ranks_.end()) return seen;
  Rank& rank = at->second;
  seen.is_readable = open(rank, true);
  const auto entry = read_process_entry(rank.pid);
  seen.is_stopped = entry && entry->is_stopped();
  if (!seen.is_readable) return seen;
  seen.found = read(rank);
  if (seen.found && seen.found->age_ns > kStaleNs && !seen.is_stopped) seen.found.reset();
  if (with_place && seen.found) seen.place = place_of(seen.found->record);
  return seen;
}

bool Watch::all_wait(std::uint64_t ns) {
  for (auto& [number, rank] : ranks_) {
    if (!open(rank, false)) return false;
    const auto found = read(rank);
    if (!found || found->waited_ns < ns || found->age_ns > kFreshNs) return false;
  }
  return true;
}

}  // namespace weft::weftrun
