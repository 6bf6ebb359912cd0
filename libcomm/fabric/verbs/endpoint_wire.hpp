#pragma once
// The wire formats of verbs endpoints: addresses, the private data of connections, keys, and the
// head of messages. Any thread; nothing is kept. Numbers are in the byte order of the machine,
// which is the same on all (little-endian).
#include <cstdint>
#include <cstring>
#include <string>

#include "base/mix.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/verbs/transport.hpp"

namespace weft::fabric::verbs {

inline constexpr std::uint32_t kMagic = 0x31767765;  // "ewv1": version 1 of all that is here

struct Address {
  std::uint32_t magic;
  std::uint8_t family;               // 4 or 6
  weft::verbs::Transport transport;  // only ports of the same can reach each other
  std::uint16_t port;                // network order
  std::uint8_t ip[16];               // the first 4 of family 4
};
static_assert(sizeof(Address) == 24);

// In a connection's request; librdmacm carries 56 bytes.
struct Hello {
  std::uint32_t magic;
  std::uint8_t read_depth;  // gets and atomics that the sender's device answers at once
  std::uint8_t credit;      // messages that the sender of this has room for
  std::uint8_t hello_bytes;
  std::uint8_t mtu;  // of the sender's port, as ibv_mtu; 0: it does not say
  std::byte hello[kMaxHelloBytes];
};
static_assert(sizeof(Hello) == 56);
// In the answer, a Hello's head.
inline constexpr std::size_t kAnswerBytes = 8;
// Behind either, where only reads say what has arrived: memory of the sender's to read for that.
// Not of no bytes: siw (Linux 6.1) answers those with others' memory when it has more to send.
struct Proof {
  std::uint64_t address;
  std::uint32_t rkey;
  std::uint32_t magic;
};
static_assert(sizeof(Proof) == 16);
inline constexpr std::uint32_t kProofBytes = 8;
inline constexpr std::uint8_t kMostMtu = 5;  // IBV_MTU_4096

// With the rejection of a request.
struct Refusal {
  std::uint32_t magic;
  std::uint32_t is_full;  // 1: other links have all the room, and one is going to be closed
};
static_assert(sizeof(Refusal) == 8);

struct MemoryKey {
  std::uint64_t address, bytes;
  std::uint32_t rkey;
  std::uint32_t check;  // its lowest three bits are the rights
};
static_assert(sizeof(MemoryKey) == sizeof(Key));
inline constexpr std::uint32_t kRightsMask = kRead | kWrite | kAtomic;

struct Head {
  std::uint16_t credit;  // more messages that the receiver of this may send
  std::uint16_t kind;
  std::uint32_t length;  // of what follows
};
static_assert(sizeof(Head) == 8);
enum MessageKind : std::uint16_t { kUser = 1, kCredit, kWritten };

// What a message of the kind kWritten says: that the bytes of a write() are there, in place of the
// 32 bits that a transport may have for it.
struct Written {
  std::uint32_t number, bytes;
};

inline constexpr std::uint32_t kMostCredit = 4096;

inline bool read_address(Bytes bytes, weft::verbs::Transport transport, Address& address) noexcept {
  if (bytes.size() != sizeof address) return false;
  std::memcpy(&address, bytes.data(), sizeof address);
  return address.magic == kMagic && (address.family == 4 || address.family == 6) &&
         address.transport == transport && address.port != 0;
}

// Of a request (`is_answer`: of an answer). librdmacm may add zeros.
inline bool read_hello(Bytes bytes, bool is_answer, Hello& hello) noexcept {
  hello = {};
  const std::size_t most = is_answer ? kAnswerBytes : sizeof hello;
  if (bytes.size() < most) return false;
  std::memcpy(&hello, bytes.data(), most);
  return hello.magic == kMagic && hello.read_depth > 0 && hello.credit > 1 &&
         hello.mtu <= kMostMtu && hello.hello_bytes <= (is_answer ? 0 : kMaxHelloBytes);
}

inline bool read_is_full(Bytes bytes) noexcept {
  Refusal refusal{};
  if (bytes.size() < sizeof refusal) return false;
  std::memcpy(&refusal, bytes.data(), sizeof refusal);
  return refusal.magic == kMagic && refusal.is_full == 1;
}

inline bool read_proof(Bytes bytes, bool is_answer, Proof& proof) noexcept {
  const std::size_t before = is_answer ? kAnswerBytes : sizeof(Hello);
  if (bytes.size() < before + sizeof proof) return false;
  std::memcpy(&proof, bytes.data() + before, sizeof proof);
  return proof.magic == kMagic;
}

// A checksum that distinguishes keys from other bytes; no secret. Without the address and the
// length, as there are keys of parts.
inline std::uint32_t check_of(const MemoryKey& key) noexcept {
  const std::uint64_t word = std::uint64_t{key.rkey} << 3 | (key.check & kRightsMask);
  return static_cast<std::uint32_t>(mix(word) >> 32) & ~kRightsMask;
}
inline Key write_key(const void* address, std::size_t bytes, std::uint32_t rkey,
                     std::uint32_t rights) noexcept {
  MemoryKey parts{reinterpret_cast<std::uintptr_t>(address), bytes, rkey, rights & kRightsMask};
  parts.check |= check_of(parts);
  Key key;
  std::memcpy(key.data(), &parts, sizeof parts);
  return key;
}
// ok, or why these bytes may not be reached by this key.
inline Code read_key(const Key& key, std::uint32_t right, std::uint64_t offset, std::uint64_t bytes,
                     MemoryKey& parts) noexcept {
  std::memcpy(&parts, key.data(), sizeof parts);
  if ((parts.check & ~kRightsMask) != check_of(parts)) return Code::not_permitted;
  if ((parts.check & kRightsMask & right) == 0) return Code::not_permitted;
  if (offset > parts.bytes || bytes > parts.bytes - offset) return Code::bad_argument;
  if (right == kAtomic && (parts.address + offset) % 8 != 0) return Code::bad_argument;
  return Code::ok;
}

// False: no message of this fabric.
inline bool read_head(const std::byte* bytes, std::size_t received, Head& head) noexcept {
  if (received < sizeof head) return false;
  std::memcpy(&head, bytes, sizeof head);
  return head.credit <= kMostCredit && head.length == received - sizeof head &&
         (head.kind == kUser || (head.kind == kCredit && head.length == 0) ||
          (head.kind == kWritten && head.length == sizeof(Written)));
}

}  // namespace weft::fabric::verbs
