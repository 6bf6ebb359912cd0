// Reduce-scatter over hosts: the entire vector inside each host to its leader; among the leaders
// each gets the parts of its host's members, and scatters them.
#include <algorithm>

#include "coll/two_level/two_level.hpp"

namespace weft::coll {

Status two_level_reduce_scatter(Team& team, const void* input, void* receive,
                                const std::size_t* counts, const Reduction& op) {
  Hosts& hosts = *team.hosts();
  Team& inside = hosts.inside();
  const bool leads = hosts.lead();
  const int n = team.size(), first = hosts.begin(hosts.mine()), k = inside.size();
  const std::size_t unit = op.element_bytes;
  std::size_t count = 0;
  for (int r = 0; r < n; ++r) count += counts[r];
  const std::size_t bytes = count * unit, stride = round_up_line(bytes);
  // The vector ordered by host, and the vector in the order of the team where that is different.
  std::byte* parts = nullptr;
  if (leads) {
    parts = team.scratch(hosts.is_in_order() ? bytes : stride + bytes);
    if (parts == nullptr) return Code::no_memory;
  }
  if (!hosts.make_room(bytes)) return Code::no_memory;
  std::byte* whole = leads && !hosts.is_in_order() ? parts + stride : parts;
  WEFT_COLL_TRY(reduce(inside, input, whole, count, op, hosts.leader()));
  if (leads) {
    if (parts != whole) {
      hosts.lay_out_members(n, [&](int r) { return counts[r] * unit; });
      std::size_t next = 0;
      for (int i = 0; i < n; ++i) {
        const std::size_t r = index(hosts.member(i));
        copy_bytes(parts + next, at(whole, hosts.member_displacements[r]), hosts.member_counts[r]);
        next += hosts.member_counts[r];
      }
    }
    for (int h = 0; h < hosts.size(); ++h) {
      hosts.counts[index(h)] = 0;
      for (int i = hosts.begin(h); i < hosts.begin(h + 1); ++i)
        hosts.counts[index(h)] += counts[hosts.member(i)];
    }
    WEFT_COLL_TRY(reduce_scatter(hosts.across(), nullptr, parts, hosts.counts.data(), op));
  }
  // The leader has the parts of its host's members, one after the other.
  const auto own = [&](int place) { return counts[hosts.member(first + place)] * unit; };
  hosts.lay_out_members(k, own);
  const auto& lengths = hosts.member_counts;
  if (std::all_of(lengths.begin(), lengths.end(),
                  [&](auto length) { return length == lengths[0]; }))
    return scatter(inside, parts, receive, lengths[0], hosts.leader());
  return scatterv(inside, parts, lengths.data(), hosts.member_displacements.data(), receive,
                  own(inside.rank()), hosts.leader());
}

}  // namespace weft::coll
