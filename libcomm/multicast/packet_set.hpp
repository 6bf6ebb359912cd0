#pragma once
// PacketSet: a set of numbers of packets, below a bound, that finds runs of them.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace weft::mcast {

class PacketSet {
 public:
  PacketSet() = default;
  explicit PacketSet(std::uint32_t bound) : words_((std::size_t{bound} + 63) / 64), bound_(bound) {}

  std::uint32_t bound() const noexcept { return bound_; }
  std::uint32_t count() const noexcept { return count_; }
  bool has(std::uint32_t packet) const noexcept {
    return (words_[packet / 64] >> (packet % 64) & 1) != 0;
  }
  void add(std::uint32_t packet) noexcept {
    if (has(packet)) return;
    words_[packet / 64] |= std::uint64_t{1} << (packet % 64);
    ++count_;
  }
  void remove(std::uint32_t packet) noexcept {
    if (!has(packet)) return;
    words_[packet / 64] &= ~(std::uint64_t{1} << (packet % 64));
    --count_;
  }
  // The first packet from `from` on that is in both sets; bound(): there is none. Both have the
  // same bound; `other` == nullptr has all.
  std::uint32_t next(std::uint32_t from, const PacketSet* other = nullptr) const noexcept {
    for (std::size_t word = from / 64; word < words_.size(); ++word) {
      std::uint64_t bits = words_[word];
      if (other != nullptr) bits &= other->words_[word];
      if (word == from / 64) bits &= ~std::uint64_t{0} << (from % 64);
      if (bits != 0)
        return static_cast<std::uint32_t>(word * 64 +
                                          static_cast<std::size_t>(std::countr_zero(bits)));
    }
    return bound_;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint32_t bound_ = 0, count_ = 0;
};

}  // namespace weft::mcast
