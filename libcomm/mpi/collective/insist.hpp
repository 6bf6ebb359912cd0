#pragma once
// Insisting on a step that other members wait for, in the middle of a collective call.
#include <chrono>
#include <thread>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {

// Runs a step of members that have agreed to go on. If one of them has no memory for it, the others
// are not affected and the members must not diverge: it tries again for
// Settings::patience_ns(). `step` returns a Status and may throw std::bad_alloc.
template <class Step>
Status insist(Step&& step) {
  const std::uint64_t limit = now_ns() + process->job->settings().patience_ns();
  for (;;) {
    Status status = or_no_memory([&step]() -> Status { return step(); });
    if (!(status == Code::no_memory) || now_ns() > limit) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace weft::mpi
