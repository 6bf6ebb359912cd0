#include "mpi/core/progress_thread.hpp"

#include <algorithm>

#include "base/os/thread.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "mpi/core/request.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

// The first and the longest pause between two checks whether the program's threads still wait. Each
// is twice as long as the one before, so the thread resumes after as long again as they have
// waited.
constexpr std::uint64_t kPauseUs = 250, kMostPauseUs = 16'000;
constexpr std::uint64_t kParkedUs = 1'000'000;

bool is_under_way() noexcept {
  return num_operations.load(std::memory_order_relaxed) != 0 || engine->has_requests();
}

}  // namespace

Status ProgressThread::start(std::unique_ptr<ProgressThread>& thread) {
  std::unique_ptr<ProgressThread> made(new ProgressThread);
  if (Status status = start_thread(made->thread_, [raw = made.get()] { raw->run(); }); !status)
    return status;
  thread = std::move(made);
  return {};
}

ProgressThread::~ProgressThread() {
  stop_.store(true, std::memory_order_seq_cst);
  note_start();
  thread_.join();
}

void ProgressThread::note_start() noexcept {
  // Wake the thread that sleeps on the doorbell, this one or one of the program's, to check for
  // work.
  engine->ring(engine->rank());
  // seq_cst: either the thread sees what was started before, or this call sees it parked.
  if (is_parked_.load(std::memory_order_seq_cst) == 0) return;
  is_parked_.store(0, std::memory_order_seq_cst);
  futex_wake_all(&is_parked_);
}

void ProgressThread::run() noexcept {
  std::uint64_t pause_us = kPauseUs;
  while (!is_over()) {
    const auto is_not_needed = [this] {
      return is_over() || engine->has_callers() || !is_under_way();
    };
    if (!is_not_needed()) {
      pause_us = kPauseUs;
      // A wait that fails for lack of memory is tried again.
      (void)or_no_memory([&] { engine->wait_asleep(WaitCondition(is_not_needed)); });
      continue;
    }
    is_parked_.store(1, std::memory_order_seq_cst);
    // Check after the word is set, as note_start() checks the word after the start. Program threads
    // whose wait ends do not wake this thread.
    if (is_over()) return;
    if (engine->has_callers()) {
      futex_wait(&is_parked_, 1, pause_us);
      pause_us = std::min(2 * pause_us, kMostPauseUs);
    } else if (!is_under_way()) {
      futex_wait(&is_parked_, 1, kParkedUs);
    }
    is_parked_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace weft::mpi
