#pragma once
// Distance: whether a line that another core wrote comes from near or from far. It takes some 30 ns
// if the two cores share a cache, 150 and more if not, and the host of a virtual machine moves
// cores at will, so it is measured again now and then. What pays for long data depends on it: from
// far, data that the writer wrote past its caches come several times faster.
//
// One thread at a time.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/settings.hpp"
#include "base/wait.hpp"

namespace weft {

class Distance {
 public:
  // From this length on, writing past the caches pays if it is far.
  static constexpr std::size_t kFarMinBytes = 2048;
  // Writers and readers number what they exchange alike; of the numbers that this divides, the
  // writer leaves the data in its cache and the reader measures. Odd, since programs call in
  // patterns.
  static constexpr std::uint64_t kEvery = 61;
  static constexpr std::size_t kMeasureMinBytes = 1024;

  // Looks at kMeasureMinBytes or more that another core wrote and this one has not read yet.
  // True if the verdict changed. Takes the time of a few lines.
  bool measure(const std::byte* data, std::size_t bytes) noexcept {
    static const volatile std::size_t nothing = 0;  // a value that the compiler does not know
    const std::size_t step = bytes / kLines / 64 * 64, none = nothing;
    std::size_t value = 0;
    const std::uint64_t start = now_ns();
    // One after the other, each address from the value before, so that they cannot overlap.
    for (std::size_t i = 0; i < kLines; ++i)
      std::memcpy(&value, data + i * step + (value & none), sizeof value);
    asm volatile("" : : "r"(value));  // the last one, too, is loaded
    return note(now_ns() - start > kLines * kFarLineNs);
  }
  // Notes how long it took to read a single line that another core had changed, as now_ns() tells
  // it; likewise.
  bool note_line(std::uint64_t ns) noexcept { return note(ns > kFarLookNs); }
  bool is_far() const noexcept { return far_; }
  bool is_measured() const noexcept { return !is_set_; }
  // Measures no more.
  void set(bool far) noexcept {
    far_ = far;
    is_set_ = true;
  }

 private:
  static constexpr std::size_t kLines = 4;
  static constexpr std::uint64_t kFarLineNs = 85;
  static constexpr std::uint64_t kFarLookNs = 80;  // 20 to 60 near, 100 to 160 far
  // The verdict changes once this many more measurements spoke for it than against it.
  static constexpr int kSeen = 4;

  bool note(bool slow) noexcept {
    if (is_set_ || (slow ? seen_ == kSeen : seen_ == 0)) return false;
    seen_ += slow ? 1 : -1;
    const bool before = far_;
    far_ = seen_ == kSeen || (far_ && seen_ != 0);
    return far_ != before;
  }

  int seen_ = 0;
  bool far_ = false;
  bool is_set_ = false;
};

// What WEFT_FAR says; nothing: it is to be measured.
inline std::optional<bool> far_setting(const Settings& settings) {
  const std::string& text = settings.text(Setting::far);
  if (text == "auto") return std::nullopt;
  return text == "yes";
}

}  // namespace weft
