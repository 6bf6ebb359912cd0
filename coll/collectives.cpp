// The calls of coll.hpp: bring the arguments into one form, choose an algorithm, dispatch.
#include <memory>
#include <new>

#include "base/wait.hpp"
#include "coll/algorithms/algorithms.hpp"
#include "coll/multicast/network_bcast.hpp"
#include "coll/offload/offload.hpp"
#include "coll/plan/plan_run.hpp"
#include "coll/shm/collectives.hpp"
#include "coll/two_level/two_level.hpp"

namespace weft::coll {

Algorithm algorithm_for(Team& team, Collective collective, std::size_t bytes, bool commutative) {
  const Algorithm algorithm = choose(
      collective,
      situation_of(team.hosts(), collective, team.size(), bytes, team.is_local(), commutative),
      team.choices());
  // The segment first: a member that gives up notifies the others of its host through it.
  if (algorithm == Algorithm::two_level && team.hosts()->inside().size() > 1)
    (void)team.hosts()->inside().shm();
  if (algorithm != Algorithm::shm || team.shm() != nullptr) return algorithm;
  // No member can have a shared segment: choose as if they were on different hosts.
  return choose(collective, {team.size(), bytes, false, commutative}, Choices{});
}

// Notifies the others, which may wait for this member without knowing of the loss.
Status lost(Team& team) {
  team.give_up();
  return Code::peer_lost;
}

void leave_to_hosts(Team& team) {
  if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
    offload->say_left();
}

Status ended(Team& team, Status status) {
  if (status == Code::peer_lost || status == Code::timed_out ||
      (status == Code::no_memory && team.is_out_of_memory()))
    team.give_up();
  return status;
}

namespace {

// Chooses an algorithm for the call that begins, and counts it.
Algorithm take(Team& team, Collective collective, std::size_t bytes) {
  const Algorithm algorithm = algorithm_for(team, collective, bytes);
  team.counts().add(collective, algorithm, bytes);
  return algorithm;
}

Algorithm take(Team& team, Collective collective, std::size_t bytes, const Reduction& op) {
  Algorithm algorithm = algorithm_for(team, collective, bytes, op.commutative);
  if (algorithm == Algorithm::shm && op.element_bytes > max_shm_element_bytes(team.size()))
    algorithm = choose(collective, {team.size(), bytes, false, op.commutative}, Choices{});
  team.counts().add(collective, algorithm, bytes);
  return algorithm;
}

// Returns true if the settings take the network for a broadcast of so many bytes.
bool is_by_network(Team& team, std::size_t bytes) {
  Situation situation =
      situation_of(team.hosts(), Collective::bcast, team.size(), bytes, team.is_local(), true);
  situation.may_be_copied = true;
  return choose(Collective::bcast, situation, team.choices()) == Algorithm::native;
}

// A call of a team that may use switches, by them or by the hosts; timed in a trial.
template <class ByHosts>
Status by_either(offload::Offload& offload, Team& team, const offload::Call& call,
                 ByHosts&& by_hosts) {
  const bool is_taken = offload.enter(call);
  if (is_taken) team.counts().add(call.collective, Algorithm::by_switch, call.counted_bytes());
  if (!offload.is_trial()) return is_taken ? ended(team, offload.run(call)) : by_hosts();
  const std::uint64_t begin_ns = now_ns();
  const Status status = is_taken ? ended(team, offload.run(call)) : by_hosts();
  if (status) offload.note_time(call, is_taken, now_ns() - begin_ns);
  return status;
}

Status barrier_by_hosts(Team& team) {
  switch (take(team, Collective::barrier, 0)) {
    case Algorithm::shm:
      return shm_barrier(*team.shm());
    case Algorithm::two_level:
      return ended(team, two_level_barrier(team));
    default:
      return run_steps(team, Collective::barrier, {}, nullptr, barrier_dissemination);
  }
}

Status allreduce_by_hosts(Team& team, const void* send, void* receive, std::size_t count,
                          const Reduction& op) {
  const std::size_t bytes = count * op.element_bytes;
  const Algorithm algorithm = take(team, Collective::allreduce, bytes, op);
  if (algorithm == Algorithm::shm)
    return shm_allreduce(*team.shm(), send != nullptr ? send : receive, receive, count, op);
  if (algorithm == Algorithm::two_level)
    return ended(team,
                 two_level_allreduce(team, send != nullptr ? send : receive, receive, count, op));
  if (send != nullptr) copy_bytes(receive, send, bytes);
  return run_steps(team, Collective::allreduce, {nullptr, receive}, &op,
                   [&](Plan& plan, const Group& group) {
                     write_allreduce(algorithm, plan, group, kOutput, {count, op.element_bytes});
                   });
}

Status bcast_by_hosts(Team& team, void* data, std::size_t bytes, int root) {
  if (NetworkBcasts* network = team.network_bcasts();
      network != nullptr && network->takes(bytes, root) && is_by_network(team, bytes))
      [[unlikely]] {
    bool is_done = false;
    WEFT_COLL_TRY(network->bcast(data, bytes, root, is_done));
    if (is_done) {
      team.counts().add(Collective::bcast, Algorithm::native, bytes);
      return {};
    }
  }
  const Algorithm algorithm = take(team, Collective::bcast, bytes);
  switch (algorithm) {
    case Algorithm::shm:
      return shm_bcast(*team.shm(), data, bytes, root);
    case Algorithm::two_level:
      return ended(team, two_level_bcast(team, data, bytes, root));
    default:
      return run_steps(team, Collective::bcast, {nullptr, data}, nullptr,
                       [&](Plan& plan, const Group& group) {
                         write_bcast(algorithm, plan, group, kOutput, bytes, root);
                       });
  }
}

Status reduce_by_hosts(Team& team, const void* input, void* receive, std::size_t count,
                       const Reduction& op, int root) {
  const std::size_t bytes = count * op.element_bytes;
  const Algorithm algorithm = take(team, Collective::reduce, bytes, op);
  switch (algorithm) {
    case Algorithm::shm:
      return shm_reduce(*team.shm(), input, receive, count, op, root);
    case Algorithm::two_level:
      return ended(team, two_level_reduce(team, input, receive, count, op, root));
    default:
      return run_steps(team, Collective::reduce, {input, receive}, &op,
                       [&](Plan& plan, const Group& group) {
                         write_reduce(algorithm, plan, group, kInput, kOutput,
                                      {count, op.element_bytes}, op.commutative, root);
                       });
  }
}

// Returns true if a reduction needs no other member: it has no bytes, or the team one member, or
// the team is broken.
bool is_trivial(Team& team, const void* input, void* receive, std::size_t bytes, Status& status) {
  if (bytes == 0) return true;
  if (team.size() == 1) {
    if (input != receive) copy_bytes(receive, input, bytes);
    return true;
  }
  if (!team.is_broken()) return false;
  status = lost(team);
  return true;
}

// A copy of data that an in-place call both sends and overwrites.
std::unique_ptr<std::byte[]> copy_of(const void* data, std::size_t bytes) {
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
  if (memory) copy_bytes(memory.get(), data, bytes);
  return memory;
}

Status reduce_scatter_by_hosts(Team& team, const void* input, void* receive,
                               const std::size_t* counts, std::size_t bytes, const Reduction& op) {
  const Algorithm algorithm = take(team, Collective::reduce_scatter, bytes, op);
  switch (algorithm) {
    case Algorithm::shm: {
      if (input != receive) return shm_reduce_scatter(*team.shm(), input, receive, counts, op);
      const auto held = copy_of(input, bytes);
      if (!held) return Code::no_memory;
      return shm_reduce_scatter(*team.shm(), held.get(), receive, counts, op);
    }
    case Algorithm::two_level:
      return ended(team, two_level_reduce_scatter(team, input, receive, counts, op));
    default:
      return run_steps(team, Collective::reduce_scatter, {input, receive}, &op,
                       [&](Plan& plan, const Group& group) {
                         write_reduce_scatter(algorithm, plan, group, kInput, kOutput, counts,
                                              op.element_bytes);
                       });
  }
}

}  // namespace

Status barrier(Team& team) {
  if (team.size() == 1) return {};
  if (team.is_broken()) return lost(team);
  if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
    return by_either(*offload, team, offload::barrier_call(),
                     [&] { return barrier_by_hosts(team); });
  return barrier_by_hosts(team);
}

Status bcast(Team& team, void* data, std::size_t bytes, int root) {
  if (team.size() == 1 || bytes == 0) return {};
  if (team.is_broken()) return lost(team);
  if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
    return by_either(*offload, team, offload::bcast_call(data, bytes, team.rank() == root),
                     [&] { return bcast_by_hosts(team, data, bytes, root); });
  return bcast_by_hosts(team, data, bytes, root);
}

Status reduce(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op,
              int root) {
  const void* input = send != nullptr ? send : receive;
  if (Status status; is_trivial(team, input, receive, count * op.element_bytes, status))
    return status;
  if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
    return by_either(
        *offload, team,
        offload::reduce_call(input, team.rank() == root ? receive : nullptr, count, op),
        [&] { return reduce_by_hosts(team, input, receive, count, op, root); });
  return reduce_by_hosts(team, input, receive, count, op, root);
}

Status allreduce(Team& team, const void* send, void* receive, std::size_t count,
                 const Reduction& op) {
  const void* input = send != nullptr ? send : receive;
  if (Status status; is_trivial(team, input, receive, count * op.element_bytes, status))
    return status;
  if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
    return by_either(*offload, team, offload::allreduce_call(input, receive, count, op),
                     [&] { return allreduce_by_hosts(team, send, receive, count, op); });
  return allreduce_by_hosts(team, send, receive, count, op);
}

Status reduce_scatter(Team& team, const void* send, void* receive, const std::size_t* counts,
                      const Reduction& op) {
  std::size_t count = 0;
  for (int r = 0; r < team.size(); ++r) count += counts[r];
  const std::size_t bytes = count * op.element_bytes;
  const void* input = send != nullptr ? send : receive;
  if (Status status; is_trivial(team, input, receive, bytes, status)) return status;
  if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
    return by_either(
        *offload, team,
        offload::reduce_scatter_call(input, receive, counts, team.rank(), team.size(), op),
        [&] { return reduce_scatter_by_hosts(team, input, receive, counts, bytes, op); });
  return reduce_scatter_by_hosts(team, input, receive, counts, bytes, op);
}

namespace {

Status scan_by_messages(Algorithm algorithm, Team& team, void* data, std::size_t count,
                        const Reduction& op, bool exclusive) {
  return run_steps(
      team, Collective::scan, {nullptr, data}, &op, [&](Plan& plan, const Group& group) {
        write_scan(algorithm, plan, group, kOutput, {count, op.element_bytes}, exclusive);
      });
}

Status scan_any(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op,
                bool exclusive) {
  const std::size_t bytes = count * op.element_bytes;
  if (bytes == 0) return {};
  if (team.size() == 1) {
    if (!exclusive && send != nullptr) copy_bytes(receive, send, bytes);
    return {};
  }
  if (team.is_broken()) return lost(team);
  leave_to_hosts(team);
  const Algorithm algorithm = take(team, Collective::scan, bytes, op);
  if (algorithm == Algorithm::shm)
    return shm_scan(*team.shm(), send != nullptr ? send : receive, receive, count, op, exclusive);
  if (algorithm == Algorithm::two_level)
    return ended(team, two_level_scan(team, send != nullptr ? send : receive, receive, count, op,
                                      exclusive));
  if (!exclusive || send == nullptr) {
    if (send != nullptr) copy_bytes(receive, send, bytes);
    return scan_by_messages(algorithm, team, receive, count, op, exclusive);
  }
  // The first member's receive buffer must stay unchanged.
  if (team.rank() != 0) {
    copy_bytes(receive, send, bytes);
    return scan_by_messages(algorithm, team, receive, count, op, true);
  }
  const auto data = copy_of(send, bytes);
  if (!data) return Code::no_memory;
  return scan_by_messages(algorithm, team, data.get(), count, op, true);
}

}  // namespace

Status scan(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op) {
  return scan_any(team, send, receive, count, op, false);
}

Status exscan(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op) {
  return scan_any(team, send, receive, count, op, true);
}

Status gather(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  if (bytes == 0) return {};
  if (team.rank() == root && send != nullptr)
    copy_bytes(at(receive, index(root) * bytes), send, bytes);
  if (team.size() == 1) return {};
  if (team.is_broken()) return lost(team);
  leave_to_hosts(team);
  const Algorithm algorithm = take(team, Collective::gather, bytes);
  switch (algorithm) {
    case Algorithm::shm:
      return shm_gather(*team.shm(), send, receive, bytes, root);
    case Algorithm::two_level:
      return ended(team, two_level_gather(team, send, receive, bytes, root));
    default:
      return run_steps(team, Collective::gather, {send, receive}, nullptr,
                       [&](Plan& plan, const Group& group) {
                         write_gather(algorithm, plan, group, kInput, kOutput, bytes, root);
                       });
  }
}

Status scatter(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  if (bytes == 0) return {};
  if (team.rank() == root && receive != nullptr)
    copy_bytes(receive, at(send, index(root) * bytes), bytes);
  if (team.size() == 1) return {};
  if (team.is_broken()) return lost(team);
  leave_to_hosts(team);
  const Algorithm algorithm = take(team, Collective::scatter, bytes);
  switch (algorithm) {
    case Algorithm::shm:
      return shm_scatter(*team.shm(), send, receive, bytes, root);
    case Algorithm::two_level:
      return ended(team, two_level_scatter(team, send, receive, bytes, root));
    default:
      return run_steps(team, Collective::scatter, {send, receive}, nullptr,
                       [&](Plan& plan, const Group& group) {
                         write_scatter(algorithm, plan, group, kInput, kOutput, bytes, root);
                       });
  }
}

Status allgather_by_hosts(Team& team, const void* send, void* receive, std::size_t bytes) {
  const bool several = team.size() > 1;
  if (several && team.is_broken()) return lost(team);
  const Algorithm algorithm =
      several ? take(team, Collective::allgather, bytes) : Algorithm::automatic;
  if (algorithm == Algorithm::shm) return shm_allgather(*team.shm(), send, receive, bytes);
  if (send != nullptr) copy_bytes(at(receive, index(team.rank()) * bytes), send, bytes);
  if (!several) return {};
  if (algorithm == Algorithm::two_level)
    return ended(team, two_level_allgather(team, receive, bytes));
  return run_steps(team, Collective::allgather, {nullptr, receive}, nullptr,
                   [&](Plan& plan, const Group& group) {
                     write_allgather(algorithm, plan, group, kOutput, bytes);
                   });
}

Status allgather(Team& team, const void* send, void* receive, std::size_t bytes) {
  if (bytes == 0) return {};
  if (team.size() > 1) {
    if (team.is_broken()) return lost(team);
    if (auto* offload = team.offload(); offload != nullptr) [[unlikely]]
      return by_either(*offload, team,
                       offload::allgather_call(send, receive, bytes, team.rank(), team.size()),
                       [&] { return allgather_by_hosts(team, send, receive, bytes); });
  }
  return allgather_by_hosts(team, send, receive, bytes);
}

Status alltoall(Team& team, const void* send, void* receive, std::size_t bytes) {
  if (bytes == 0) return {};
  if (team.size() == 1) {
    if (send != nullptr) copy_bytes(receive, send, bytes);
    return {};
  }
  if (team.is_broken()) return lost(team);
  std::unique_ptr<std::byte[]> held;
  if (send == nullptr) {
    held = copy_of(receive, index(team.size()) * bytes);
    if (!held) return Code::no_memory;
    send = held.get();
  }
  leave_to_hosts(team);
  const Algorithm algorithm = take(team, Collective::alltoall, bytes);
  switch (algorithm) {
    case Algorithm::shm:
      return shm_alltoall(*team.shm(), send, receive, bytes);
    case Algorithm::two_level:
      return ended(team, two_level_alltoall(team, send, receive, bytes));
    default:
      return run_steps(team, Collective::alltoall, {send, receive}, nullptr,
                       [&](Plan& plan, const Group& group) {
                         write_alltoall(algorithm, plan, group, kInput, kOutput, bytes);
                       });
  }
}

}  // namespace weft::coll
