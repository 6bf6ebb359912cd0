#include "transport/lane.hpp"

namespace weft {

std::byte* SendLane::reserve_mirror(std::size_t length) noexcept {
  // What was published was posted, and so was a turn.
  if (ring.restart()) {
    posted = 0;
    remote->restart(remote_lane);
  }
  std::byte* to = ring.reserve(length);
  // The mark goes along with the entry behind it; where that has to wait for room, it goes alone,
  // as a second turn must not hide a first one.
  if (to == nullptr && ring.turned_at() != RingWriter::kNoTurn) post(false);
  return to;
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

}  // namespace weft
