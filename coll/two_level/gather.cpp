// Gather over hosts: inside each host to its leader, which sends one message to the root, the
// leader of its own host.
#include "coll/plan/plan_run.hpp"
#include "coll/two_level/two_level.hpp"

namespace weft::coll {

Status two_level_gather(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const int n = team.size(), mine = hosts.mine();
  // All blocks, ordered by host, at the root; elsewhere those of this host.
  const bool in_place = is_root && hosts.is_in_order();
  std::byte* blocks = static_cast<std::byte*>(receive);
  if (leads && !in_place) {
    blocks = team.scratch(index(is_root ? n : hosts.size(mine)) * bytes);
    if (blocks == nullptr) return Code::no_memory;
  }
  std::byte* here = leads ? blocks : nullptr;
  if (is_root) {
    here = blocks + index(hosts.begin(mine)) * bytes;
    copy_bytes(here + index(hosts.local_rank(root)) * bytes, at(receive, index(root) * bytes),
               bytes);
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

namespace {

// Calls call(member, its block's length, the block) for all blocks of another host; null for a
// block that the packet does not carry.
template <class Call>
void for_each_block(const Hosts& hosts, int host, const std::byte* packet, Call&& call) {
  const std::byte* next = packet + index(hosts.size(host)) * sizeof(std::size_t);
  for (int place = 0; place < hosts.size(host); ++place) {
    std::size_t length = 0;
    std::memcpy(&length, packet + index(place) * sizeof length, sizeof length);
    const bool is_here = carried(length) == length;
    call(hosts.member(hosts.begin(host) + place), length, is_here ? next : nullptr);
    next += carried(length);
  }
}

// At the root: receives the packets of the other hosts' leaders, and the long blocks of their
// members.
Status receive_from_hosts(Team& team, void* receive, const std::size_t* counts,
                          const std::ptrdiff_t* displacements) {
  Hosts& hosts = *team.hosts();
  const int mine = hosts.mine();
  const std::size_t total = lay_out_packets(
      hosts, [&](int member) { return std::min(counts[member], kMostCarriedBytes); });
  std::byte* packets = hosts.across().scratch(total);
  if (packets == nullptr) return Code::no_memory;
  WEFT_COLL_TRY(gatherv(hosts.across(), nullptr, 0, packets, hosts.counts.data(),
                        hosts.displacements.data(), mine));
  const auto for_each = [&](auto&& call) {
    for (int h = 0; h < hosts.size(); ++h)
      if (h != mine) for_each_block(hosts, h, at(packets, hosts.displacements[index(h)]), call);
  };
  bool some_are_long = false;
  for_each([&](int member, std::size_t length, const std::byte* block) {
    some_are_long = some_are_long || block == nullptr;
    if (block != nullptr)
      copy_bytes(at(receive, displacements[member]), block, std::min(length, counts[member]));
  });
  if (!some_are_long) return {};
  return run_steps(
      team, Collective::gather, {nullptr, receive}, nullptr, [&](Plan& plan, const Group&) {
        for_each([&](int member, std::size_t, const std::byte* block) {
          if (block == nullptr)
            plan.receive(member, kOutput + static_cast<std::size_t>(displacements[member]),
                         counts[member]);
        });
      });
}

}  // namespace

Status two_level_gatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
                         const std::size_t* counts, const std::ptrdiff_t* displacements, int root) {
  Hosts& hosts = *team.hosts();
  Team& inside = hosts.inside();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const int mine = hosts.mine(), leader = hosts.leader();
  if (mine == hosts.host(root)) {
    if (is_root) hosts.take_layout(counts, displacements);
    WEFT_COLL_TRY(gatherv(inside, is_root ? nullptr : send, send_bytes, receive,
                          hosts.member_counts.data(), hosts.member_displacements.data(), leader));
    return is_root ? receive_from_hosts(team, receive, counts, displacements) : Status{};
  }
  std::vector<std::size_t>& lengths = hosts.member_counts;
  hosts.lay_out_members(inside.size(), [](int) { return std::size_t{0}; });
  WEFT_COLL_TRY(gather(inside, &send_bytes, lengths.data(), sizeof(std::size_t), leader));
  std::byte* packet = nullptr;
  std::size_t head = 0, length = 0;
  if (leads) {
    head = lengths.size() * sizeof(std::size_t);
    length = head;
    for (const std::size_t bytes : lengths) length += carried(bytes);
    packet = hosts.across().scratch(length);
    if (packet == nullptr) return Code::no_memory;
    std::memcpy(packet, lengths.data(), head);
    hosts.lay_out_members(inside.size(), [&](int place) { return carried(lengths[index(place)]); });
  }
  WEFT_COLL_TRY(gatherv(inside, send, carried(send_bytes), packet + head, lengths.data(),
                        hosts.member_displacements.data(), leader));
  if (leads)
    WEFT_COLL_TRY(
        gatherv(hosts.across(), packet, length, nullptr, nullptr, nullptr, hosts.host(root)));
  if (carried(send_bytes) == send_bytes) return {};
  return run_steps(team, Collective::gather, {send, nullptr}, nullptr,
                   [&](Plan& plan, const Group&) { plan.send(root, kInput, send_bytes); });
}

}  // namespace weft::coll
