#include "transport/lane.hpp"

#include <algorithm>

namespace weft {

// Before an entry is written to the mirror. False: no room now.
bool SendLane::prepare() noexcept {
  // A second turn must not hide a first one that is still to be posted, nor an entry one in place.
  if ((ring.turned_at() != RingWriter::kNoTurn || !in_place.data.empty()) && !flush()) return false;
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
  const Code code = !in_place.data.empty()
                        ? remote->post_in_place(remote_lane, posted, bytes, in_place.head,
                                                in_place.data, in_place.done)
                    : later ? remote->post_later(remote_lane, posted, bytes)
                            : remote->post(remote_lane, posted, bytes);
  if (code == Code::again) return false;
  // Another error: the peer is lost, and its state tells.
  posted = ring.offset();
  if (code != Code::ok && in_place.done != nullptr) in_place.done->set(code);
  in_place = {};
  return true;
}

bool SendLane::send_in_place(std::uint8_t kind, std::uint64_t immediate,
                             std::span<const std::byte> first, std::span<const std::byte> data,
                             Completion* done) noexcept {
  std::byte* to = reserve(first.size() + data.size());
  // An entry in place is posted alone.
  if (to == nullptr || !flush()) return false;
  std::copy(first.begin(), first.end(), to);
  ring.publish(kind, static_cast<std::uint32_t>(first.size() + data.size()), immediate);
  in_place = {static_cast<std::uint32_t>(sizeof(EntryHead) + first.size()), data, done};
  flush();
  return true;
}

}  // namespace weft
