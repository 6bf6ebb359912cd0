#pragma once
// What a verbs fabric is told from outside before it knows by whom: the private data of connection
// requests, of answers and of refusals, and the wish for a lane. Any thread; nothing is kept.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabric/fabric.hpp"
#include "fabric/verbs/wire.hpp"

namespace weft::verbs {

// False: too short, another protocol or version, no rank of the job, or somebody who does not know
// the key of this process. `hello` is then not to be used.
inline bool read_hello(const void* data, std::size_t bytes, const std::uint64_t* own_key,
                       std::size_t num_ranks, Hello& hello) noexcept {
  if (bytes < sizeof hello) return false;
  std::memcpy(&hello, data, sizeof hello);
  return hello.magic == kMagic && hello.version == kVersion && hello.rank < num_ranks &&
         std::memcmp(hello.key, own_key, sizeof hello.key) == 0;
}

// The reason of a refusal; 0: it is not one of ours.
inline std::uint32_t read_refusal(const void* data, std::size_t bytes) noexcept {
  Refusal refusal{};
  if (bytes >= sizeof refusal) std::memcpy(&refusal, data, sizeof refusal);
  return refusal.magic == kMagic ? refusal.reason : 0;
}

inline constexpr std::uint64_t kMaxRing = std::uint64_t{1} << 30;

// Whether there can be the ring that an `open` asks for.
inline bool is_possible_ring(const Control& open) noexcept {
  return open.a >> 16 <= kMaxClients && open.b >= kFirstChunk && open.b % kFirstChunk == 0 &&
         open.b <= kMaxRing && open.key >= 2 * kFirstChunk && open.key % kFirstChunk == 0;
}

}  // namespace weft::verbs
