#pragma once
// Request: one pending tagged send or receive. The caller owns the memory and must not move or free
// it until is_complete(). One Request is used by one thread at a time; the engine writes it under
// its own lock.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lanes/lanes.hpp"
#include "weft/status.hpp"

namespace weft::tagged {

inline constexpr int kAnySource = -1;
inline constexpr std::int32_t kAnyTag = -1;

// Packs and unpacks data that do not lie in one block (MPI's derived datatypes) straight into and
// out of the lane, so that they are copied once on each side. The engine calls it under its lock,
// for the fragments of a message in order; it must not call the engine.
class Packer {
 public:
  // Bytes [skip, skip + bytes) of the message.
  virtual void pack(std::byte* to, std::size_t skip, std::size_t bytes) const noexcept = 0;
  virtual void unpack(const std::byte* from, std::size_t skip,
                      std::size_t bytes) const noexcept = 0;

 protected:
  ~Packer() = default;
};

struct Request {
  // Written last by the engine, with release; pairs with the acquire in is_complete().
  // kPaused: see stays_posted.
  enum : std::uint8_t { kPending, kOver, kPaused };
  std::atomic<std::uint8_t> complete{kPending};
  Code code = Code::ok;  // valid once complete: ok, truncated, cancelled, peer_lost, ...
  bool is_receive = false;
  bool synchronous = false;  // a send that completes only when matched
  // Set by the caller, once: a receive from any source survives losses. While one is not
  // acknowledged (engine.hpp, "Losses") it pauses: it counts as complete, but it stays posted: it
  // still ends with the message that it matches, and otherwise waits on after the
  // acknowledgement.
  bool stays_posted = false;
  int peer = 0;          // world rank of the other side; a receive's actual source once complete
  std::int32_t tag = 0;  // actual tag once complete
  std::uint32_t context = 0;
  void* buffer = nullptr;    // user's memory; a send only reads it
  std::size_t length = 0;    // send: bytes to send; receive: room in the buffer
  std::size_t received = 0;  // receive, once complete: bytes of the message (before truncation)

  // Set by the caller before the start, and valid until the request completes; null: `buffer` is
  // contiguous.
  const Packer* packer = nullptr;

  // Private to the engine.
  Request* next = nullptr;
  Request* before = nullptr;
  std::uint64_t progress_bytes = 0;
  std::uint64_t id = 0;         // in this side's table
  std::uint64_t stream_id = 0;  // in the receiver's table
  std::uint8_t phase = 0;

  bool is_complete() const noexcept { return complete.load(std::memory_order_acquire) != kPending; }
  // Complete for good: the engine is done with it.
  bool is_over() const noexcept { return complete.load(std::memory_order_acquire) == kOver; }
};

// Memory that the engine uses until some request is complete, kept by Engine::keep().
class Kept {
 public:
  virtual ~Kept() = default;
  // Returns true once the engine is done with it.
  virtual bool is_over() const noexcept = 0;
};

// The result of a probe.
struct MessageInfo {
  int source = 0;  // world rank
  std::int32_t tag = 0;
  std::size_t bytes = 0;
};

// A message that a matched probe has taken out of matching; Engine::irecv_matched receives it.
struct Unexpected;

}  // namespace weft::tagged
