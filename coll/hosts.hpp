#pragma once
// Hosts: how the members of a team are spread over hosts, and the two teams that follow from it:
// one inside this host, one across hosts. The two-level collectives (two_level_*.cpp) are its
// clients.
//
// Ranks may be mapped to hosts in any way. Hosts are numbered by their first members, and
// `member()` lists the members host by host, in the order of the team within each. Every member
// comes to the same numbers, as they follow from the job's placement alone.
//
// Messages of the two teams are in order with the whole team's own, as all members are in the same
// call, so the three share a context. One thread at a time, like the Team.
#include <cstddef>
#include <vector>

#include "coll/coll.hpp"

namespace weft::coll {

class Hosts {
 public:
  // For a team of at most `most` members. Gets all memory that assign() needs.
  Hosts(Team& whole, std::size_t most);
  // The team has its members now.
  void assign() noexcept;
  // Whether the members are on several hosts and some of them share one.
  bool are_worth_it() const noexcept {
    return size() > 1 && size() < static_cast<int>(order_.size());
  }

  int size() const noexcept { return static_cast<int>(begin_.size()) - 1; }
  int mine() const noexcept { return mine_; }
  int host(int member) const noexcept { return host_of_[static_cast<std::size_t>(member)]; }
  // The member's rank among those of its host.
  int place(int member) const noexcept { return place_of_[static_cast<std::size_t>(member)]; }
  // Members of a host are member(begin(host)) to member(begin(host + 1) - 1).
  int begin(int host) const noexcept { return begin_[static_cast<std::size_t>(host)]; }
  int size(int host) const noexcept { return begin(host + 1) - begin(host); }
  int member(int position) const noexcept { return order_[static_cast<std::size_t>(position)]; }
  // Whether that is the order of the team, so that combining host by host keeps it.
  bool are_in_order() const noexcept { return in_order_; }
  // Whether all hosts have equally many members.
  bool are_even() const noexcept { return even_; }

  // The members of this host.
  Team& inside() noexcept { return inside_; }
  // One member of each host, by number. Only those that lead may use it.
  Team& across() noexcept { return across_; }
  // Until the next call each host is led by its first member, but that of `root` (-1: none) by the
  // root. Every member calls it with the same root. True: this member leads its host.
  bool lead(int root = -1) noexcept;
  // The place of the member that leads this host.
  int leader() const noexcept { return leader_; }

  // For reductions of so many bytes, before their first message: gets what the calls of the two
  // teams will need. False: there is no memory.
  bool make_room(std::size_t bytes);

  // Arrays for calls that want counts and displacements: of each host,
  std::vector<std::size_t> counts;
  std::vector<std::ptrdiff_t> displacements;
  // of members.
  std::vector<std::size_t> member_counts;
  std::vector<std::ptrdiff_t> member_displacements;
  // Fills those of hosts with what `bytes` for each member come to, host by host.
  void lay_out(std::size_t bytes) noexcept;
  // Fills those of members with blocks of these lengths, one after the other.
  template <class Length>
  void lay_out_members(int num, Length&& length) noexcept {
    member_counts.resize(static_cast<std::size_t>(num));
    member_displacements.resize(static_cast<std::size_t>(num));
    std::size_t next = 0;
    for (int i = 0; i < num; ++i) {
      const auto entry = static_cast<std::size_t>(i);
      member_displacements[entry] = static_cast<std::ptrdiff_t>(next);
      member_counts[entry] = length(i);
      next += member_counts[entry];
    }
  }

 private:
  Team& whole_;
  Team inside_;
  Team across_;
  std::vector<int> number_of_;  // by the world rank of a host's first process; -1 between calls
  std::vector<int> host_of_;
  std::vector<int> place_of_;
  std::vector<int> begin_{0};
  std::vector<int> order_;
  std::vector<int> worlds_;
  int mine_ = 0;
  int leader_ = 0;
  int led_by_root_ = -1;  // the host that is not led by its first member
  bool in_order_ = true;
  bool even_ = true;
};

}  // namespace weft::coll
