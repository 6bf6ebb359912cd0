// The hot path of sending: queued messages and control entries into the rings.
#include <algorithm>
#include <cstring>

#include "tagged/impl.hpp"

namespace weft::tagged {

void Sending::note_blocked(Peer& peer) {
  if (peer.listed) return;
  peer.listed = true;
  blocked.push_back(&peer);
}

void Sending::enqueue(Peer& peer, Request& request) {
  request.next = nullptr;
  (peer.queue_tail != nullptr ? peer.queue_tail->next : peer.queue_head) = &request;
  peer.queue_tail = &request;
  note_blocked(peer);
}

void Sending::enqueue(Peer& peer, const Control& control) {
  peer.controls.push(control);
  flush(peer);
  if (!peer.controls.empty()) note_blocked(peer);
}

bool Sending::wait_for_memory(Peer& peer) {
  if (!is_before_deadline(peer, peer.no_send_memory_ns, "no memory for messages to it"))
    peer.is_past_deadline = true;
  return false;
}

bool Sending::retry(Peer& peer) {
  if (!peer.lost && (peer.out.connected() || connect(peer) == Code::ok)) flush(peer);
  if (peer.is_past_deadline && !peer.lost) vci().lose(peer);
  return peer.queue_head == nullptr && peer.controls.empty();
}

void Sending::flush(Peer& peer) {
  if (peer.lost || !peer.out.connected()) return;
  while (!peer.controls.empty()) {
    const Control& control = peer.controls.front();
    if (!peer.out.send(control.kind, control.immediate, &control.cts, control.length)) return;
    peer.controls.pop();
  }
  while (Request* request = peer.queue_head) {
    // Read first: the caller may reuse the request once it is complete.
    Request* next = request->next;
    if (!send_some(peer, *request)) return;
    peer.queue_head = next;
    if (next == nullptr) peer.queue_tail = nullptr;
  }
}

namespace {

// Sends an entry with bytes of the message. False: no room now.
bool send_fragment(Peer& peer, const Request& request, std::uint8_t kind, std::uint64_t immediate,
                   std::size_t offset, std::size_t bytes) noexcept {
  if (request.packer == nullptr)
    return peer.out.send(kind, immediate, static_cast<const std::byte*>(request.buffer) + offset,
                         bytes);
  std::byte* to = peer.out.reserve(bytes);
  if (to == nullptr) return false;
  request.packer->pack(to, offset, bytes);
  peer.out.publish(kind, bytes, immediate);
  return true;
}

}  // namespace

bool Sending::send_some(Peer& peer, Request& request) {
  const std::uint64_t immediate = envelope(request.context, request.tag);
  const std::size_t fragment = peer.copy_policy.piece_bytes;
  if (request.phase == kQueued) {
    if (peer.out.on_hold()) peer.out.ring.poll_credit();
    if (request.synchronous || peer.copy_policy.uses_rendezvous(request.length) ||
        peer.out.on_hold())
      return vci().send_rts(peer, request);
    if (request.length <= fragment) {
      if (!send_fragment(peer, request, kEager, immediate, 0, request.length)) return false;
      complete(request, Code::ok);
      return true;
    }
    const std::size_t length = fragment - sizeof(std::uint64_t);
    std::byte* to = peer.out.reserve(fragment);
    if (to == nullptr) return false;
    const std::uint64_t bytes = request.length;
    if (request.packer != nullptr)
      request.packer->pack(to + sizeof bytes, 0, length);
    else
      fill_entry(to + sizeof bytes, request.buffer, length, kInlineBytes - sizeof bytes);
    std::memcpy(to, &bytes, sizeof bytes);
    peer.out.publish(kEagerFirst, fragment, immediate);
    request.progress_bytes = length;
    request.phase = kFragments;
  }
  const bool streaming = request.phase == kStreaming;
  // A streamed message has the receiver's number.
  const std::uint64_t address = streaming ? request.stream_id : 0;
  const std::size_t total = streaming ? request.received : request.length;
  while (request.progress_bytes < total) {
    const std::size_t length = std::min(fragment, total - request.progress_bytes);
    if (!send_fragment(peer, request, streaming ? kStream : kEagerMore, address,
                       request.progress_bytes, length))
      return false;
    request.progress_bytes += length;
  }
  complete(request, Code::ok);
  return true;
}

}  // namespace weft::tagged
