#pragma once
// Nonblocking collectives that switches may do: connects a Schedule, whose messages they need, with
// offload::Background, which decides what comes next.
#include <memory>

#include "coll/offload/background.hpp"
#include "mpi/collective/schedule.hpp"

namespace weft::mpi {

using Switched = offload::Call;
using SwitchedPtr = std::unique_ptr<offload::Background>;

// Takes the call's turn among those of the team. Null: the call is not for the switches.
SwitchedPtr make_switched(coll::Team& team, const Switched& call, coll::Team::Calls calls);
// Asks `switched` what comes next. `steps`: the schedule has them and is started, or `code` has the
// error; `over`: `code` is how the call ended.
offload::Background::Next advance_switches(offload::Background& switched, Schedule& schedule,
                                           Code& code);

}  // namespace weft::mpi
