#include "weft/graph/team.hpp"

#include <sched.h>

#include <chrono>

namespace weft::graph {
namespace {

// Threads poll this long for the next round, which usually begins sooner, and then sleep.
constexpr auto kSpin = std::chrono::microseconds(50);

void bind_this_thread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<unsigned>(cpu), &set);
  // A failure costs only speed.
  if (!cpus.empty()) (void)sched_setaffinity(0, sizeof set, &set);
}

// Returns once the word has another value than `old`.
void await_change(std::atomic<std::uint32_t>& word, std::uint32_t old) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int num_threads, const std::vector<int>& cpus) : size_(num_threads) {
  if (!cpus.empty()) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) old_cpus_.push_back(cpu);
    bind_this_thread({cpus[0]});
  }
  try {
    for (int t = 1; t < size_; ++t)
      threads_.emplace_back(&Team::work, this, t,
                            cpus.empty() ? -1 : cpus[static_cast<unsigned>(t)]);
  } catch (...) {
    end();
    throw;
  }
}

Team::~Team() { end(); }

void Team::end() {
  ended_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);  // pairs with await_change in work
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  bind_this_thread(old_cpus_);
}

void Team::start(Call call, void* argument) {
  call_ = call;
  argument_ = argument;
  num_busy_.store(static_cast<std::uint32_t>(size_ - 1), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);  // pairs with await_change in work
  round_.notify_all();
}

void Team::finish() {
  // Pairs with the fetch_sub in work.
  for (std::uint32_t busy; (busy = num_busy_.load(std::memory_order_acquire)) != 0;)
    await_change(num_busy_, busy);
}

void Team::work(int thread, int cpu) {
  if (cpu >= 0) bind_this_thread({cpu});
  for (std::uint32_t round = 0;; ++round) {
    await_change(round_, round);
    if (ended_.load(std::memory_order_relaxed)) return;
    call_(argument_, thread);
    if (num_busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) num_busy_.notify_one();
  }
}

}  // namespace weft::graph
