#pragma once
// What the steps of collectives over hosts have in common: who leads a host, and where blocks lie
// that are put together host by host.
#include <algorithm>
#include <vector>

#include "coll/background/background.hpp"
#include "coll/two_level/hosts.hpp"

namespace weft::coll {

// Of one host or of several hosts' leaders, by messages.
inline Algorithm by_messages(const TeamShape& team, Collective collective, int size,
                             std::size_t bytes, bool commutative = true) {
  return choose(collective, {size, bytes, false, commutative}, *team.choices);
}

inline Group all(const TeamShape& team) { return {team.rank, team.size}; }

// The hosts, if the table or the settings take two levels for so many bytes (as in Situation).
// needs_order: only if the hosts hold the members in order.
inline const Placement* hosts_of(const TeamShape& team, Collective collective, std::size_t bytes,
                                 bool needs_order = false) {
  const Placement* hosts = team.hosts;
  if (hosts == nullptr || (needs_order && !hosts->is_in_order()) ||
      !fits_scratch(*hosts, collective, bytes))
    return nullptr;
  const Situation situation{team.size, bytes, false, !needs_order, true};
  return choose(collective, situation, *team.choices) == Algorithm::two_level ? hosts : nullptr;
}

// Who leads the hosts in one call, as Placement::lead, but apart from what other calls of the team
// have chosen: several of them may be begun by several threads.
class Led {
 public:
  explicit Led(const Placement& hosts, int root = -1)
      : hosts_(hosts), leaders_(index(hosts.size())) {
    for (int h = 0; h < hosts.size(); ++h) leaders_[index(h)] = hosts.member(hosts.begin(h));
    if (root >= 0) leaders_[index(hosts.host(root))] = root;
    leader_ = hosts.local_rank(leaders_[index(hosts.mine())]);
  }
  bool leads() const { return hosts_.inside_group().rank == leader_; }
  int leader() const { return leader_; }
  Group across() const { return {hosts_.mine(), hosts_.size(), leaders_.data()}; }

 private:
  const Placement& hosts_;
  std::vector<int> leaders_;
  int leader_;
};

// Blocks one after the other.
struct Layout {
  std::vector<std::size_t> counts;  // bytes
  std::vector<std::ptrdiff_t> displacements;
  std::size_t total = 0;

  template <class Length>
  Layout(int num, Length&& length) {
    for (int i = 0; i < num; ++i) {
      counts.push_back(length(i));
      displacements.push_back(static_cast<std::ptrdiff_t>(total));
      total += counts.back();
    }
  }
  std::size_t offset(int i) const { return static_cast<std::size_t>(displacements[index(i)]); }
  bool is_even() const { return std::ranges::count(counts, counts[0]) == std::ssize(counts); }
};

// A block of each member, host by host.
struct HostLayout {
  Layout members;  // of all hosts, in the order of Placement::member
  Layout hosts;    // each host's members' blocks as one
  Layout inside;   // of this host's members, where the first one's begins at 0

  template <class Length>
  HostLayout(const Placement& placement, Length&& length)
      : members(placement.begin(placement.size()),
                [&](int i) { return length(placement.member(i)); }),
        hosts(placement.size(),
              [&](int h) {
                std::size_t bytes = 0;
                for (int i = placement.begin(h); i < placement.begin(h + 1); ++i)
                  bytes += members.counts[index(i)];
                return bytes;
              }),
        inside(placement.size(placement.mine()), [&](int place) {
          return members.counts[index(placement.begin(placement.mine()) + place)];
        }) {}
};

// Among some of the members, by messages; over when the next step begins. The root's own block is
// in its place in `blocks`.
void gather_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef send,
                   BufferRef blocks, const Layout& layout, int root);
void scatter_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef blocks,
                    const Layout& layout, BufferRef receive, int root);

}  // namespace weft::coll
