#include "coll/background.hpp"

#include <algorithm>
#include <vector>

#include "coll/hosts.hpp"

namespace weft::coll {
namespace {

Algorithm by_messages(const Members& members, Collective collective, int size, std::size_t bytes,
                      bool commutative = true) {
  return choose(collective, {size, bytes, false, commutative}, *members.choices);
}

// Who leads the hosts in one call, as Placement::lead, but apart from what other calls of the team
// have chosen: several of them may be begun by several threads.
class Led {
 public:
  explicit Led(const Placement& hosts, int root = -1)
      : hosts_(hosts), leaders_(index(hosts.size())) {
    for (int h = 0; h < hosts.size(); ++h) leaders_[index(h)] = hosts.member(hosts.begin(h));
    if (root >= 0) leaders_[index(hosts.host(root))] = root;
    leader_ = hosts.place(leaders_[index(hosts.mine())]);
  }
  bool leads() const { return hosts_.inside_group().rank == leader_; }
  int leader() const { return leader_; }
  Group across() const { return {hosts_.mine(), hosts_.size(), leaders_.data()}; }

 private:
  const Placement& hosts_;
  std::vector<int> leaders_;
  int leader_;
};

// The hosts, if combining host by host keeps what order the operation needs.
const Placement* hosts_of(const Members& members, Collective collective, bool commutative = true) {
  const Placement* hosts = members.hosts;
  if (hosts == nullptr || !(commutative || hosts->is_in_order()) ||
      members.choices->ignores_hosts(collective))
    return nullptr;
  // Whatever it is for others, two levels are right for all that is done in the background.
  const auto chosen = (*members.choices)[collective];
  const bool is_chosen = std::ranges::any_of(
      chosen, [](const Choice& choice) { return choice.algorithm == Algorithm::two_level; });
  return chosen.empty() || is_chosen ? hosts : nullptr;
}

Group all(const Members& members) { return {members.rank, members.size}; }

void allreduce_within(const Members& members, Plan& plan, const Group& group, Place data,
                      Vector vector, bool commutative) {
  write_allreduce(
      by_messages(members, Collective::allreduce, group.size, vector.bytes(), commutative), plan,
      group, data, vector);
  plan.settle();
}

}  // namespace

void bcast_within(const Members& members, Plan& plan, const Group& group, Place data,
                  std::size_t bytes, int root) {
  if (group.size == 1) return;
  write_bcast(by_messages(members, Collective::bcast, group.size, bytes), plan, group, data, bytes,
              root);
  plan.settle();
}

void reduce_within(const Members& members, Plan& plan, const Group& group, Place input,
                   Place output, Vector vector, bool commutative, int root) {
  if (group.size == 1) return plan.copy(output, input, vector.bytes());
  write_reduce(by_messages(members, Collective::reduce, group.size, vector.bytes(), commutative),
               plan, group, input, output, vector, commutative, root);
  plan.settle();
}

Members members_of(Team& team) { return {team.rank(), team.size(), team.hosts(), &team.choices()}; }

void write_barrier_steps(const Members& members, Plan& plan) {
  const Placement* hosts = hosts_of(members, Collective::barrier);
  if (hosts == nullptr) return barrier_dissemination(plan, all(members));
  const Led led(*hosts);
  const bool leads = led.leads();
  const Group inside = hosts->inside_group();
  if (inside.size > 1) {
    gather_binomial(plan, inside, {}, {}, 0, led.leader());
    plan.settle();
  }
  if (leads) barrier_dissemination(plan, led.across());
  // Not by the algorithm of broadcasts, some of which have no steps for no bytes.
  if (inside.size > 1) bcast_binomial(plan, inside, {}, 0, led.leader());
}

void write_bcast_steps(const Members& members, Plan& plan, std::size_t bytes, int root) {
  const Placement* hosts = hosts_of(members, Collective::bcast);
  if (hosts == nullptr) return bcast_within(members, plan, all(members), kOutput, bytes, root);
  const Led led(*hosts, root);
  if (led.leads()) bcast_within(members, plan, led.across(), kOutput, bytes, hosts->host(root));
  bcast_within(members, plan, hosts->inside_group(), kOutput, bytes, led.leader());
}

void write_reduce_steps(const Members& members, Plan& plan, Vector vector, bool commutative,
                        int root) {
  const Placement* hosts = hosts_of(members, Collective::reduce, commutative);
  if (hosts == nullptr)
    return reduce_within(members, plan, all(members), kInput, kOutput, vector, commutative, root);
  const Led led(*hosts, root);
  const bool leads = led.leads();
  const Place sum = leads && members.rank != root ? plan.scratch(vector.bytes()) : kOutput;
  reduce_within(members, plan, hosts->inside_group(), kInput, sum, vector, commutative,
                led.leader());
  if (leads)
    reduce_within(members, plan, led.across(), sum, kOutput, vector, commutative,
                  hosts->host(root));
}

void write_allreduce_steps(const Members& members, Plan& plan, Vector vector, bool commutative) {
  const Placement* hosts = hosts_of(members, Collective::allreduce, commutative);
  if (hosts == nullptr)
    return allreduce_within(members, plan, all(members), kOutput, vector, commutative);
  const Led led(*hosts);
  const bool leads = led.leads();
  const Group inside = hosts->inside_group();
  reduce_within(members, plan, inside, kOutput, kOutput, vector, commutative, led.leader());
  if (leads) allreduce_within(members, plan, led.across(), kOutput, vector, commutative);
  bcast_within(members, plan, inside, kOutput, vector.bytes(), led.leader());
}

void write_scan_steps(const Members& members, Plan& plan, Vector vector, bool exclusive) {
  const auto within = [&](const Group& group, Place data, bool is_exclusive) {
    write_scan(by_messages(members, Collective::scan, group.size, vector.bytes()), plan, group,
               data, vector, is_exclusive);
    plan.settle();
  };
  // Prefixes are of ranks in order, whatever the operation.
  const Placement* hosts = hosts_of(members, Collective::scan, false);
  if (hosts == nullptr) return within(all(members), kOutput, exclusive);
  const Led led(*hosts);
  const Group inside = hosts->inside_group();
  const Place before = plan.scratch(vector.bytes());
  reduce_within(members, plan, inside, kOutput, before, vector, false, led.leader());
  if (led.leads()) within(led.across(), before, true);
  within(inside, kOutput, exclusive);
  if (hosts->mine() == 0) return;
  bcast_within(members, plan, inside, before, vector.bytes(), led.leader());
  if (exclusive && inside.rank == 0)
    plan.copy(kOutput, before, vector.bytes());
  else
    plan.combine(before, kOutput, vector.count);
}

void write_reduce_scatter_steps(const Members& members, Plan& plan, const std::size_t* counts,
                                std::size_t unit, bool commutative) {
  std::size_t count = 0;
  for (int r = 0; r < members.size; ++r) count += counts[r];
  write_reduce_scatter(
      by_messages(members, Collective::reduce_scatter, members.size, count * unit, commutative),
      plan, all(members), kInput, kOutput, counts, unit);
}

void write_allgather_steps(const Members& members, Plan& plan, std::size_t bytes) {
  const Placement* hosts = hosts_of(members, Collective::allgather);
  const auto within = [&](const Group& group, Place blocks, std::size_t block) {
    write_allgather(by_messages(members, Collective::allgather, group.size, block), plan, group,
                    blocks, block);
    plan.settle();
  };
  // Hosts of different sizes have blocks of different lengths.
  if (hosts == nullptr || !hosts->is_even()) return within(all(members), kOutput, bytes);
  const Led led(*hosts);
  const bool leads = led.leads();
  const Group inside = hosts->inside_group();
  const int n = members.size, mine = hosts->mine();
  const std::size_t of_host = index(inside.size) * bytes;
  const Place own = kOutput + index(members.rank) * bytes;
  const Place blocks = hosts->is_in_order() ? kOutput : plan.scratch(index(n) * bytes);
  const Place here = blocks + index(mine) * of_host;
  if (leads) plan.copy(here + index(led.leader()) * bytes, own, bytes);
  if (inside.size > 1) {
    gather_binomial(plan, inside, own, here, bytes, led.leader());
    plan.settle();
  }
  if (leads) within(led.across(), blocks, of_host);
  bcast_within(members, plan, inside, blocks, index(n) * bytes, led.leader());
  if (!hosts->is_in_order())
    for (int i = 0; i < n; ++i)
      plan.copy(kOutput + index(hosts->member(i)) * bytes, blocks + index(i) * bytes, bytes);
}

void write_gather_steps(const Members& members, Plan& plan, std::size_t bytes, int root) {
  write_gather(by_messages(members, Collective::gather, members.size, bytes), plan, all(members),
               kInput, kOutput, bytes, root);
}

void write_scatter_steps(const Members& members, Plan& plan, std::size_t bytes, int root) {
  write_scatter(by_messages(members, Collective::scatter, members.size, bytes), plan, all(members),
                kInput, kOutput, bytes, root);
}

void write_alltoall_steps(const Members& members, Plan& plan, std::size_t bytes) {
  write_alltoall(by_messages(members, Collective::alltoall, members.size, bytes), plan,
                 all(members), kInput, kOutput, bytes);
}

}  // namespace weft::coll
