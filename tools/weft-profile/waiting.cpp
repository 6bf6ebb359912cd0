#include "waiting.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "pairing.hpp"

namespace weft::profile {
namespace {

constexpr double kLeastS = 1e-3;  // of a line

// Those that waited for one rank for one reason.
struct Group {
  double s = 0, longest_s = 0;
  std::size_t longest = 0;  // the rank that waited longest
  std::size_t num_ranks = 0;
  std::uint64_t calls = 0;

  void add(std::size_t rank, double more_s, std::uint64_t more_calls) {
    s += more_s;
    calls += more_calls;
    ++num_ranks;
    if (more_s <= longest_s) return;
    longest_s = more_s;
    longest = rank;
  }
};

using Key = std::pair<std::size_t, std::string>;  // rank waited for, reason

std::map<Key, Group> groups_of(const Waiting& waiting) {
  std::map<Key, Group> groups;
  for (const WaitedFor& one : waiting.messages)
    if (one.s > 0) groups[{one.other, one.reason}].add(one.rank, one.s, one.calls);
  for (const Collective& collective : waiting.collectives) {
    const Collective::Member& last = collective.last();
    Group& group =
        groups[{last.rank, fmt::format("{}, {}", collective.function, collective.communicator)}];
    for (const Collective::Member& member : collective.members)
      if (const double s = collective.waited_s(member); s > 0)
        group.add(member.rank, s, member.calls);
  }
  return groups;
}

}  // namespace

const Collective::Member& Collective::last() const {
  return root ? *std::ranges::find(members, *root, &Member::rank)
              : *std::ranges::min_element(members, {}, &Member::s);
}

double Collective::waited_s(const Member& member) const {
  return std::max(0.0, member.s - last().s);
}

std::string wait_lines(const Waiting& waiting, std::size_t most) {
  const auto groups = groups_of(waiting);
  std::vector<std::pair<Key, Group>> sorted;
  for (const auto& one : groups)
    if (one.second.s >= kLeastS) sorted.push_back(one);
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second.s > b.second.s; });
  std::string text;
  if (sorted.empty() && waiting.num_left_out == 0) return text;
  text += sorted.size() > most ? fmt::format("waits, the longest {} of {}:\n", most, sorted.size())
                               : std::string("waits:\n");
  for (std::size_t i = 0; i < sorted.size() && i < most; ++i) {
    const auto& [key, group] = sorted[i];
    if (group.num_ranks == 1)
      text += fmt::format("  rank {} waited {:.3f} s for rank {} ({}, {} call{})\n", group.longest,
                          group.s, key.first, key.second, group.calls, group.calls == 1 ? "" : "s");
    else
      text += fmt::format(
          "  {} ranks waited {:.3f} s in sum for rank {} ({}, {} calls), rank {} longest: {:.3f} "
          "s\n",
          group.num_ranks, group.s, key.first, key.second, group.calls, group.longest,
          group.longest_s);
  }
  if (waiting.num_left_out != 0)
    text += fmt::format("  without {} sends and receives, as a process logs its first {} only\n",
                        waiting.num_left_out, kMostEnds);
  return text;
}

Panel panel_of(const Waiting& waiting) {
  Panel panel;
  panel.row_axis = "rank that waited";
  panel.column_axis = "for rank";
  panel.unit = Panel::Unit::seconds;
  double all_s = 0;
  std::map<std::pair<std::size_t, std::size_t>, double> cells;
  for (const WaitedFor& one : waiting.messages) cells[{one.rank, one.other}] += one.s;
  for (const Collective& collective : waiting.collectives)
    for (const Collective::Member& member : collective.members)
      cells[{member.rank, collective.last().rank}] += collective.waited_s(member);
  for (const auto& [ranks, s] : cells) {
    if (s <= 0) continue;
    panel.cells.push_back({ranks.first, ranks.second, s, {}});
    all_s += s;
  }
  panel.title = fmt::format("waits: {:.3f} s of all ranks", all_s);
  return panel;
}

}  // namespace weft::profile
