// The steps of collectives that move blocks without reducing them.
#include "coll/background/hosts.hpp"

namespace weft::coll {

void gather_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef send,
                   BufferRef blocks, const Layout& layout, int root) {
  if (group.size == 1 || layout.total == 0) return;
  const std::size_t bytes = layout.counts[index(group.rank)];
  if (layout.is_even())
    write_gather(by_messages(team, Collective::gather, group.size, bytes), plan, group, send,
                 blocks, bytes, root);
  else
    gatherv_linear(plan, group, send, bytes, blocks, layout.counts.data(),
                   layout.displacements.data(), root);
  plan.wait_all();
}

void scatter_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef blocks,
                    const Layout& layout, BufferRef receive, int root) {
  if (group.size == 1 || layout.total == 0) return;
  const std::size_t bytes = layout.counts[index(group.rank)];
  if (layout.is_even())
    write_scatter(by_messages(team, Collective::scatter, group.size, bytes), plan, group, blocks,
                  receive, bytes, root);
  else
    scatterv_linear(plan, group, blocks, layout.counts.data(), layout.displacements.data(), receive,
                    bytes, root);
  plan.wait_all();
}

namespace {

// The most blocks of an alltoall that a leader sorts by host and back, each with a copy step of its
// own.
constexpr std::size_t kMostSorted = 65536;

// Gathers to all members what each holds at its displacement in the output.
void allgather_by_hosts(const TeamShape& team, Plan& plan, const Placement& hosts,
                        const std::size_t* counts, const std::ptrdiff_t* displacements) {
  const Led led(hosts);
  const Group inside = hosts.inside_group(), across = led.across();
  const HostLayout layout(hosts, [&](int member) { return counts[member]; });
  const auto own_place = [&](int member) {
    return kOutput + static_cast<std::size_t>(displacements[member]);
  };
  bool in_place = true;  // the output is ordered by host
  for (int i = 0; i < team.size; ++i)
    in_place =
        in_place && (counts[hosts.member(i)] == 0 ||
                     displacements[hosts.member(i)] == layout.members.displacements[index(i)]);
  const BufferRef blocks = in_place ? kOutput : plan.scratch(layout.members.total);
  const BufferRef here = blocks + layout.hosts.offset(hosts.mine()), own = own_place(team.rank);
  if (led.leads()) plan.copy(here + layout.inside.offset(inside.rank), own, counts[team.rank]);
  gather_within(team, plan, inside, own, here, layout.inside, led.leader());
  if (led.leads()) {
    const std::size_t bytes = layout.hosts.counts[0];
    if (layout.hosts.is_even())
      write_allgather(by_messages(team, Collective::allgather, across.size, bytes), plan, across,
                      blocks, bytes);
    else
      write_allgatherv(plan, across, blocks, layout.hosts.counts.data(),
                       layout.hosts.displacements.data());
    plan.wait_all();
  }
  bcast_within(team, plan, inside, blocks, layout.members.total, led.leader());
  if (in_place) return;
  for (int i = 0; i < team.size; ++i)
    if (const int member = hosts.member(i); member != team.rank)
      plan.copy(own_place(member), blocks + layout.members.offset(i), counts[member]);
}

}  // namespace

void write_allgather_steps(const TeamShape& team, Plan& plan, std::size_t bytes) {
  const Placement* hosts = hosts_of(team, Collective::allgather, bytes);
  count_call(team, Collective::allgather, hosts, bytes);
  if (hosts == nullptr)
    return write_allgather(by_messages(team, Collective::allgather, team.size, bytes), plan,
                           all(team), kOutput, bytes);
  const Layout blocks(team.size, [bytes](int) { return bytes; });
  allgather_by_hosts(team, plan, *hosts, blocks.counts.data(), blocks.displacements.data());
}

void write_allgatherv_steps(const TeamShape& team, Plan& plan, const std::size_t* counts,
                            const std::ptrdiff_t* displacements) {
  const Layout blocks(team.size, [counts](int member) { return counts[member]; });
  if (blocks.total == 0 || team.size == 1) return;
  const std::size_t each = blocks.total / index(team.size);
  const Placement* hosts = hosts_of(team, Collective::allgather, each);
  team.counts.add(Collective::allgather,
                  hosts != nullptr ? Algorithm::two_level : allgatherv_algorithm(blocks.total),
                  each);
  if (hosts == nullptr) return write_allgatherv(plan, all(team), kOutput, counts, displacements);
  allgather_by_hosts(team, plan, *hosts, counts, displacements);
}

