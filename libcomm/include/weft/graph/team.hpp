#pragma once
// Team: the worker threads of a process, kept for the life of a graph.
//
// run(f) calls f(0) on the calling thread and f(1), f(2), ... on the others, and returns when all
// have returned; their writes are visible then. One thread at a time calls run. f must not throw.
// Waiting threads spin for some microseconds and then sleep.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "weft/export.hpp"

namespace weft::graph {

class WEFT_API Team {
 public:
  // cpus: thread t is bound to cpus[t]; empty: threads run where the scheduler puts them. The
  // calling thread's own binding comes back with the destructor. Throws std::system_error if
  // threads cannot be started.
  Team(int num_threads, const std::vector<int>& cpus);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const noexcept { return size_; }

  template <class Function>
  void run(Function&& function) {
    if (size_ == 1) {
      function(0);
      return;
    }
    using Called = std::remove_reference_t<Function>;
    start([](void* argument, int thread) { (*static_cast<Called*>(argument))(thread); },
          const_cast<void*>(static_cast<const void*>(std::addressof(function))));
    function(0);
    finish();
  }

 private:
  using Call = void (*)(void* argument, int thread);
  void start(Call call, void* argument);
  void finish();
  void work(int thread, int cpu);
  void end();

  int size_;
  Call call_ = nullptr;  // of the round that runs
  void* argument_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> round_{0};  // moved by the caller; released with call_
  alignas(64) std::atomic<std::uint32_t> num_busy_{0};
  std::atomic<bool> ended_{false};
  std::vector<int> old_cpus_;
  std::vector<std::thread> threads_;
};

}  // namespace weft::graph
