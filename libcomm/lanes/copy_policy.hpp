#pragma once
// CopyPolicy: how the bytes of a message get from one process of a host to another, by its length
// and by whether the two share a cache. One table for all copies inside a host: messages, exchanges
// and collectives. Plain numbers, constant once read; any thread.
//
//   up to piece_bytes        one entry of the ring
//   up to eager_max_bytes    several, each a quarter of the message but at most long_piece_bytes,
//                            so that the reader copies the first while the writer writes the next
//   longer                   a rendezvous, and a copy straight between the two buffers; from
//                            shared_min_bytes on by both sides at once
//
// From past_cache_bytes on, entries are written past the writer's caches. That pays without a
// common cache (two sockets, two core complexes), where the writer would wait for each line that
// the reader's core has; with a common cache it does not.
//
// Tests: tests/lanes/copy_policy_test.cpp.
#include <algorithm>
#include <cstddef>

#include "base/settings.hpp"

namespace weft {

struct CopyPolicy {
  static constexpr std::size_t kFarPastCacheBytes = 2048;
  // Both sides of a shared copy claim pieces of this size.
  static constexpr std::size_t kSharedPieceBytes = 128 * 1024;
  static constexpr std::size_t kSharedMinBytes = 32 * 1024;

  std::size_t piece_bytes = 0;
  std::size_t long_piece_bytes = 8192;
  std::size_t past_cache_bytes = 0;
  std::size_t eager_max_bytes = 0;
  std::size_t shared_min_bytes = kSharedMinBytes;

  // Reads WEFT_EAGER_PIECE_BYTES, WEFT_PAST_CACHE_MIN_BYTES and WEFT_EAGER_MAX_BYTES. entry_max:
  // the longest entry that the ring takes.
  static CopyPolicy read(const Settings& settings, bool shares_cache, std::size_t entry_max) {
    CopyPolicy policy;
    policy.piece_bytes = settings.bytes(Setting::eager_piece_bytes);
    policy.long_piece_bytes = std::clamp(policy.long_piece_bytes, policy.piece_bytes,
                                         std::max(policy.piece_bytes, entry_max));
    policy.past_cache_bytes = settings.bytes_or(
        Setting::past_cache_min_bytes, shares_cache ? ~std::size_t{0} : kFarPastCacheBytes);
    policy.eager_max_bytes = settings.bytes(Setting::eager_max_bytes);
    return policy;
  }
  // For data that are copied once more anyway, as into the mirror of a remote ring: entries of
  // `piece` bytes, never past the caches.
  static CopyPolicy plain(std::size_t piece, std::size_t eager_max) {
    return {piece, piece, ~std::size_t{0}, eager_max, ~std::size_t{0}};
  }

  bool is_past_cache(std::size_t length) const noexcept { return length >= past_cache_bytes; }
  bool uses_rendezvous(std::size_t length) const noexcept { return length > eager_max_bytes; }
  bool is_shared(std::size_t length) const noexcept { return length >= shared_min_bytes; }
  // The longest entry of a message of this length.
  std::size_t piece_of(std::size_t length) const noexcept {
    return is_past_cache(length) ? long_piece_bytes
                                 : std::clamp(length / 4, piece_bytes, long_piece_bytes);
  }
};

}  // namespace weft
