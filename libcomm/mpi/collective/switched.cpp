#include "mpi/collective/switched.hpp"

namespace weft::mpi {

SwitchedPtr make_switched(coll::Team& team, const Switched& call, coll::Team::Calls calls) {
  if (team.size() == 1 || call.count == 0) return nullptr;
  offload::Offload* offload = team.offload(calls);
  if (offload == nullptr ||
      !offload->may_take(call.count * call.op.element_bytes, call.op, call.is_allreduce))
    return nullptr;
  return std::make_unique<offload::Background>(*offload, call);
}

offload::Background::Next advance_switches(offload::Background& switched, Schedule& schedule,
                                           Code& code) {
  using Next = offload::Background::Next;
  coll::Plan plan;
  const Next next = switched.next(plan);
  if (next == Next::steps) {
    schedule.clear();
    schedule.add(plan, switched.input(), switched.output(), switched.op());
    code = schedule.start();
  } else if (next == Next::over) {
    code = switched.status().code();
  }
  return next;
}

Switched switched_bcast(const coll::Team& team, void* data, std::size_t bytes, int root) noexcept {
  // The root's buffer may be read-only memory, or memory that others read meanwhile.
  if (team.rank() == root)
    return {data, nullptr, bytes, offload::Offload::bitwise_or(), false, coll::Collective::bcast};
  return {nullptr, data, bytes, offload::Offload::bitwise_or(), false, coll::Collective::bcast};
}

Switched switched_barrier() noexcept {
  return {nullptr, nullptr, 1, offload::Offload::bitwise_or(), true, coll::Collective::barrier};
}

}  // namespace weft::mpi
