#pragma once
// Distance: whether a line that another core wrote comes from near or from far. It takes some 30 ns
// if the two cores share a cache, 150 and more if not, and the host of a virtual machine moves
// cores at will, so it is measured again now and then. What pays for long data depends on it: from
// far, data that the writer wrote past its caches come several times faster.
//
// Distance is what one thread has measured, DistanceLines what several processes have.
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/settings.hpp"
#include "base/wait.hpp"

namespace weft {

// From this length on, writing past the caches pays if it is far.
inline constexpr std::size_t kFarMinBytes = 2048;

// It changes once kSeen more measurements spoke for it than against it. Aligned, so that every
// compiler reads and writes it as one word.
struct alignas(8) DistanceVerdict {
  static constexpr std::int32_t kSeen = 4;

  // False if it stays all the same.
  bool note(bool slow) noexcept {
    if (slow ? seen == kSeen : seen == 0) return false;
    seen += slow ? 1 : -1;
    far = seen == kSeen || (far && seen != 0);
    return true;
  }

  std::int32_t seen = 0;
  bool far = false;
};

class Distance {
 public:
  // Notes how long it took to read a single line that another core had changed, as now_ns() tells
  // it.
  void note_line(std::uint64_t ns) noexcept {
    if (!is_set_) verdict_.note(ns > kFarLookNs);
  }
  bool is_far() const noexcept { return verdict_.far; }
  bool is_measured() const noexcept { return !is_set_; }
  // Measures no more.
  void set(bool far) noexcept {
    verdict_.far = far;
    is_set_ = true;
  }

 private:
  static constexpr std::uint64_t kFarLookNs = 80;  // 20 to 60 near, 100 to 160 far

  DistanceVerdict verdict_;
  bool is_set_ = false;
};

// In zeroed memory that several processes share. Whoever looks reads the marks of whoever looked
// before, and leaves its own. It counts only if that was on another core: more processes than cores
// take turns on them.
class DistanceLines {
 public:
  // Takes the time of a few lines.
  void look() noexcept {
    const auto core = static_cast<std::uint32_t>(sched_getcpu()) + 1;
    const std::uint64_t start = now_ns();
    // relaxed, all of it: advice.
    const std::uint32_t before = marks_[0].core.load(std::memory_order_relaxed);
    if (before == core) return;
    static const volatile std::size_t nothing = 0;  // a value that the compiler does not know
    const std::size_t none = nothing;
    // One after the other, each address from the value before, so that they cannot overlap.
    std::size_t value = before;
    for (std::size_t i = 1; i < kLines; ++i)
      value = marks_[i + (value & none)].core.load(std::memory_order_relaxed);
    asm volatile("" : : "r"(value));  // the last one, too, is loaded
    const bool slow = now_ns() - start > kLines * kFarLineNs;
    for (Mark& mark : marks_) mark.core.store(core, std::memory_order_relaxed);
    if (before == 0) return;
    DistanceVerdict verdict = verdict_.load(std::memory_order_relaxed);
    if (verdict.note(slow)) verdict_.store(verdict, std::memory_order_relaxed);
  }
  bool is_far() const noexcept { return verdict_.load(std::memory_order_relaxed).far; }

 private:
  static constexpr std::size_t kLines = 4;
  static constexpr std::uint64_t kFarLineNs = 85;

  // So far from each other that none brings the next along.
  struct alignas(256) Mark {
    std::atomic<std::uint32_t> core;  // its number + 1; 0: nobody's yet
  };
  Mark marks_[kLines];
  alignas(64) std::atomic<DistanceVerdict> verdict_;
};

// What WEFT_FAR says; nothing: it is to be measured.
inline std::optional<bool> far_setting(const Settings& settings) {
  const std::string& text = settings.text(Setting::far);
  if (text == "auto") return std::nullopt;
  return text == "yes";
}

}  // namespace weft
