#pragma once
// Window: packets that the root of a group may be ahead of its slowest receiver. It grows while
// receivers get nearly all, and halves where one lost so many that some queue on the way is full. A
// link that drops a few in a hundred, whoever sends, does not slow a transfer down.
#include <algorithm>
#include <cstdint>

namespace weft::mcast {

class Window {
 public:
  static constexpr std::uint32_t kLeast = 16;

  Window() = default;
  explicit Window(std::uint32_t most)
      : most_(std::max(most, kLeast)), size_(std::min(most_, 2 * kLeast)) {}

  std::uint32_t size() const noexcept { return size_; }
  // Of `packets` that the slowest receiver has been sent since the last call it lacked `lost`.
  // True: most packets are lost, twice one after the other.
  bool on_progress(std::uint64_t packets, std::uint64_t lost) noexcept {
    packets_ += packets;
    lost_ += lost;
    if (packets_ < size_) return false;
    num_bad_ = lost_ * 2 > packets_ ? num_bad_ + 1 : 0;
    if (lost_ * kLossOf > packets_)
      size_ = std::max(kLeast, size_ / 2);
    else
      size_ = std::min(most_, size_ + size_ / 4);
    packets_ = lost_ = 0;
    return num_bad_ >= 2;
  }

 private:
  static constexpr std::uint64_t kLossOf = 8;

  std::uint32_t most_ = kLeast, size_ = kLeast;
  std::uint64_t packets_ = 0, lost_ = 0;
  int num_bad_ = 0;  // rounds that lost most, in a row
};

}  // namespace weft::mcast
