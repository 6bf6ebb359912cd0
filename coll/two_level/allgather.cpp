// Allgather over hosts: the leaders exchange the hosts' blocks, each host's as one.
//
// Short blocks: inside to the leader, among the leaders, and all of them inside from the leader.
// Long blocks: around a ring of the leaders, while the blocks that arrived last are passed on
// inside; with h hosts (h - 1) (alpha + bytes of one host beta) across. Each link carries every
// block once.
#include <algorithm>

#include "coll/two_level/two_level.hpp"

namespace weft::coll {
namespace {

// The mean bytes of one host: below it the steps of a ring cost more than they save.
constexpr std::size_t kRingMinBytes = 16 * 1024;

Status share_around_ring(Hosts& hosts, bool leads, std::byte* blocks) {
  const int n = hosts.size();
  const int right = (hosts.mine() + 1) % n, left = (hosts.mine() - 1 + n) % n;
  Links links(hosts.across(), Collective::allgather);
  const auto block = [&](int host) { return at(blocks, hosts.displacements[index(host)]); };
  for (int step = 0; step < n; ++step) {
    const int out = (hosts.mine() - step + n) % n, in = (out - 1 + n) % n;
    std::unique_ptr<tagged::Request> receiving, sending;
    if (leads && step + 1 < n) {
      links.start_receive(receiving, block(in), hosts.counts[index(in)], left);
      links.start_send(sending, block(out), hosts.counts[index(out)], right);
    }
    const Status passed =
        bcast(hosts.inside(), block(out), hosts.counts[index(out)], hosts.leader());
    const Status received = links.finish(receiving);
    const Status sent = links.finish(sending);
    WEFT_COLL_TRY(!passed ? passed : !received ? received : sent);
  }
  return {};
}

// Shares all members' blocks, `total` bytes laid out by hosts.counts and displacements, with all
// members. Each leader has its host's blocks at the beginning.
Status share(Hosts& hosts, bool leads, std::byte* blocks, std::size_t total) {
  if (total / index(hosts.size()) >= kRingMinBytes) return share_around_ring(hosts, leads, blocks);
  const auto& counts = hosts.counts;
  const bool equal =
      std::all_of(counts.begin(), counts.end(), [&](std::size_t c) { return c == counts[0]; });
  if (leads)
    WEFT_COLL_TRY(equal ? allgather(hosts.across(), nullptr, blocks, counts[0])
                        : allgatherv(hosts.across(), nullptr, 0, blocks, counts.data(),
                                     hosts.displacements.data()));
  return bcast(hosts.inside(), blocks, total, hosts.leader());
}

}  // namespace

Status two_level_allgather(Team& team, void* receive, std::size_t bytes) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead();
  const int n = team.size(), me = team.rank();
  const std::size_t total = index(n) * bytes;
  std::byte* blocks = static_cast<std::byte*>(receive);
  if (!hosts.is_in_order()) {
    blocks = team.scratch(total);
    if (blocks == nullptr) return Code::no_memory;
  }
  hosts.lay_out(bytes);
  std::byte* here = at(blocks, hosts.displacements[index(hosts.mine())]);
  const std::byte* own = at(receive, index(me) * bytes);
  if (leads) copy_bytes(here + index(hosts.leader()) * bytes, own, bytes);
  WEFT_COLL_TRY(gather(hosts.inside(), leads ? nullptr : own, here, bytes, hosts.leader()));
  WEFT_COLL_TRY(share(hosts, leads, blocks, total));
  if (blocks != receive)
    for (int i = 0; i < n; ++i)
      copy_bytes(at(receive, index(hosts.member(i)) * bytes), blocks + index(i) * bytes, bytes);
  return {};
}

Status two_level_allgatherv(Team& team, void* receive, const std::size_t* counts,
                            const std::ptrdiff_t* displacements) {
  Hosts& hosts = *team.hosts();
  Team& inside = hosts.inside();
  const bool leads = hosts.lead();
  const int n = team.size(), me = team.rank(), mine = hosts.mine();
  const auto length = [&](int position) { return counts[hosts.member(position)]; };
  std::size_t total = 0;
  for (int h = 0; h < hosts.size(); ++h) {
    hosts.displacements[index(h)] = static_cast<std::ptrdiff_t>(total);
    for (int i = hosts.begin(h); i < hosts.begin(h + 1); ++i) total += length(i);
    hosts.counts[index(h)] = total - static_cast<std::size_t>(hosts.displacements[index(h)]);
  }
  std::byte* blocks = team.scratch(total);
  if (blocks == nullptr) return Code::no_memory;
  hosts.lay_out_members(inside.size(),
                        [&](int place) { return length(hosts.begin(mine) + place); });
  std::byte* here = at(blocks, hosts.displacements[index(mine)]);
  WEFT_COLL_TRY(gatherv(inside, at(receive, displacements[me]), counts[me], here,
                        hosts.member_counts.data(), hosts.member_displacements.data(),
                        hosts.leader()));
  WEFT_COLL_TRY(share(hosts, leads, blocks, total));
  std::size_t next = 0;
  for (int i = 0; i < n; ++i) {
    if (hosts.member(i) != me)
      copy_bytes(at(receive, displacements[hosts.member(i)]), blocks + next, length(i));
    next += length(i);
  }
  return {};
}

}  // namespace weft::coll
