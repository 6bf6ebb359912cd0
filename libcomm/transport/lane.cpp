#include "transport/lane.hpp"

namespace weft {

bool SendLane::flush() noexcept {
  if (const std::uint32_t mark = ring.turned_at(); mark != RingWriter::kNoTurn) {
    // Up to the end of the mark, then from the ring's start.
    const Code code = remote->post(remote_lane, posted, mark + kEntryAlign - posted);
    if (code == Code::again) return false;
    ring.forget_turn();
    posted = 0;
  }
  if (posted == ring.offset()) return true;
  const Code code = remote->post(remote_lane, posted, ring.offset() - posted);
  if (code == Code::again) return false;
  // Another error: the peer is lost, and its state tells.
  posted = ring.offset();
  return true;
}

}  // namespace weft
