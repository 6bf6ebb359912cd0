#include "tools/weft-check/threads.hpp"

#include <atomic>

#include "tools/weft-check/report.hpp"

#pragma GCC visibility push(default)
#include "mpi.h"
#pragma GCC visibility pop

namespace weft::check {
namespace {

std::atomic<const void*> in_call{nullptr};  // the thread that is in a call; any address of its own
thread_local char own = 0;
std::atomic<const char*> main_thread{nullptr};
thread_local int depth = 0;  // calls that a call of the program's own functions makes

}  // namespace

void set_thread_level(int provided) {
  main_thread = &own;
  thread_level = provided;
}

void InCall::begin() {
  const int now = thread_level.load(std::memory_order_relaxed);
  if (now < 0) return;
  if (now == MPI_THREAD_SERIALIZED) {
    is_counted_ = true;
    if (depth++ > 0) return;
    const void* other = nullptr;
    if (!in_call.compare_exchange_strong(other, &own) && other != &own)
      report("threads",
             "another thread is in a call of MPI at the same time, but the program has "
             "MPI_THREAD_SERIALIZED: let one call at a time, or ask MPI_Init_thread for "
             "MPI_THREAD_MULTIPLE");
    return;
  }
  if (main_thread.load(std::memory_order_relaxed) != &own)
    report("threads", now == MPI_THREAD_SINGLE
                          ? "a thread calls that has not called MPI_Init, but the program has "
                            "MPI_THREAD_SINGLE: ask MPI_Init_thread for more"
                          : "a thread calls that has not called MPI_Init, but the program has "
                            "MPI_THREAD_FUNNELED: ask MPI_Init_thread for MPI_THREAD_SERIALIZED or "
                            "MPI_THREAD_MULTIPLE");
}

void InCall::end() {
  if (--depth > 0) return;
  const void* me = &own;
  in_call.compare_exchange_strong(me, nullptr);
}

}  // namespace weft::check
