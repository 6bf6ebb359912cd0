#pragma once
// CopyPolicy: how the bytes of a message get from one process of a host to another, by its length.
// Plain numbers, constant once read; any thread.
//
//   up to piece_bytes        one entry of the ring
//   up to eager_max_bytes    several, so that the reader copies the first while the writer writes
//                            the next
//   longer                   a rendezvous, and a copy straight between the two buffers; from
//                            shared_min_bytes on by both sides at once
//
// Tests: tests/lanes/copy_policy_test.cpp.
#include <algorithm>
#include <cstddef>

#include "base/settings.hpp"

namespace weft {

struct CopyPolicy {
  // Long enough for processors to take over whole lines without reading them first, which they do
  // from some KiB on, and short enough for a second-level cache (docs/design/tried.md).
  static constexpr std::size_t kPieceBytes = 4096;
  // Both sides of a shared copy claim pieces of this size.
  static constexpr std::size_t kSharedPieceBytes = 128 * 1024;
  static constexpr std::size_t kSharedMinBytes = 32 * 1024;

  std::size_t piece_bytes = 0;
  std::size_t eager_max_bytes = 0;
  std::size_t shared_min_bytes = kSharedMinBytes;

  // Reads WEFT_EAGER_MAX_BYTES. entry_max: the longest entry that the ring takes.
  static CopyPolicy read(const Settings& settings, std::size_t entry_max) {
    return {std::min(kPieceBytes, entry_max), settings.bytes(Setting::eager_max_bytes),
            kSharedMinBytes};
  }
  // For data that are copied once more anyway, as into the mirror of a remote ring.
  static CopyPolicy plain(std::size_t piece, std::size_t eager_max) {
    return {piece, eager_max, ~std::size_t{0}};
  }

  bool uses_rendezvous(std::size_t length) const noexcept { return length > eager_max_bytes; }
  bool is_shared(std::size_t length) const noexcept { return length >= shared_min_bytes; }
};

}  // namespace weft
