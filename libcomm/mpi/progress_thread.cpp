#include "mpi/progress_thread.hpp"

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "mpi/state.hpp"

namespace weft::mpi {
namespace {

// Between two looks whether a thread of the program that waits has come back, and for how long
// there is nothing at most before the next look.
constexpr std::uint64_t kPauseUs = 500;
constexpr std::uint64_t kParkedUs = 1'000'000;

}  // namespace

Status ProgressThread::start(std::unique_ptr<ProgressThread>& thread) {
  std::unique_ptr<ProgressThread> made(new ProgressThread);
  if (Status status = start_thread(made->thread_, [raw = made.get()] { raw->run(); }); !status)
    return status;
  thread = std::move(made);
  return {};
}

ProgressThread::~ProgressThread() {
  stop_.store(1, std::memory_order_seq_cst);
  is_parked_.store(0, std::memory_order_seq_cst);
  futex_wake_all(&is_parked_);
  engine->ring(engine->rank());
  thread_.join();
}

void ProgressThread::note_start() noexcept {
  // seq_cst: either the thread sees the request, which was counted before, or this sees it parked.
  if (is_parked_.load(std::memory_order_seq_cst) == 0) return engine->ring(engine->rank());
  is_parked_.store(0, std::memory_order_seq_cst);
  futex_wake_all(&is_parked_);
}

void ProgressThread::run() noexcept {
  while (stop_.load(std::memory_order_seq_cst) == 0) {
    if (is_needed()) {
      engine->wait_asleep([this] { return !is_needed(); });
      continue;
    }
    is_parked_.store(1, std::memory_order_seq_cst);
    // Looked at after the word is set, as note_start() looks at the word after the count. Who waits
    // for requests now may go on to compute with others under way, and says nothing then.
    const bool is_idle = num_requests_.load(std::memory_order_seq_cst) == 0;
    if (stop_.load(std::memory_order_seq_cst) == 0 && !is_needed())
      futex_wait(&is_parked_, 1, is_idle ? kParkedUs : kPauseUs);
    is_parked_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace weft::mpi
