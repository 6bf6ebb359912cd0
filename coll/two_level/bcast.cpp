// Broadcast over hosts: to the leaders of the hosts, and inside each from its leader.
//
// Long data pass along a chain of the hosts in pieces, and inside a host while the next piece is on
// its way. With h hosts and p pieces: (p + h - 2) (alpha + bytes / p beta) across, and one piece
// inside. With many hosts the chain is too long, and the data go in one piece, by the calls' own
// choice.
#include <algorithm>

#include "coll/two_level/two_level.hpp"

namespace weft::coll {
namespace {

constexpr std::size_t kChainMinBytes = 32 * 1024;

Status bcast_in_pieces(Hosts& hosts, bool leads, void* data, std::size_t bytes, int root) {
  const std::size_t piece = std::clamp<std::size_t>(bytes / 16, 16 * 1024, 128 * 1024);
  const int n = hosts.size(), me = (hosts.mine() - hosts.host(root) + n) % n;
  const int from = (hosts.mine() - 1 + n) % n, to = (hosts.mine() + 1) % n;
  const bool receives = leads && me != 0, sends = leads && me + 1 < n;
  Links links(hosts.across(), Collective::bcast);
  std::unique_ptr<tagged::Request> receiving, sending;
  const auto length = [&](std::size_t offset) { return std::min(piece, bytes - offset); };
  const auto start_receive = [&](std::size_t offset) {
    if (receives && offset < bytes)
      links.start_receive(receiving, at(data, offset), length(offset), from);
  };
  Status status;
  start_receive(0);
  for (std::size_t offset = 0; status && offset < bytes; offset += piece) {
    status = links.finish(receiving);
    if (status) start_receive(offset + piece);
    if (Status sent = links.finish(sending); status && !sent) status = sent;
    if (status && sends) links.start_send(sending, at(data, offset), length(offset), to);
    if (status) status = bcast(hosts.inside(), at(data, offset), length(offset), hosts.leader());
  }
  const Status received = links.finish(receiving);
  const Status sent = links.finish(sending);
  return !status ? status : !received ? received : sent;
}

}  // namespace

Status two_level_bcast(Team& team, void* data, std::size_t bytes, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root);
  if (bytes >= kChainMinBytes && hosts.size() <= kChainMaxHosts)
    return bcast_in_pieces(hosts, leads, data, bytes, root);
  if (leads) WEFT_COLL_TRY(bcast(hosts.across(), data, bytes, hosts.host(root)));
  return bcast(hosts.inside(), data, bytes, hosts.leader());
}

}  // namespace weft::coll
