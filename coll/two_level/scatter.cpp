// Scatter over hosts: the reverse of two_level_gather.
#include "coll/plan/plan_run.hpp"
#include "coll/two_level/two_level.hpp"

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
  const void* blocks = in_place ? send : scratch;  // all, ordered by host, at the root
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

namespace {

// At the root: sends the lengths and short blocks of each other host to its leader.
Status send_to_hosts(Team& team, const void* send, const std::size_t* counts,
                     const std::ptrdiff_t* displacements) {
  Hosts& hosts = *team.hosts();
  const int mine = hosts.mine();
  const std::size_t total =
      lay_out_packets(hosts, [&](int member) { return carried(counts[member]); });
  std::byte* packets = team.scratch(total);
  if (packets == nullptr) return Code::no_memory;
  for (int h = 0; h < hosts.size(); ++h) {
    std::byte* head = at(packets, hosts.displacements[index(h)]);
    std::byte* next = head + index(hosts.size(h)) * sizeof(std::size_t);
    for (int i = hosts.begin(h); h != mine && i < hosts.begin(h + 1); ++i) {
      const int member = hosts.member(i);
      std::memcpy(head, counts + member, sizeof(std::size_t));
      head += sizeof(std::size_t);
      copy_bytes(next, at(send, displacements[member]), carried(counts[member]));
      next += carried(counts[member]);
    }
  }
  return run_steps(hosts.across(), Collective::scatter, {packets, nullptr}, nullptr,
                   [&](Plan& plan, const Group&) {
                     for (int h = 0; h < hosts.size(); ++h) {
                       if (h == mine) continue;
                       const BufferRef packet =
                           kInput + static_cast<std::size_t>(hosts.displacements[index(h)]);
                       const std::size_t head = index(hosts.size(h)) * sizeof(std::size_t);
                       plan.send(h, packet, head);
                       if (const std::size_t rest = hosts.counts[index(h)] - head; rest != 0)
                         plan.send(h, packet + head, rest);
                     }
                   });
}

}  // namespace

Status two_level_scatterv(Team& team, const void* send, const std::size_t* counts,
                          const std::ptrdiff_t* displacements, void* receive,
                          std::size_t receive_bytes, int root) {
  Hosts& hosts = *team.hosts();
  Team& inside = hosts.inside();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const int mine = hosts.mine(), leader = hosts.leader(), root_host = hosts.host(root);
  if (mine == root_host) {
    if (is_root) WEFT_COLL_TRY(send_to_hosts(team, send, counts, displacements));
    if (is_root) hosts.take_layout(counts, displacements);
    WEFT_COLL_TRY(scatterv(inside, send, hosts.member_counts.data(),
                           hosts.member_displacements.data(), is_root ? nullptr : receive,
                           receive_bytes, leader));
    if (!is_root) return {};
    return run_steps(
        team, Collective::scatter, {send, nullptr}, nullptr, [&](Plan& plan, const Group& group) {
          for (int m = 0; m < group.size; ++m)
            if (hosts.host(m) != mine && carried(counts[m]) != counts[m])
              plan.send(m, kInput + static_cast<std::size_t>(displacements[m]), counts[m]);
        });
  }
  std::vector<std::size_t>& lengths = hosts.member_counts;
  hosts.lay_out_members(inside.size(), [](int) { return std::size_t{0}; });
  std::byte* blocks = nullptr;
  if (leads) {
    const auto receive_part = [&](void* part, std::size_t bytes) {
      return run_steps(hosts.across(), Collective::scatter, {nullptr, part}, nullptr,
                       [&](Plan& plan, const Group&) { plan.receive(root_host, kOutput, bytes); });
    };
    WEFT_COLL_TRY(receive_part(lengths.data(), lengths.size() * sizeof(std::size_t)));
    std::size_t total = 0;
    for (const std::size_t bytes : lengths) total += carried(bytes);
    blocks = hosts.across().scratch(total);
    if (blocks == nullptr) return Code::no_memory;
    if (total != 0) WEFT_COLL_TRY(receive_part(blocks, total));
  }
  std::size_t length = 0;
  WEFT_COLL_TRY(scatter(inside, lengths.data(), &length, sizeof length, leader));
  if (leads)
    hosts.lay_out_members(inside.size(), [&](int place) { return carried(lengths[index(place)]); });
  WEFT_COLL_TRY(scatterv(inside, blocks, lengths.data(), hosts.member_displacements.data(), receive,
                         carried(length) != 0 ? receive_bytes : 0, leader));
  if (carried(length) == length) return {};
  return run_steps(team, Collective::scatter, {nullptr, receive}, nullptr,
                   [&](Plan& plan, const Group&) { plan.receive(root, kOutput, receive_bytes); });
}

}  // namespace weft::coll
