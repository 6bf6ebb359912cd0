#pragma once
// ProgressThread: moves messages and nonblocking collectives while the program computes
// (WEFT_PROGRESS=thread). From the start of an operation until no request is left it waits as a call
// of MPI does, asleep on the process's doorbell; while a thread of the program waits itself it keeps
// out of the way. With nothing under way it sleeps, and costs a test of a pointer.
//
// Threads: any.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "weft/status.hpp"

namespace weft::mpi {

class ProgressThread {
 public:
  // The engine must be threaded. no_memory: there can be no more threads.
  static Status start(std::unique_ptr<ProgressThread>& thread);
  ~ProgressThread();

  // Of requests: one more is in use, one less.
  void count(int change) noexcept { num_requests_.fetch_add(change, std::memory_order_seq_cst); }
  // Something was started that is not over yet.
  void note_start() noexcept;
  // While it lives, a thread of the program waits.
  class Waiting {
   public:
    Waiting() noexcept;
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
  };

 private:
  ProgressThread() = default;
  void run() noexcept;
  bool is_needed() const noexcept {
    return stop_.load(std::memory_order_relaxed) == 0 &&
           num_requests_.load(std::memory_order_seq_cst) > 0 &&
           num_waiting_.load(std::memory_order_relaxed) == 0;
  }

  std::atomic<int> num_requests_{0};
  std::atomic<int> num_waiting_{0};
  std::atomic<std::uint32_t> is_parked_{0};  // 1: it sleeps on this word
  std::atomic<std::uint32_t> stop_{0};
  std::thread thread_;
};

// Null without WEFT_PROGRESS=thread.
inline ProgressThread* progress_thread = nullptr;

inline ProgressThread::Waiting::Waiting() noexcept {
  if (progress_thread != nullptr) [[unlikely]]
    progress_thread->num_waiting_.fetch_add(1, std::memory_order_relaxed);
}
inline ProgressThread::Waiting::~Waiting() {
  if (progress_thread != nullptr) [[unlikely]]
    progress_thread->num_waiting_.fetch_sub(1, std::memory_order_relaxed);
}
// After the start of a request.
inline void note_start() noexcept {
  if (progress_thread != nullptr) [[unlikely]]
    progress_thread->note_start();
}

}  // namespace weft::mpi