void write_gather_steps(const TeamShape& team, Plan& plan, std::size_t bytes, int root) {
  const Placement* hosts = hosts_of(team, Collective::gather, bytes);
  count_call(team, Collective::gather, hosts, bytes);
  if (hosts == nullptr)
    return write_gather(by_messages(team, Collective::gather, team.size, bytes), plan, all(team),
                        kInput, kOutput, bytes, root);
  const Led led(*hosts, root);
  const Group inside = hosts->inside_group();
  const HostLayout layout(*hosts, [bytes](int) { return bytes; });
  // All blocks, ordered by host, at the root; at other leaders those of their host.
  const bool is_root = team.rank == root, in_place = is_root && hosts->is_in_order();
  BufferRef blocks = kOutput;
  if (led.leads() && !in_place)
    blocks = plan.scratch(is_root ? layout.members.total : layout.inside.total);
  const BufferRef here = is_root ? blocks + layout.hosts.offset(hosts->mine()) : blocks;
  if (led.leads())
    plan.copy(here + layout.inside.offset(inside.rank),
              is_root ? kOutput + index(root) * bytes : kInput, bytes);
  gather_within(team, plan, inside, kInput, here, layout.inside, led.leader());
  if (led.leads())
    gather_within(team, plan, led.across(), here, blocks, layout.hosts, hosts->host(root));
  if (!is_root || in_place) return;
  for (int i = 0; i < team.size; ++i)
    plan.copy(kOutput + index(hosts->member(i)) * bytes, blocks + layout.members.offset(i), bytes);
}

void write_scatter_steps(const TeamShape& team, Plan& plan, std::size_t bytes, int root) {
  const Placement* hosts = hosts_of(team, Collective::scatter, bytes);
  count_call(team, Collective::scatter, hosts, bytes);
  if (hosts == nullptr)
    return write_scatter(by_messages(team, Collective::scatter, team.size, bytes), plan, all(team),
                         kInput, kOutput, bytes, root);
  const Led led(*hosts, root);
  const Group inside = hosts->inside_group();
  const HostLayout layout(*hosts, [bytes](int) { return bytes; });
  const bool is_root = team.rank == root, in_place = is_root && hosts->is_in_order();
  BufferRef blocks = kInput;
  if (led.leads() && !in_place)
    blocks = plan.scratch(is_root ? layout.members.total : layout.inside.total);
  if (is_root && !in_place)
    for (int i = 0; i < team.size; ++i)
      plan.copy(blocks + layout.members.offset(i), kInput + index(hosts->member(i)) * bytes, bytes);
  const BufferRef here = is_root ? blocks + layout.hosts.offset(hosts->mine()) : blocks;
  if (led.leads())
    scatter_within(team, plan, led.across(), blocks, layout.hosts, here, hosts->host(root));
  scatter_within(team, plan, inside, here, layout.inside, kOutput, led.leader());
  if (led.leads() && !is_root) plan.copy(kOutput, here + layout.inside.offset(inside.rank), bytes);
}

void write_alltoall_steps(const TeamShape& team, Plan& plan, std::size_t bytes) {
  const Placement* hosts = hosts_of(team, Collective::alltoall, bytes);
  if (hosts != nullptr && index(hosts->largest()) * index(team.size) > kMostSorted) hosts = nullptr;
  count_call(team, Collective::alltoall, hosts, bytes);
  if (hosts == nullptr)
    return write_alltoall(by_messages(team, Collective::alltoall, team.size, bytes), plan,
                          all(team), kInput, kOutput, bytes);
  const Led led(*hosts);
  const Group inside = hosts->inside_group(), across = led.across();
  const int n = team.size, k = inside.size;
  const std::size_t row = index(n) * bytes;
  const Layout rows_inside(k, [row](int) { return row; });
  // rows: what each member of this host sends, later what each receives.
  const BufferRef rows = led.leads() ? plan.scratch(index(k) * row) : kOutput;
  const auto place = [&](int local, int member) {
    return rows + index(local) * row + index(member) * bytes;
  };
  if (led.leads()) plan.copy(place(inside.rank, 0), kInput, row);
  gather_within(team, plan, inside, kInput, rows, rows_inside, led.leader());
  if (led.leads()) {
    const BufferRef out = plan.scratch(index(k) * row), in = plan.scratch(index(k) * row);
    // The data for a host: for each member there, a block of each member here.
    std::size_t next = 0;
    for (int i = 0; i < n; ++i)
      for (int from = 0; from < k; ++from, next += bytes)
        plan.copy(out + next, place(from, hosts->member(i)), bytes);
    const Layout of_hosts(hosts->size(), [&](int h) { return index(k * hosts->size(h)) * bytes; });
    const std::size_t* counts = of_hosts.counts.data();
    const std::ptrdiff_t* displacements = of_hosts.displacements.data();
    if (hosts->is_even())
      write_alltoall(by_messages(team, Collective::alltoall, across.size, counts[0]), plan, across,
                     out, in, counts[0]);
    else
      alltoallv_pairwise(plan, across, out, counts, displacements, in, counts, displacements);
    plan.wait_all();
    // The data from a host: for each member here, a block of each member there.
    next = 0;
    for (int h = 0; h < hosts->size(); ++h)
      for (int to = 0; to < k; ++to)
        for (int i = hosts->begin(h); i < hosts->begin(h + 1); ++i, next += bytes)
          plan.copy(place(to, hosts->member(i)), in + next, bytes);
  }
  scatter_within(team, plan, inside, rows, rows_inside, kOutput, led.leader());
  if (led.leads()) plan.copy(kOutput, place(inside.rank, 0), row);
}

}  // namespace weft::coll
