#include "lanes/lane.hpp"

#include "lanes/linked/remote_lanes.hpp"

namespace weft {

std::byte* SendLane::reserve_mirror(std::size_t length) noexcept {
  // All that was published was posted, wrap marks included.
  if (!remote->writes() && ring.restart()) {
    posted = 0;
    remote->restart(remote_lane);
  }
  if (num_initial != 0) [[unlikely]]
    return reserve_first(length);
  std::byte* to = ring.reserve(length);
  // The wrap mark goes along with the entry behind it; where that has to wait for room, it goes
  // alone, as a second wrap must not hide a first one.
  if (to == nullptr && ring.wrapped_at() != RingWriter::kNoWrap) post(false);
  return to;
}

// In the initial ring: an entry that does not fit there needs the full ring, and so do all behind
// it.
std::byte* SendLane::reserve_first(std::size_t length) noexcept {
  if (--num_initial != 0 && length <= RingWriter::max_length(ring.capacity()))
    if (std::byte* to = ring.reserve(length)) return to;
  if (ring.wrapped_at() != RingWriter::kNoWrap) post(false);
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

// Posts the published bytes.
void SendLane::post(bool later) noexcept {
  if (const std::uint32_t mark = ring.wrapped_at(); mark != RingWriter::kNoWrap) {
    // Up to the end of the mark, then from the ring's start.
    remote->post(remote_lane, posted, mark + kEntryAlign - posted, false);
    ring.forget_wrap();
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
