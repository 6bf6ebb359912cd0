// The hot path: receiving from the lanes, and sending into them.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"
#include "weft/copy.hpp"

namespace weft::tagged {

void Engine::Impl::progress() {
  // acquire: pairs with the release in Lanes::connect of the peer.
  if (connections->load(std::memory_order_acquire) != known_connections) [[unlikely]]
    accept_peers(*local);
  left_entries = false;
  // acquire: the fabrics and their watcher, which another VCI may have made; pairs with endpoint_address().
  if (has_remote.load(std::memory_order_acquire)) [[unlikely]]
    progress_remote();
  // By index: a peer that is found lost leaves the list.
  for (std::size_t i = 0; i < incoming.size(); ++i) drain(*incoming[i]);
  if (!blocked.empty()) [[unlikely]] {
    for (std::size_t i = 0; i < blocked.size();) {
      Peer& peer = *blocked[i];
      if (retry(peer)) {
        peer.listed = false;
        blocked[i] = blocked.back();
        blocked.pop_back();
      } else {
        ++i;
      }
    }
  }
  if (!copies.empty()) run_copies();
}

void Engine::Impl::progress_remote() {
  fabrics->watcher()->note_poll();
  const auto remote = fabrics->remote();
  for (std::size_t i = 0; i < remote.size(); ++i) {
    remote[i]->poll();
    const std::uint32_t now = remote[i]->connections().load(std::memory_order_acquire);
    if (now == known_remote_connections[i]) continue;
    known_remote_connections[i] = now;
    accept_peers(*remote[i]);
  }
  for (Arrivals* list : arrivals) {
    for (Arrival* next = list->take(); next != nullptr; next = next->next) {
      auto* peer = static_cast<Peer*>(next->reader);
      if (!peer->lost) arriving.push_back(peer);
    }
  }
  // By index, as above.
  for (std::size_t i = 0; i < arriving.size();) {
    Peer& peer = *arriving[i];
    drain(peer);
    if (peer.lost || !peer.in.try_idle()) {
      ++i;
      continue;
    }
    arriving[i] = arriving.back();
    arriving.pop_back();
  }
  // A program that polls and never waits needs lost peers detected, too.
  if (++remote_polls % 4096 == 0) check_liveness();
}

// Returns true while an operation without memory or descriptors is to be retried: until
// PEER_TIMEOUT_MS has passed, as for a silent peer.
bool Engine::Impl::is_before_deadline(Peer& peer, std::uint64_t& since_ns, std::string_view why) {
  const std::uint64_t now = now_ns();
  if (since_ns == 0) {
    since_ns = now;
    log_peer(LogLevel::warn, peer.rank, "messages with {} are delayed: {}", why);
  }
  return now - since_ns < job.settings().ns(Setting::peer_timeout_ms);
}

void Engine::Impl::accept_peers(Lanes& lanes) {
  if (&lanes == local) known_connections = connections->load(std::memory_order_acquire);
  for (;;) {
    int rank = -1;
    int channel = 0;
    ReceiveMemory memory;
    if (Status status = lanes.accept(number, rank, channel, memory); !status) {
      if (status == Code::no_memory && rank >= 0 && is_peer(rank)) {
        if (peer(rank).lost) return;
        if (is_before_deadline(peer(rank), peer(rank).no_memory_ns, status.text())) {
          --known_connections;  // so that the next call accepts it
          return;
        }
      }
      log_peer(status == Code::peer_lost ? LogLevel::info : LogLevel::error, rank,
               "cannot accept {}: {}", status.text());
      if (rank >= 0 && is_peer(rank)) lose(peer(rank));
      continue;
    }
    if (rank < 0) return;
    if (!is_peer(rank)) {
      log_peer(LogLevel::warn, rank,
               "{} opened a lane that only ranks of the job may use: it is not read");
      continue;
    }
    Peer& peer = this->peer(rank);
    if (peer.lost || peer.accepted) continue;
    const std::uint32_t maximum = memory.ring_bytes != 0 ? memory.ring_bytes : ring_max;
    peer.in.open(lanes, memory, std::min(ring_min_of(lanes), maximum), maximum,
                 {rank, job.member(rank).host});
    peer.accepted = true;
    peer.no_memory_ns = 0;
    if (!peer.remote) {
      incoming.push_back(&peer);
      continue;
    }
    if (std::ranges::find(arrivals, memory.arrivals) == arrivals.end())
      arrivals.push_back(memory.arrivals);
    memory.arrivals->begin(*memory.arrival, &peer);
  }
}

// A whole message (length == bytes) or the first fragment of one. Part of the loop in drain().
[[gnu::always_inline]] inline bool Engine::Impl::on_eager(Peer& peer, const Entry& entry,
                                                          std::size_t bytes, const std::byte* data,
                                                          std::size_t length, bool may_leave) {
  const auto context = static_cast<std::uint32_t>(entry.immediate >> 32);
  const auto tag = static_cast<std::int32_t>(entry.immediate);
  Request* request = matcher.take_posted(peer.rank, context, tag);
  if (request == nullptr) [[unlikely]] {
    // A thread whose request has just completed may post the receive for this one next, which saves
    // a copy.
    return !may_leave && keep_unexpected(peer, context, tag, bytes, data, length);
  }
  request->peer = peer.rank;
  request->tag = tag;
  request->received = bytes;
  if (request->packer != nullptr) [[unlikely]]
    request->packer->unpack(data, 0, std::min(length, request->length));
  else
    copy_small(request->buffer, data, std::min(length, request->length));
  if (length == bytes) {
    complete_receive(*request, Code::ok);
    return true;
  }
  request->phase = kArriving;
  peer.incoming = request;
  peer.incoming_bytes = bytes;
  peer.incoming_offset = length;
  return true;
}

bool Engine::Impl::on_other(Peer& peer, const Entry& entry, bool may_leave) {
  if (entry.kind != kEagerFirst && entry.kind != kEagerMore) {
    if (!make_room(peer)) [[unlikely]] {
      if (!is_before_deadline(peer, peer.no_receive_memory_ns, "no memory for its message"))
        lose(peer);
      return peer.lost;
    }
    peer.no_receive_memory_ns = 0;
  }
  switch (entry.kind) {
    case kEagerFirst: {
      std::uint64_t bytes = 0;
      if (entry.length < sizeof bytes || peer.incoming_bytes != 0) {
        broken(peer, "the start of a long message");
        return true;
      }
      std::memcpy(&bytes, entry.data, sizeof bytes);
      const std::size_t length = entry.length - sizeof bytes;
      if (length >= bytes || bytes > ring_max) {
        broken(peer, "the length of a message");
        return true;
      }
      return on_eager(peer, entry, bytes, entry.data + sizeof bytes, length, may_leave);
    }
    case kEagerMore:
      on_eager_more(peer, entry);
      break;
    case kRts:
      return on_rts(peer, entry);
    case kCts:
      on_cts(peer, entry);
      break;
    case kFin:
      on_fin(peer, entry);
      break;
    case kStream:
      on_stream(peer, entry);
      break;
    case kWithdraw:
      on_withdraw(peer, entry);
      break;
    case kWithdrawn:
      on_withdrawn(peer, entry);
      break;
    default:
      broken(peer, "the kind of a message");
  }
  return true;
}

void Engine::Impl::drain(Peer& peer) {
  // Bounded, so that one busy peer does not starve the others.
  const std::uint64_t before = num_completed;
  Entry entry;
  for (int i = 0; i < 256; ++i) {
    if (!peer.in.peek(entry)) {
      if (peer.in.ring.broken()) [[unlikely]]
        return broken(peer, "the head of a message");
      peer.in.return_credit(true);
      return;
    }
    const bool may_leave = num_completed != before;
    const bool taken = entry.kind == kEager ? on_eager(peer, entry, entry.length, entry.data,
                                                       entry.length, may_leave)
                                            : on_other(peer, entry, may_leave);
    if (!taken) {
      left_entries = true;
      return peer.in.return_credit(true);
    }
    if (peer.lost) [[unlikely]]
      return;
    peer.in.ring.pop(entry.length);
    peer.in.return_credit(false);
  }
  left_entries = true;
}

// Allocates a message of so many bytes. Null: no memory; past the deadline the peer is lost.
Unexpected* Engine::Impl::allocate_for(Peer& peer, std::size_t bytes) {
  Unexpected* message = matcher.allocate();
  if (message != nullptr && bytes > Unexpected::kSmall) {
    message->data.reset(new (std::nothrow) std::byte[bytes]);
    if (message->data == nullptr) matcher.release(std::exchange(message, nullptr));
  }
  if (message != nullptr)
    peer.no_memory_ns = 0;
  else if (!is_before_deadline(peer, peer.no_memory_ns, "no memory for its message"))
    lose(peer);
  return message;
}

// Keeps an unexpected message, or the first fragment of one. False: not enough memory: the entry
// stays in the ring.
bool Engine::Impl::keep_unexpected(Peer& peer, std::uint32_t context, std::int32_t tag,
                                   std::size_t bytes, const std::byte* data, std::size_t length) {
  Unexpected* message = allocate_for(peer, bytes);
  if (message == nullptr) return peer.lost;
  message->source = peer.rank;
  message->tag = tag;
  message->context = context;
  message->bytes = bytes;
  message->arrived = length;
  weft::detail::copy(message->storage(), data, length);
  matcher.add_unexpected(*message);
  peer.unexpected_bytes += bytes + sizeof(Unexpected);
  if (peer.unexpected_bytes > unexpected_max && !peer.in.hold) {
    peer.in.hold = true;
    shared.notify({Notice::Kind::over_bound, peer.rank, nullptr, peer.unexpected_bytes});
    peer.in.return_now();
  }
  if (length == bytes) return true;
  peer.incoming_unexpected = message;
  peer.incoming_bytes = bytes;
  peer.incoming_offset = length;
  return true;
}

// Copies bytes of a message from `offset` on, which the buffer has room for.
void Engine::Impl::store(const Request& request, std::size_t offset, const std::byte* from,
                         std::size_t bytes) noexcept {
  if (request.packer != nullptr)
    request.packer->unpack(from, offset, bytes);
  else
    weft::detail::copy(static_cast<std::byte*>(request.buffer) + offset, from, bytes);
}

void Engine::Impl::on_eager_more(Peer& peer, const Entry& entry) {
  const std::size_t offset = peer.incoming_offset;
  if (peer.incoming_bytes == 0 || entry.length == 0 || entry.length > peer.incoming_bytes - offset)
    return broken(peer, "a fragment of a message");
  peer.incoming_offset += entry.length;
  const bool last = peer.incoming_offset == peer.incoming_bytes;
  if (last) peer.incoming_bytes = 0;
  if (Request* request = peer.incoming) {
    if (offset < request->length)
      store(*request, offset, entry.data,
            std::min<std::size_t>(entry.length, request->length - offset));
    if (!last) return;
    peer.incoming = nullptr;
    complete_receive(*request, Code::ok);
  } else if (Unexpected* message = peer.incoming_unexpected) {
    weft::detail::copy(message->storage() + offset, entry.data, entry.length);
    message->arrived += entry.length;
    if (!last) return;
    peer.incoming_unexpected = nullptr;
    if (message->receiver != nullptr) deliver(*message->receiver, *message);
  }
}

// For a message that is complete and out of the matcher.
void Engine::Impl::deliver(Request& request, Unexpected& message) {
  request.peer = message.source;
  request.tag = message.tag;
  request.received = message.bytes;
  const std::size_t bytes = std::min(message.bytes, request.length);
  if (request.packer != nullptr) [[unlikely]]
    request.packer->unpack(message.storage(), 0, bytes);
  else
    copy_small(request.buffer, message.storage(), bytes);
  release_unexpected(peer(message.source), message);
  complete_receive(request, Code::ok);
}

void Engine::Impl::release_unexpected(Peer& peer, Unexpected& message) {
  if (!message.is_rts) {
    peer.unexpected_bytes -= message.bytes + sizeof(Unexpected);
    if (peer.in.hold && peer.unexpected_bytes < unexpected_max / 2) {
      peer.in.hold = false;
      peer.in.return_now();
    }
  }
  matcher.release(&message);
}

void Engine::Impl::broken(Peer& peer, const char* what) {
  if (peer.lost) return;
  log_peer(LogLevel::error, peer.rank, "{} sent invalid data ({}): its lane is closed", what);
  lose(peer);
}

void Engine::Impl::note_blocked(Peer& peer) {
  if (peer.listed) return;
  peer.listed = true;
  blocked.push_back(&peer);
}

void Engine::Impl::enqueue(Peer& peer, Request& request) {
  request.next = nullptr;
  (peer.queue_tail != nullptr ? peer.queue_tail->next : peer.queue_head) = &request;
  peer.queue_tail = &request;
  note_blocked(peer);
}

void Engine::Impl::enqueue(Peer& peer, const Control& control) {
  peer.controls.push(control);
  flush(peer);
  if (!peer.controls.empty()) note_blocked(peer);
}

// For a queued send: returns false, and the send stays queued.
bool Engine::Impl::wait_for_memory(Peer& peer) {
  if (!is_before_deadline(peer, peer.no_send_memory_ns, "no memory for messages to it"))
    peer.is_past_deadline = true;
  return false;
}

bool Engine::Impl::retry(Peer& peer) {
  if (!peer.lost && (peer.out.connected() || connect(peer) == Code::ok)) flush(peer);
  if (peer.is_past_deadline && !peer.lost) lose(peer);
  return peer.queue_head == nullptr && peer.controls.empty();
}

void Engine::Impl::flush(Peer& peer) {
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

// Sends an entry with bytes of the message. False: no room now.
bool Engine::Impl::send_fragment(Peer& peer, const Request& request, std::uint8_t kind,
                                 std::uint64_t immediate, std::size_t offset,
                                 std::size_t bytes) noexcept {
  if (request.packer == nullptr)
    return peer.out.send(kind, immediate, static_cast<const std::byte*>(request.buffer) + offset,
                         bytes, peer.copy_policy.is_past_cache(request.length));
  std::byte* to = peer.out.reserve(bytes);
  if (to == nullptr) return false;
  request.packer->pack(to, offset, bytes);
  peer.out.publish(kind, bytes, immediate);
  return true;
}

// Sends as much of a message as there is room for. True: it has left the queue.
bool Engine::Impl::send_some(Peer& peer, Request& request) {
  const std::uint64_t immediate = envelope(request.context, request.tag);
  const std::size_t fragment = peer.copy_policy.piece_of(request.length);
  if (request.phase == kQueued) {
    if (peer.out.on_hold()) peer.out.ring.poll_credit();
    if (request.synchronous || peer.copy_policy.uses_rendezvous(request.length) || peer.out.on_hold())
      return send_rts(peer, request);
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
      fill_entry(to + sizeof bytes, request.buffer, length, kInlineBytes - sizeof bytes,
                 peer.copy_policy.is_past_cache(request.length));
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
