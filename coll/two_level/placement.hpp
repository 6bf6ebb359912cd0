#pragma once
// Placement: the distribution of the members of a team over hosts, as seen by one of them.
//
// Ranks may be mapped to hosts in any way. Hosts are numbered by their first members, and
// `member()` lists the members host by host, in the order of the team within each. Every member
// computes the same numbers, as they follow from the members' hosts alone. Pure data; one thread.
#include <cstddef>
#include <vector>

#include "coll/plan/plan.hpp"

namespace weft::coll {

class Placement {
 public:
  // For up to `most` members, on hosts that have names from 0 to num_names - 1. Allocates all
  // memory.
  void reserve(std::size_t most, std::size_t num_names);
  // For the member `rank` of `size`; name_of(member) is the name of its host.
  template <class NameOf>
  void assign(int rank, int size, NameOf&& name_of) noexcept {
    names_.resize(static_cast<std::size_t>(size));
    for (int m = 0; m < size; ++m) names_[static_cast<std::size_t>(m)] = name_of(m);
    arrange(rank);
  }

  // Returns true if the members are on several hosts and some of them share one.
  bool is_worth_it() const noexcept {
    return size() > 1 && size() < static_cast<int>(order_.size());
  }
  int size() const noexcept { return static_cast<int>(begin_.size()) - 1; }
  // The host of this member.
  int mine() const noexcept { return mine_; }
  int host(int member) const noexcept { return host_of_[static_cast<std::size_t>(member)]; }
  // The member's rank among those of its host.
  int local_rank(int member) const noexcept {
    return local_rank_of_[static_cast<std::size_t>(member)];
  }
  // Members of a host are member(begin(host)) to member(begin(host + 1) - 1).
  int begin(int host) const noexcept { return begin_[static_cast<std::size_t>(host)]; }
  int size(int host) const noexcept { return begin(host + 1) - begin(host); }
  int member(int position) const noexcept { return order_[static_cast<std::size_t>(position)]; }
  // Returns true if that is the order of the team, so that reducing host by host keeps it.
  bool is_in_order() const noexcept { return in_order_; }
  // Returns true if all hosts have equally many members.
  bool is_even() const noexcept { return largest_ == smallest_; }
  // The number of members of the host that has most.
  int largest() const noexcept { return largest_; }

  // Chooses the leaders until the next call: of each host its first member, but of the host of
  // `root` (-1: none) the root. Returns true if this member leads its host.
  bool lead(int root = -1) noexcept;
  // The local rank of this host's leader, and the member that leads a host.
  int leader() const noexcept { return leader_; }
  int leader_of(int host) const noexcept { return leaders_[static_cast<std::size_t>(host)]; }

  // The members of this host, and the leaders.
  Group inside_group() const noexcept {
    return {local_rank_, size(mine_), order_.data() + begin(mine_)};
  }
  Group across_group() const noexcept { return {mine_, size(), leaders_.data()}; }

 private:
  void arrange(int rank) noexcept;

  std::vector<int> names_;      // by member
  std::vector<int> number_of_;  // by name; -1 between calls
  std::vector<int> host_of_;
  std::vector<int> local_rank_of_;
  std::vector<int> begin_{0};
  std::vector<int> order_;
  std::vector<int> leaders_;
  int mine_ = 0;
  int local_rank_ = 0;  // of this member
  int leader_ = 0;
  int led_by_root_ = -1;  // the host that is not led by its first member
  bool in_order_ = true;
  int smallest_ = 0, largest_ = 0;  // fewest and most members of a host
};

}  // namespace weft::coll
