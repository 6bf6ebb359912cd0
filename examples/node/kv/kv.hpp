#pragma once
// A hash table in a server's memory. Clients look up by reading that memory, and change by a
// message to the server, which alone writes. An entry that is being changed has an odd version, and
// a checksum detects entries that were read in the middle of a change.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "weft/node.hpp"

namespace kv {

inline constexpr std::uint32_t kEntries = 4096, kProbes = 8;

struct Entry {
  std::uint64_t version;  // odd: being changed; 0: empty
  std::uint64_t checksum;
  std::uint32_t key_bytes, value_bytes;
  char key[40], value[192];
};
static_assert(sizeof(Entry) == 256);

// FNV-1a, which is a few lines in every language.
inline std::uint64_t hash(std::string_view text, std::uint64_t start = 0xcbf29ce484222325) {
  for (const unsigned char c : text) start = (start ^ c) * 0x100000001b3;
  return start;
}
inline std::uint64_t checksum(std::uint64_t version, std::string_view key, std::string_view value) {
  return hash(value, hash(key)) ^ version;
}
inline std::uint32_t place(std::string_view key) { return hash(key) % (kEntries - kProbes); }

// Messages to the server: "s", the key's length in a byte, key, value. Answers: "k" or "full", and
// first of all the memory's key.

}  // namespace kv
