// Scatter over hosts: the reverse of two_level_gather.
#include "coll/two_level.hpp"

namespace weft::coll {

Status two_level_scatter(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const int n = team.size(), mine = hosts.mine();
  const bool in_place = is_root && hosts.is_in_order();
  std::byte* scratch = nullptr;
  if (leads && !in_place) {
    scratch = team.scratch(index(is_root ? n : hosts.size(mine)) * bytes);
    if (scratch == nullptr) return Code::no_memory;
  }
  if (is_root && !in_place)
    for (int i = 0; i < n; ++i)
      copy_bytes(scratch + index(i) * bytes, at(send, index(hosts.member(i)) * bytes), bytes);
  const void* blocks = in_place ? send : scratch;  // at the root all, host by host
  if (leads) {
    hosts.lay_out(bytes);
    const std::size_t length = hosts.counts[index(mine)];
    void* into = is_root ? nullptr : scratch;
    WEFT_COLL_TRY(hosts.is_even()
                      ? scatter(hosts.across(), blocks, into, length, hosts.host(root))
                      : scatterv(hosts.across(), blocks, hosts.counts.data(),
                                 hosts.displacements.data(), into, length, hosts.host(root)));
  }
  const void* here = is_root ? at(blocks, index(hosts.begin(mine)) * bytes) : blocks;
  return scatter(hosts.inside(), here, is_root ? nullptr : receive, bytes, hosts.leader());
}

}  // namespace weft::coll
