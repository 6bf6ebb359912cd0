#include "lanes/lane.hpp"

#include "lanes/linked/remote_lanes.hpp"

namespace weft {

std::byte* SendLane::reserve_mirror(std::size_t length) noexcept {
  // What was published was posted, and so was a turn.
  if (ring.restart()) {
    posted = 0;
    remote->restart(remote_lane);
  }
  if (num_initial != 0) [[unlikely]]
    return reserve_first(length);
  std::byte* to = ring.reserve(length);
  // The mark goes along with the entry behind it; where that has to wait for room, it goes alone,
  // as a second turn must not hide a first one.
  if (to == nullptr && ring.turned_at() != RingWriter::kNoTurn) post(false);
  return to;
}

// While there is only little memory: an entry that does not fit there needs the whole ring, and so
// do all behind it.
std::byte* SendLane::reserve_first(std::size_t length) noexcept {
  if (--num_initial != 0 && length <= RingWriter::max_length(ring.capacity()))
    if (std::byte* to = ring.reserve(length)) return to;
  if (ring.turned_at() != RingWriter::kNoTurn) post(false);
  std::byte* base = remote->full_ring(remote_lane);
  if (base == nullptr) {
    num_initial = 1;  // another try
    return nullptr;
  }
  num_initial = 0;
  posted = 0;
  ring.move_to(base, full_capacity, full_maximum);
  return ring.reserve(length);
}

// Posts what was published.
void SendLane::post(bool later) noexcept {
  if (const std::uint32_t mark = ring.turned_at(); mark != RingWriter::kNoTurn) {
    // Up to the end of the mark, then from the ring's start.
    remote->post(remote_lane, posted, mark + kEntryAlign - posted, false);
    ring.forget_turn();
    posted = 0;
  }
  if (posted == ring.offset()) return;
  remote->post(remote_lane, posted, ring.offset() - posted, later);
  posted = ring.offset();
}

void ReceiveLane::return_remote(std::uint64_t flags) noexcept {
  remote->return_credit(remote_lane, ring.take_credit(flags));
}

}  // namespace weft
