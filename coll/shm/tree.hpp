#pragma once
// ShmTree: groups of a team's members that share a cache, for hosts of many cores. If every member
// waits for the lines of all others, n members move n x n lines between caches, and each waits for
// n - 1; in a tree a member waits for those of its group or for one, the root for one of each group
// besides. So 64 members wait for 16 lines one after the other at most, instead of 63. Constant
// once made; any thread.
#include <cstddef>
#include <span>
#include <vector>

namespace weft::coll {

class ShmTree {
 public:
  // A team of at most this size is flat: later lines arrive while the first ones are waited for.
  static constexpr int kFlatMost = 16;
  static constexpr int kGroupMost = 8;

  // is_near(a, b): members a and b share a cache. Without groups if the team is flat. Throws
  // std::bad_alloc.
  template <class Near>
  static ShmTree make(int size, Near&& is_near) {
    ShmTree tree;
    if (size <= kFlatMost) return tree;
    auto groups = find_groups(size, is_near);
    // Where few share a cache, any groups are better than none.
    if (2 * groups.size() > static_cast<std::size_t>(size))
      groups = find_groups(size, [](int, int) { return true; });
    tree.group_of_.resize(static_cast<std::size_t>(size));
    for (const auto& group : groups) {
      for (const int member : group) {
        if (static_cast<std::size_t>(member) != tree.members_.size()) tree.is_in_order_ = false;
        tree.group_of_[static_cast<std::size_t>(member)] = static_cast<int>(tree.ends_.size());
        tree.members_.push_back(member);
      }
      tree.ends_.push_back(tree.members_.size());
    }
    return tree;
  }

  bool is_flat() const noexcept { return ends_.empty(); }
  int num_groups() const noexcept { return static_cast<int>(ends_.size()); }
  // In the order of ranks.
  std::span<const int> group(int number) const noexcept {
    const std::size_t end = ends_[static_cast<std::size_t>(number)];
    const std::size_t begin = number == 0 ? 0 : ends_[static_cast<std::size_t>(number) - 1];
    return std::span(members_).subspan(begin, end - begin);
  }
  int group_of(int member) const noexcept { return group_of_[static_cast<std::size_t>(member)]; }
  // The member that represents a group: its first member, or the root.
  int head(int number, int root) const noexcept {
    return group_of(root) == number ? root : group(number).front();
  }
  // Returns true if the groups, one after the other, have the members in the order of ranks.
  bool is_in_order() const noexcept { return is_in_order_; }

 private:
  // Groups in the order of their first members.
  template <class Near>
  static std::vector<std::vector<int>> find_groups(int size, Near&& is_near) {
    std::vector<std::vector<int>> groups;
    for (int member = 0; member < size; ++member) {
      auto group = groups.begin();
      while (group != groups.end() &&
             (group->size() == kGroupMost || !is_near(group->front(), member)))
        ++group;
      if (group == groups.end())
        groups.push_back({member});
      else
        group->push_back(member);
    }
    return groups;
  }

  std::vector<int> members_;       // group by group
  std::vector<std::size_t> ends_;  // of the groups, in members_
  std::vector<int> group_of_;
  bool is_in_order_ = true;
};

}  // namespace weft::coll
