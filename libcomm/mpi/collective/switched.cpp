#include "mpi/collective/switched.hpp"

namespace weft::mpi {

SwitchedPtr make_switched(coll::Team& team, const Switched& call, coll::Team::Calls calls) {
  if (team.size() == 1 || call.count == 0) return nullptr;
  offload::Offload* offload = team.offload(calls);
  if (offload == nullptr || !offload->may_take(call)) return nullptr;
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

}  // namespace weft::mpi
