#pragma once
// Threads: whether the threads of the program call as it has promised.
#include <atomic>

#pragma GCC visibility push(default)
#include "mpi.h"
#pragma GCC visibility pop

namespace weft::check {

// What the program has been promised; -1: not known yet.
inline std::atomic<int> thread_level{-1};

// Called when MPI_Init_thread has returned, with what it provided.
void set_thread_level(int provided);
// Several threads may call at once.
inline bool is_threaded() {
  return thread_level.load(std::memory_order_relaxed) == MPI_THREAD_MULTIPLE;
}

// Around each call.
class InCall {
 public:
  InCall() {
    if (!is_threaded()) begin();
  }
  ~InCall() {
    if (is_counted_) end();
  }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  void begin();
  void end();
  bool is_counted_ = false;
};

}  // namespace weft::check
