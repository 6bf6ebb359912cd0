#include "transport/lane.hpp"

#include <algorithm>

namespace weft {

// Before an entry is written to the mirror. False: no room now.
bool SendLane::prepare() noexcept {
  // A second turn must not hide a first one that is still to be posted.
  if (ring.turned_at() != RingWriter::kNoTurn && !flush()) return false;
  if (can_restart && flushed() && ring.restart()) {
    posted = 0;
    remote->restart(remote_lane);
  }
  return true;
}

bool SendLane::flush(bool later) noexcept {
  if (const std::uint32_t mark = ring.turned_at(); mark != RingWriter::kNoTurn) {
    // Up to the end of the mark, then from the ring's start.
    const Code code = remote->post(remote_lane, posted, mark + kEntryAlign - posted);
    if (code == Code::again) return false;
    ring.forget_turn();
    posted = 0;
  }
  if (posted == ring.offset()) return true;
  const std::uint32_t bytes = ring.offset() - posted;
  const Code code = later ? remote->post_later(remote_lane, posted, bytes)
                          : remote->post(remote_lane, posted, bytes);
  if (code == Code::again) return false;
  // Another error: the peer is lost, and its state tells.
  posted = ring.offset();
  return true;
}

}  // namespace weft
