#pragma once
// MemberSet: some of the members of a group, by rank.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::mpi::ft {

class MemberSet {
 public:
  MemberSet() = default;
  explicit MemberSet(int size) : words_((static_cast<std::size_t>(size) + 63) / 64) {}

  void add(int rank) noexcept { word(rank) |= bit(rank); }
  bool contains(int rank) const noexcept {
    return (words_[static_cast<std::size_t>(rank) / 64] & bit(rank)) != 0;
  }
  int count() const noexcept {
    int sum = 0;
    for (const std::uint64_t word : words_) sum += std::popcount(word);
    return sum;
  }
  void clear() noexcept {
    for (std::uint64_t& word : words_) word = 0;
  }
  // Of sets of the same group.
  bool is_part_of(const MemberSet& other) const noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if ((words_[i] & ~other.words_[i]) != 0) return false;
    return true;
  }
  MemberSet& operator|=(const MemberSet& other) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  MemberSet& operator&=(const MemberSet& other) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  bool operator==(const MemberSet&) const = default;

  // As they travel.
  std::vector<std::uint64_t>& words() noexcept { return words_; }
  const std::vector<std::uint64_t>& words() const noexcept { return words_; }

 private:
  static std::uint64_t bit(int rank) noexcept { return std::uint64_t{1} << (rank % 64); }
  std::uint64_t& word(int rank) noexcept { return words_[static_cast<std::size_t>(rank) / 64]; }

  std::vector<std::uint64_t> words_;
};

}  // namespace weft::mpi::ft
