#pragma once
// Hosts: the placement of a team's members on hosts, and the two teams that follow from it: one
// inside this host, one across hosts. The two-level collectives (the other files of coll/two_level)
// are its clients.
//
// Messages of the two teams are in order with the parent team's own, as all members are in the same
// call, so the three share a context. One thread at a time, like the Team.
#include <cstddef>
#include <vector>

#include "coll/coll.hpp"
#include "coll/two_level/placement.hpp"

namespace weft::coll {

// The most scratch memory of a leader for one blocking call, as the team keeps it. Longer vectors
// are reduced in pieces; other calls that would need more go in one level. Background calls choose
// alike, but free their memory at their end: they reduce long vectors in one piece, with up to six
// times the vector, and an allgather out of order takes its result's size on every member.
inline constexpr std::size_t kMostScratchBytes = 32 * 1024 * 1024;
bool fits_scratch(const Placement& hosts, Collective collective, std::size_t bytes) noexcept;

// The situation of a call, for choose(), of blocking and of background calls alike. hosts: null if
// the members are on one host, or each is on a host of its own.
Situation situation_of(const Placement* hosts, Collective collective, int size, std::size_t bytes,
                       bool is_local, bool commutative) noexcept;

class Hosts : public Placement {
 public:
  // For a team of at most `most` members. Allocates all memory that assign() needs.
  Hosts(Team& parent, std::size_t most);
  // Called when the parent team has its members.
  void assign() noexcept;

  // The members of this host.
  Team& inside() noexcept { return inside_; }
  // One member of each host, by number. Only leaders may use it.
  Team& across() noexcept { return across_; }
  // As Placement::lead; every member calls it with the same root.
  bool lead(int root = -1) noexcept;

  // For reductions of so many bytes, before their first message: allocates what the calls of the
  // two teams will need. Returns false if out of memory.
  bool make_room(std::size_t bytes);

  // Arrays for calls that want counts and displacements: of each host,
  std::vector<std::size_t> counts;
  std::vector<std::ptrdiff_t> displacements;
  // and of members.
  std::vector<std::size_t> member_counts;
  std::vector<std::ptrdiff_t> member_displacements;
  // Fills those of hosts with the blocks of `bytes` for each member, ordered by host.
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
  // Fills those of members with the entries of the parent team's arrays for this host's members.
  void take_layout(const std::size_t* counts, const std::ptrdiff_t* displacements) noexcept;

 private:
  Team& parent_;
  Team inside_;
  Team across_;
  std::vector<int> worlds_;
  int led_by_root_ = -1;  // the host whose leader in across() is a root
};

}  // namespace weft::coll
