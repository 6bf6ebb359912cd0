// Gather over hosts: inside each to its leader, and one message of it to the root, which leads its
// own host.
#include "coll/two_level.hpp"

namespace weft::coll {

Status two_level_gather(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const int n = team.size(), mine = hosts.mine();
  // At the root all blocks host by host; elsewhere those of this host.
  const bool in_place = is_root && hosts.is_in_order();
  std::byte* blocks = static_cast<std::byte*>(receive);
  if (leads && !in_place) {
    blocks = team.scratch(index(is_root ? n : hosts.size(mine)) * bytes);
    if (blocks == nullptr) return Code::no_memory;
  }
  std::byte* here = leads ? blocks : nullptr;
  if (is_root) {
    here = blocks + index(hosts.begin(mine)) * bytes;
    copy_bytes(here + index(hosts.place(root)) * bytes, at(receive, index(root) * bytes), bytes);
  }
  WEFT_COLL_TRY(gather(hosts.inside(), is_root ? nullptr : send, here, bytes, hosts.leader()));
  if (!leads) return {};
  hosts.lay_out(bytes);
  const std::size_t length = hosts.counts[index(mine)];
  const void* from = is_root ? nullptr : here;
  WEFT_COLL_TRY(hosts.is_even() ? gather(hosts.across(), from, blocks, length, hosts.host(root))
                                : gatherv(hosts.across(), from, length, blocks, hosts.counts.data(),
                                          hosts.displacements.data(), hosts.host(root)));
  if (is_root && !in_place)
    for (int i = 0; i < n; ++i)
      copy_bytes(at(receive, index(hosts.member(i)) * bytes), blocks + index(i) * bytes, bytes);
  return {};
}

}  // namespace weft::coll
