// Reduction over hosts: inside each host to its leader, then from the leaders to the root, which
// leads its own host.
//
// Long vectors are reduced along a chain of the hosts that ends at the root, in pieces, while the
// next piece is reduced inside. With h hosts and p pieces: (p + h - 2) (alpha + bytes / p (beta +
// gamma)) across, and one piece inside; every link carries the vector once, where other algorithms
// bring up to twice as much to the root. With many hosts the chain is too long.
#include <array>

#include "coll/two_level/two_level.hpp"

namespace weft::coll {

namespace {

constexpr std::size_t kReduceChainMinBytes = 64 * 1024;

// For commutative operations.
Status reduce_along_chain(Team& team, const void* input, void* receive, std::size_t count,
                          const Reduction& op, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const int n = hosts.size(), place = (hosts.mine() - hosts.host(root) + n) % n;
  const int from = (hosts.mine() + 1) % n, to = (hosts.mine() - 1 + n) % n;
  const bool receives = leads && place + 1 < n, sends = leads && !is_root;
  const std::size_t unit = op.element_bytes;
  const std::size_t most = std::max<std::size_t>(
      1, std::clamp<std::size_t>(count * unit / 16, 16 * 1024, 128 * 1024) / unit);
  // Two buffers for arriving pieces, and two for this host's own: while one piece is reduced the
  // one before is sent and the next one arrives.
  const std::size_t stride = round_up_line(most * unit);
  std::byte* scratch = leads ? team.scratch(4 * stride) : nullptr;
  if ((leads && scratch == nullptr) || !hosts.make_room(most * unit)) return Code::no_memory;

  Links links(hosts.across(), Collective::reduce);
  std::array<std::unique_ptr<tagged::Request>, 2> receiving;
  std::unique_ptr<tagged::Request> sending;
  const auto length = [&](std::size_t first) { return std::min(most, count - first); };
  const auto came = [&](std::size_t piece) { return scratch + piece % 2 * stride; };
  const auto start_receive = [&](std::size_t piece) {
    if (receives && piece * most < count)
      links.start_receive(receiving[piece % 2], came(piece), length(piece * most) * unit, from);
  };
  Status status;
  start_receive(0);
  for (std::size_t piece = 0; status && piece * most < count; ++piece) {
    const std::size_t num = length(piece * most), offset = piece * most * unit;
    start_receive(piece + 1);
    std::byte* sum = !leads    ? nullptr
                     : is_root ? at(receive, offset)
                               : scratch + (2 + piece % 2) * stride;
    status = reduce(hosts.inside(), is_root && input == receive ? nullptr : at(input, offset), sum,
                    num, op, hosts.leader());
    if (status) status = links.finish(receiving[piece % 2]);
    if (status && receives) op.apply(came(piece), sum, num, op.argument);
    if (Status sent = links.finish(sending); status && !sent) status = sent;
    if (status && sends) links.start_send(sending, sum, num * unit, to);
  }
  for (auto* request : {&receiving[0], &receiving[1], &sending})
    if (Status done = links.finish(*request); status && !done) status = done;
  return status;
}

Status reduce_piece(Team& team, const void* input, void* receive, std::size_t count,
                    const Reduction& op, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const std::size_t bytes = count * op.element_bytes;
  void* sum = is_root ? receive : nullptr;
  if (leads && !is_root) {
    sum = team.scratch(bytes);
    if (sum == nullptr) return Code::no_memory;
  }
  if (!hosts.make_room(bytes)) return Code::no_memory;
  WEFT_COLL_TRY(
      reduce(hosts.inside(), input == sum ? nullptr : input, sum, count, op, hosts.leader()));
  if (!leads) return {};
  return reduce(hosts.across(), is_root ? nullptr : sum, receive, count, op, hosts.host(root));
}

}  // namespace

Status two_level_reduce(Team& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op, int root) {
  if (op.commutative && count * op.element_bytes >= kReduceChainMinBytes &&
      team.hosts()->size() <= kChainMaxHosts)
    return reduce_along_chain(team, input, receive, count, op, root);
  return in_pieces(count, op, [&](std::size_t offset, std::size_t num) {
    return reduce_piece(team, at(input, offset), receive == nullptr ? nullptr : at(receive, offset),
                        num, op, root);
  });
}

}  // namespace weft::coll
