#pragma once
// MemberSet: some of the members of a group, by rank. Those of up to 64 members allocate nothing.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mpi::ft {

class MemberSet {
 public:
  MemberSet() = default;
  explicit MemberSet(int size) : num_words_((static_cast<std::size_t>(size) + 63) / 64) {
    if (num_words_ > 1) many_.resize(num_words_);
  }

  void add(int rank) noexcept { word(rank) |= bit(rank); }
  bool contains(int rank) const noexcept {
    return (words()[static_cast<std::size_t>(rank) / 64] & bit(rank)) != 0;
  }
  int count() const noexcept {
    int sum = 0;
    for (const std::uint64_t word : words()) sum += std::popcount(word);
    return sum;
  }
  void clear() noexcept {
    for (std::uint64_t& word : words()) word = 0;
  }
  // Of sets of the same group.
  bool is_part_of(const MemberSet& other) const noexcept {
    for (std::size_t i = 0; i < num_words_; ++i)
      if ((words()[i] & ~other.words()[i]) != 0) return false;
    return true;
  }
  MemberSet& operator|=(const MemberSet& other) noexcept {
    for (std::size_t i = 0; i < num_words_; ++i) words()[i] |= other.words()[i];
    return *this;
  }
  MemberSet& operator&=(const MemberSet& other) noexcept {
    for (std::size_t i = 0; i < num_words_; ++i) words()[i] &= other.words()[i];
    return *this;
  }
  bool operator==(const MemberSet&) const = default;

  // As they travel.
  std::span<std::uint64_t> words() noexcept {
    return {num_words_ > 1 ? many_.data() : &one_, num_words_};
  }
  std::span<const std::uint64_t> words() const noexcept {
    return {num_words_ > 1 ? many_.data() : &one_, num_words_};
  }

 private:
  static std::uint64_t bit(int rank) noexcept { return std::uint64_t{1} << (rank % 64); }
  std::uint64_t& word(int rank) noexcept { return words()[static_cast<std::size_t>(rank) / 64]; }

  std::size_t num_words_ = 0;
  std::uint64_t one_ = 0;
  std::vector<std::uint64_t> many_;  // if one word is not enough
};

}  // namespace weft::mpi::ft
