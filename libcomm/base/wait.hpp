#pragma once
// Waiting: poll briefly, then yield the core, then sleep. Used by every layer that waits for memory
// that another thread or process writes.
#include <cstdint>
#include <string>

namespace weft {

// A cheap view of a callable `bool()`; valid as long as the callable is.
class WaitCondition {
 public:
  template <class Done>
  explicit WaitCondition(Done& done)
      : object_(const_cast<void*>(static_cast<const void*>(&done))),
        call_([](void* object) { return static_cast<bool>((*static_cast<Done*>(object))()); }) {}
  bool operator()() const { return call_(object_); }

 private:
  void* object_;
  bool (*call_)(void*);
};

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Nanoseconds of the monotonic clock.
std::uint64_t now_ns() noexcept;
// The same as of the kernel's last tick, some milliseconds ago at most, in a fifth of the time.
std::uint64_t coarse_now_ns() noexcept;
// "60 s", "300 ms", for messages.
std::string text_of_time(std::uint64_t ns);

// Sleeps while *word == expected, at most timeout_us; wakes early on futex_wake or a signal. The
// word may lie in memory shared with other processes.
void futex_wait(const void* word, std::uint32_t expected, std::uint64_t timeout_us) noexcept;
// Wakes every sleeper on the word.
void futex_wake_all(const void* word) noexcept;

// The slow half of an asymmetric fence: after it, every other thread of every process that called
// heavy_fence_register has executed a full fence. Lets the fast half be a compiler barrier. Costs
// some microseconds. False where the kernel cannot; then sleeps must be short.
bool heavy_fence_register() noexcept;
void heavy_fence() noexcept;

}  // namespace weft
