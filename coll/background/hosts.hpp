#pragma once
// Helpers for the steps of collectives over hosts: the leaders of hosts, and the layout of blocks
// that are gathered host by host.
#include <algorithm>
#include <vector>

#include "coll/background/background.hpp"
#include "coll/two_level/hosts.hpp"

namespace weft::coll {

// The algorithm for the members of one host, or for the leaders of several, by messages.
inline Algorithm by_messages(const TeamShape& team, Collective collective, int size,
                             std::size_t bytes, bool commutative = true) {
  return choose(collective, {size, bytes, false, commutative}, *team.choices);
}

// Counts a call of all members that goes over these hosts or, without, by messages.
inline void count_call(const TeamShape& team, Collective collective, const Placement* hosts,
                       std::size_t bytes, bool commutative = true) {
  const Algorithm algorithm = hosts != nullptr
                                  ? Algorithm::two_level
                                  : by_messages(team, collective, team.size, bytes, commutative);
  team.counts.add(collective, algorithm, bytes);
}

inline Group all(const TeamShape& team) { return {team.rank, team.size}; }

// The hosts, if the table or the settings take two levels for so many bytes (as in Situation); else
// null.
inline const Placement* hosts_of(const TeamShape& team, Collective collective, std::size_t bytes,
                                 bool commutative = true) {
  const Situation situation =
      situation_of(team.hosts, collective, team.size, bytes, false, commutative);
  return situation.shared_hosts &&
                 choose(collective, situation, *team.choices) == Algorithm::two_level
             ? team.hosts
             : nullptr;
}

// The leaders of the hosts in one call. As Placement::lead, but apart from what other calls of the
// team have chosen, as several threads may begin calls at the same time.
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

// One block for each member, ordered by host.
struct HostLayout {
  Layout members;  // of all hosts, in the order of Placement::member
  Layout hosts;    // the blocks of each host's members as one
  Layout inside;   // of this host's members, the first one's block at 0

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

// Gather and scatter among some of the members, by messages; complete when the next step begins.
// The root's own block is at its position in `blocks`.
void gather_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef send,
                   BufferRef blocks, const Layout& layout, int root);
void scatter_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef blocks,
                    const Layout& layout, BufferRef receive, int root);

}  // namespace weft::coll
