#pragma once
// Nonblocking collectives that switches may do: between the steps of a Schedule, whose messages
// they need, and offload::Background, which says what comes next.
#include <memory>

#include "coll/offload/background.hpp"
#include "mpi/collective/schedule.hpp"

namespace weft::mpi {

using Switched = offload::Background::Call;
using SwitchedPtr = std::unique_ptr<offload::Background>;

// Null: it is not the switches' to do. Takes the call's turn among those of the team.
SwitchedPtr make_switched(coll::Team& team, const Switched& call, coll::Team::Calls calls);
// What comes next; with `steps` the schedule has them and is started, or `code` says why not; with
// `over` it is how the call ended.
offload::Background::Next advance_switches(offload::Background& switched, Schedule& schedule,
                                           Code& code);
// A broadcast and a barrier, as switches see them.
Switched switched_bcast(const coll::Team& team, void* data, std::size_t bytes, int root) noexcept;
Switched switched_barrier() noexcept;

}  // namespace weft::mpi
