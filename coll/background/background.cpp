#include <vector>

#include "coll/background/hosts.hpp"

namespace weft::coll {
namespace {

void allreduce_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef data,
                      Vector vector, bool commutative) {
  write_allreduce(by_messages(team, Collective::allreduce, group.size, vector.bytes(), commutative),
                  plan, group, data, vector);
  plan.wait_all();
}

}  // namespace

void bcast_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef data,
                  std::size_t bytes, int root) {
  if (group.size == 1) return;
  write_bcast(by_messages(team, Collective::bcast, group.size, bytes), plan, group, data, bytes,
              root);
  plan.wait_all();
}

void reduce_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef input,
                   BufferRef output, Vector vector, bool commutative, int root) {
  if (group.size == 1) return plan.copy(output, input, vector.bytes());
  write_reduce(by_messages(team, Collective::reduce, group.size, vector.bytes(), commutative), plan,
               group, input, output, vector, commutative, root);
  plan.wait_all();
}

TeamShape shape_of(Team& team) {
  return {team.rank(), team.size(), team.hosts(), &team.choices(), team.counts()};
}

void write_barrier_steps(const TeamShape& team, Plan& plan) {
  const Placement* hosts = hosts_of(team, Collective::barrier, 0);
  count_call(team, Collective::barrier, hosts, 0);
  if (hosts == nullptr) return barrier_dissemination(plan, all(team));
  const Led led(*hosts);
  const bool leads = led.leads();
  const Group inside = hosts->inside_group();
  if (inside.size > 1) {
    gather_binomial(plan, inside, {}, {}, 0, led.leader());
    plan.wait_all();
  }
  if (leads) barrier_dissemination(plan, led.across());
  // Some algorithms of write_bcast() have no steps for zero bytes; this one has.
  if (inside.size > 1) bcast_binomial(plan, inside, {}, 0, led.leader());
}

void write_bcast_steps(const TeamShape& team, Plan& plan, std::size_t bytes, int root) {
  const Placement* hosts = hosts_of(team, Collective::bcast, bytes);
  count_call(team, Collective::bcast, hosts, bytes);
  if (hosts == nullptr) return bcast_within(team, plan, all(team), kOutput, bytes, root);
  const Led led(*hosts, root);
  if (led.leads()) bcast_within(team, plan, led.across(), kOutput, bytes, hosts->host(root));
  bcast_within(team, plan, hosts->inside_group(), kOutput, bytes, led.leader());
}

void write_reduce_steps(const TeamShape& team, Plan& plan, Vector vector, bool commutative,
                        int root) {
  const Placement* hosts = hosts_of(team, Collective::reduce, vector.bytes(), commutative);
  count_call(team, Collective::reduce, hosts, vector.bytes(), commutative);
  if (hosts == nullptr)
    return reduce_within(team, plan, all(team), kInput, kOutput, vector, commutative, root);
  const Led led(*hosts, root);
  const bool leads = led.leads();
  const BufferRef sum = leads && team.rank != root ? plan.scratch(vector.bytes()) : kOutput;
  reduce_within(team, plan, hosts->inside_group(), kInput, sum, vector, commutative, led.leader());
  if (leads)
    reduce_within(team, plan, led.across(), sum, kOutput, vector, commutative, hosts->host(root));
}

void write_allreduce_steps(const TeamShape& team, Plan& plan, Vector vector, bool commutative) {
  const Placement* hosts = hosts_of(team, Collective::allreduce, vector.bytes(), commutative);
  count_call(team, Collective::allreduce, hosts, vector.bytes(), commutative);
  if (hosts == nullptr)
    return allreduce_within(team, plan, all(team), kOutput, vector, commutative);
  const Led led(*hosts);
  const bool leads = led.leads();
  const Group inside = hosts->inside_group();
  reduce_within(team, plan, inside, kOutput, kOutput, vector, commutative, led.leader());
  if (leads) allreduce_within(team, plan, led.across(), kOutput, vector, commutative);
  bcast_within(team, plan, inside, kOutput, vector.bytes(), led.leader());
}

void write_scan_steps(const TeamShape& team, Plan& plan, Vector vector, bool exclusive) {
  const auto within = [&](const Group& group, BufferRef data, bool is_exclusive) {
    write_scan(by_messages(team, Collective::scan, group.size, vector.bytes()), plan, group, data,
               vector, is_exclusive);
    plan.wait_all();
  };
  const Placement* hosts = hosts_of(team, Collective::scan, vector.bytes());
  count_call(team, Collective::scan, hosts, vector.bytes());
  if (hosts == nullptr) return within(all(team), kOutput, exclusive);
  const Led led(*hosts);
  const Group inside = hosts->inside_group();
  const BufferRef before = plan.scratch(vector.bytes());
  reduce_within(team, plan, inside, kOutput, before, vector, false, led.leader());
  if (led.leads()) within(led.across(), before, true);
  within(inside, kOutput, exclusive);
  if (hosts->mine() == 0) return;
  bcast_within(team, plan, inside, before, vector.bytes(), led.leader());
  if (exclusive && inside.rank == 0)
    plan.copy(kOutput, before, vector.bytes());
  else
    plan.reduce(before, kOutput, vector.count);
}

void write_reduce_scatter_steps(const TeamShape& team, Plan& plan, const std::size_t* counts,
                                std::size_t unit, bool commutative) {
  std::size_t count = 0;
  for (int r = 0; r < team.size; ++r) count += counts[r];
  const auto within = [&](const Group& group, BufferRef input, BufferRef output,
                          const std::size_t* each) {
    write_reduce_scatter(
        by_messages(team, Collective::reduce_scatter, group.size, count * unit, commutative), plan,
        group, input, output, each, unit);
    plan.wait_all();
  };
  const Placement* hosts = hosts_of(team, Collective::reduce_scatter, count * unit, commutative);
  count_call(team, Collective::reduce_scatter, hosts, count * unit, commutative);
  if (hosts == nullptr) return within(all(team), kInput, kOutput, counts);
  const Led led(*hosts);
  const Group inside = hosts->inside_group();
  const HostLayout layout(*hosts, [&](int member) { return counts[member] * unit; });
  BufferRef parts = led.leads() ? plan.scratch(count * unit) : kOutput;
  reduce_within(team, plan, inside, kInput, parts, {count, unit}, commutative, led.leader());
  if (led.leads()) {
    if (!hosts->is_in_order()) {
      const BufferRef sum = parts;
      parts = plan.scratch(count * unit);
      const Layout ranks(team.size, [&](int member) { return counts[member] * unit; });
      for (int i = 0; i < team.size; ++i)
        plan.copy(parts + layout.members.offset(i), sum + ranks.offset(hosts->member(i)),
                  layout.members.counts[index(i)]);
    }
    std::vector<std::size_t> elements;
    for (const std::size_t bytes : layout.hosts.counts) elements.push_back(bytes / unit);
    within(led.across(), parts, parts, elements.data());
    plan.copy(kOutput, parts + layout.inside.offset(inside.rank), counts[team.rank] * unit);
  }
  scatter_within(team, plan, inside, parts, layout.inside, kOutput, led.leader());
}

}  // namespace weft::coll
