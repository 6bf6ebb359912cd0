#pragma once
// What sessions send each other through a fabric's messages, version 1: one struct a message, each
// beginning with the head, and data behind it where it says so. docs/wire.md has the page. A peer's
// bytes are copied before they are checked (read_message).
#include <array>
#include <cstdint>
#include <cstring>

#include "fabric/endpoint.hpp"

namespace weft::transport {

enum class Kind : std::uint8_t {
  user = 1,  // data: a whole message of the program
  piece,     // data: a piece of a longer one
  notify,    // the data of a put before it are there
  resolve,   // what does this key name?
  resolved,
  withdrawn,  // the owner takes memory back
  let_go,     // nothing here uses it any more
  put,        // for fabrics that have no puts; data
  get,        // the same for gets; answered by data and done
  data,       // data of a get
  atomic,
  done,  // of put, get or atomic
  bye,   // the session ends in good order
  // Not numbered:
  resume,  // the first after a link came up
  ack,
  ping,  // answered by an ack
};

inline constexpr std::uint8_t kLast = 1;      // flag of put: no more of this id
inline constexpr std::uint8_t kNumbered = 2;  // flag: sent again after a link broke

struct Head {
  Kind kind;
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint32_t number = 0;  // of this message in the session, if kNumbered
  std::uint32_t acked = 0;   // all up to this number have arrived here
  std::uint32_t id = 0;      // of what it is about
};
static_assert(sizeof(Head) == 16);

struct PieceMessage : Head {
  std::uint64_t total, offset;
};
struct NotifyMessage : Head {
  std::array<std::uint8_t, 16> tag;
};
struct ResolveMessage : Head {
  std::array<std::uint8_t, 32> key;
};
struct ResolvedMessage : Head {
  std::uint32_t code;
  std::uint32_t handle;  // names the memory in this session from now on
  std::uint64_t bytes;
  std::uint32_t rights;
  std::uint32_t is_registered;  // `key` is the fabric's
  fabric::Key key;
};
struct HandleMessage : Head {  // withdrawn, let_go; id: the handle
};
struct AccessMessage : Head {  // put: data; get
  std::uint32_t handle, reserved2;
  std::uint64_t offset, bytes;
};
struct DataMessage : Head {
  std::uint64_t offset;  // in what the get asked for
};
struct AtomicMessage : Head {
  std::uint32_t handle, kind_of_atomic;  // 0: fetch_add, 1: compare and swap
  std::uint64_t offset, operand, compare;
};
struct DoneMessage : Head {
  std::uint32_t code, reserved2;
  std::uint64_t previous;
};

template <class Message>
fabric::Bytes as_bytes(const Message& message) {
  return {reinterpret_cast<const std::byte*>(&message), sizeof message};
}

// False if the bytes are too few. data: what is behind it.
template <class Message>
bool read_message(fabric::Bytes bytes, Message& message, fabric::Bytes& data) {
  if (bytes.size() < sizeof message) return false;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
  data = bytes.subspan(sizeof message);
  return true;
}

}  // namespace weft::transport
