#pragma once
// What two endpoints of the fabric tcp send each other: frames of 16 bytes, with what follows by
// their kind, filled up to a multiple of 16, so that every message begins aligned.
#include <cstddef>
#include <cstdint>

#include "fabric/endpoint.hpp"
#include "weft/status.hpp"

namespace weft::fabric::tcp {

enum class Kind : std::uint8_t {
  hello = 1,  // the first of who connects; id: kMagic; payload: the client's hello
  accept,     // the first of who listens; id: kMagic
  message,    // payload
  put,        // Access, payload
  get,        // Access; bytes: how many are asked for
  data,       // of the get of this id: all of it, as payload
  done,       // of the put or get of this id; code
};

struct Frame {
  Kind kind;
  Code code;
  std::uint16_t reserved;
  std::uint32_t bytes;
  std::uint64_t id;
};
struct Access {
  std::uint64_t address, secret;
};
static_assert(sizeof(Frame) == 16 && sizeof(Access) == 16);

// Raise the number at its end when anything here changes.
inline constexpr std::uint64_t kMagic = 0x31'50'43'54'57'45'46'54;

inline constexpr std::size_t kMostBytes = 1u << 30;  // of a put or get
inline constexpr std::size_t kMessageMax = 128 << 10;
inline constexpr std::size_t kAlign = sizeof(Frame);
inline constexpr std::size_t kMostHead = sizeof(Frame) + sizeof(Access);

inline Bytes bytes_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}
inline std::size_t padding_of(std::size_t bytes) { return -bytes % kAlign; }
inline bool has_access(Kind kind) { return kind == Kind::put || kind == Kind::get; }
inline std::size_t payload_of(const Frame& frame) {
  return frame.kind == Kind::get || frame.kind == Kind::accept || frame.kind == Kind::done
             ? 0
             : frame.bytes;
}

}  // namespace weft::fabric::tcp
