#pragma once
// Seal: the last eight bytes of an entry's line, which say that its other 56 are all there,
// whatever order they came in. For rings that a device writes: there only a completed receive makes
// the bytes of a write certain, and it comes after them by as long as a device needs for that.
//
// It is a keyed hash (NH, of UMAC: Black et al., CRYPTO 1999). Neither half a line nor what lay
// there before, which may be anybody's data, has the seal of an entry but by a chance of about
// 2^-64 for each look. It says nothing of any other write: what must see those waits for their
// completions.
//
// Threads: any, as nothing changes.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/mix.hpp"
#include "transport/ring.hpp"

namespace weft {

class Seal {
 public:
  // The longest data of an entry that leaves room for it in the entry's one line.
  static constexpr std::size_t kMaxLength = kInlineBytes - sizeof(std::uint64_t);

  // Both ends of a ring know the seed, and nobody else.
  explicit Seal(std::uint64_t seed) noexcept {
    for (std::uint64_t& key : keys_) key = mix(seed += kMixStep);
  }

  // Seals a line whose other bytes are final.
  void close(std::byte* line) const noexcept {
    std::uint64_t words[kNumWords];
    std::memcpy(words, line, sizeof words);
    const std::uint64_t seal = hash(words);
    std::memcpy(line + sizeof words, &seal, sizeof seal);
  }

  // Whether all of the line is there.
  bool holds(const std::byte* line) const noexcept {
    auto* words = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(line));
    std::uint64_t seen[kNumWords + 1];
    for (std::size_t i = 0; i <= kNumWords; ++i)
      seen[i] = std::atomic_ref(words[i]).load(std::memory_order_relaxed);
    if (seen[kNumWords] != hash(seen)) return false;
    // What is read of the line from here on is what was seen.
    std::atomic_thread_fence(std::memory_order_acquire);
    return true;
  }

 private:
  static constexpr std::size_t kNumWords = kEntryAlign / sizeof(std::uint64_t) - 1;
  static_assert(kNumWords == 7);

  __extension__ using Wide = unsigned __int128;

  std::uint64_t hash(const std::uint64_t* words) const noexcept {
    Wide sum = static_cast<Wide>(words[6] + keys_[6]) * (keys_[7] | 1);
    for (std::size_t i = 0; i < 6; i += 2)
      sum += static_cast<Wide>(words[i] + keys_[i]) * (words[i + 1] + keys_[i + 1]);
    return static_cast<std::uint64_t>(sum) ^ static_cast<std::uint64_t>(sum >> 64);
  }

  std::uint64_t keys_[kNumWords + 1];
};

}  // namespace weft
