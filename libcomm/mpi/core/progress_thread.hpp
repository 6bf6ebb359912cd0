#pragma once
// ProgressThread: moves messages and nonblocking collectives while the program computes
// (WEFT_PROGRESS=thread). While something is under way it waits as a call of MPI does, asleep on
// the process's doorbell; while a thread of the program waits in MPI it keeps out of the way. With
// nothing under way it sleeps, and costs a test of a pointer.
//
// Threads: any thread may call any function.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "weft/status.hpp"

namespace weft::mpi {

class ProgressThread {
 public:
  // Starts the thread; the engine must be threaded. no_memory: no more threads can be created.
  static Status start(std::unique_ptr<ProgressThread>& thread);
  ~ProgressThread();
  // Notes that something was started that is not complete yet.
  void note_start() noexcept;

 private:
  ProgressThread() = default;
  void run() noexcept;
  bool is_over() const noexcept { return stop_.load(std::memory_order_relaxed); }

  std::atomic<std::uint32_t> is_parked_{0};  // 1: it sleeps on this word
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The progress thread; null without WEFT_PROGRESS=thread.
inline ProgressThread* progress_thread = nullptr;

// Called after the start of a request.
inline void note_start() noexcept {
  if (progress_thread != nullptr) [[unlikely]]
    progress_thread->note_start();
}

}  // namespace weft::mpi
