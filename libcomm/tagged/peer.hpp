#pragma once
// Peer: the state of one VCI for one other process.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shortage.hpp"
#include "lanes/copy_policy.hpp"
#include "lanes/lane.hpp"
#include "tagged/match.hpp"
#include "tagged/request.hpp"
#include "tagged/wire.hpp"

namespace weft::tagged {

// Request::phase.
enum Phase : std::uint8_t {
  kIdle = 0,
  kPosted,     // receive: in the matcher
  kArriving,   // receive: some fragments have arrived
  kCopying,    // either: has a RendezvousCopy, or waits for the other side to finish
  kQueued,     // send: waiting for room in the ring
  kFragments,  // send: partly in the ring
  kRtsSent,    // send: waiting for the CTS or FIN
  kStreaming,  // send: a long message goes through the ring
  kRevoked,    // send: as kRtsSent, but its context is revoked: the peer is asked to drop it
};

// An entry that is sent once there is room, ahead of queued messages.
struct Control {
  std::uint8_t kind;
  std::uint64_t immediate;
  std::uint32_t length;
  Cts cts;
};

// Control entries that wait for room in a ring, in order.
class ControlQueue {
 public:
  // Guarantees that the next push does not allocate.
  void make_room() {
    if (entries_.size() < entries_.capacity()) return;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
    weft::make_room(entries_);
  }
  void push(const Control& control) { entries_.push_back(control); }
  bool empty() const noexcept { return first_ == entries_.size(); }
  const Control& front() const noexcept { return entries_[first_]; }
  void pop() noexcept {
    if (++first_ == entries_.size()) clear();
  }
  void clear() noexcept {
    entries_.clear();
    first_ = 0;
  }

 private:
  std::vector<Control> entries_;
  std::size_t first_ = 0;
};

struct Peer {
  int rank = 0;
  Lanes* lanes = nullptr;  // the route to it; null: no fabric in common
  SendMemory send_memory;  // once the fabric has provided it
  SendLane out;
  CopyPolicy copy_policy;  // set when connected
  ReceiveLane in;
  bool accepted = false;
  bool lost = false;
  std::uint32_t loss = 0;  // the number of its loss in this VCI, from 1; 0: none
  // The start of a shortage of memory here for its messages, for receiving them, and for sending to
  // it; 0: none.
  std::uint64_t no_memory_ns = 0, no_receive_memory_ns = 0, no_send_memory_ns = 0;
  bool is_past_deadline = false;  // the shortage for sending lasts too long
  bool left = false;              // lost, and in good order
  // Sends waiting for room, in order, linked by Request::next.
  Request* queue_head = nullptr;
  Request* queue_tail = nullptr;
  ControlQueue controls;
  bool listed = false;  // in Sending::blocked
  bool remote = false;
  bool watched = false;  // remote: checked for liveness
  // The fragmented message that is arriving.
  Request* incoming = nullptr;
  Unexpected* incoming_unexpected = nullptr;
  std::size_t incoming_bytes = 0;
  std::size_t incoming_offset = 0;
  // Unmatched eager data of this peer.
  std::size_t unexpected_bytes = 0;

  // Mapped, and a short message can be written now if the ring has room.
  bool is_clear() const noexcept {
    return out.connected() && !remote && !lost && queue_head == nullptr && !out.on_hold();
  }
};

}  // namespace weft::tagged
