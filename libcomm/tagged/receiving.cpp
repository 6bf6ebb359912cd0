// The hot path of receiving: polls of the lanes, and delivery of messages.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"
#include "weft/copy.hpp"

namespace weft::tagged {

void Receiving::progress() {
  // acquire: pairs with the release in Lanes::connect of the peer.
  if (connections->load(std::memory_order_acquire) != known_connections) [[unlikely]]
    accept_peers(*local);
  left_entries = false;
  // acquire: the fabrics and their watcher, which another VCI may have made; pairs with
  // endpoint_address().
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

void Receiving::progress_remote() {
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
  if (++remote_polls % 4096 == 0) vci().check_liveness();
}

void Receiving::accept_peers(Lanes& lanes) {
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
      if (rank >= 0 && is_peer(rank)) vci().lose(peer(rank));
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
[[gnu::always_inline]] inline bool Receiving::on_eager(Peer& peer, const Entry& entry,
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
    detail::copy_small(request->buffer, data, std::min(length, request->length));
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

bool Receiving::on_other(Peer& peer, const Entry& entry, bool may_leave) {
  if (entry.kind != kEagerFirst && entry.kind != kEagerMore) {
    if (!make_room(peer)) [[unlikely]] {
      if (!is_before_deadline(peer, peer.no_receive_memory_ns, "no memory for its message"))
        vci().lose(peer);
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

void Receiving::drain(Peer& peer) {
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

Unexpected* Receiving::allocate_for(Peer& peer, std::size_t bytes) {
  Unexpected* message = matcher.allocate();
  if (message != nullptr && bytes > Unexpected::kSmall) {
    message->data.reset(new (std::nothrow) std::byte[bytes]);
    if (message->data == nullptr) matcher.release(std::exchange(message, nullptr));
  }
  if (message != nullptr)
    peer.no_memory_ns = 0;
  else if (!is_before_deadline(peer, peer.no_memory_ns, "no memory for its message"))
    vci().lose(peer);
  return message;
}

// Keeps an unexpected message, or the first fragment of one. False: not enough memory: the entry
// stays in the ring.
bool Receiving::keep_unexpected(Peer& peer, std::uint32_t context, std::int32_t tag,
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

void Receiving::store(const Request& request, std::size_t offset, const std::byte* from,
                      std::size_t bytes) noexcept {
  if (request.packer != nullptr)
    request.packer->unpack(from, offset, bytes);
  else
    weft::detail::copy(static_cast<std::byte*>(request.buffer) + offset, from, bytes);
}

void Receiving::on_eager_more(Peer& peer, const Entry& entry) {
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
void Receiving::deliver(Request& request, Unexpected& message) {
  request.peer = message.source;
  request.tag = message.tag;
  request.received = message.bytes;
  const std::size_t bytes = std::min(message.bytes, request.length);
  if (request.packer != nullptr) [[unlikely]]
    request.packer->unpack(message.storage(), 0, bytes);
  else
    detail::copy_small(request.buffer, message.storage(), bytes);
  release_unexpected(peer(message.source), message);
  complete_receive(request, Code::ok);
}

bool Receiving::receive_unexpected(Request& request, Unexpected& message) {
  if (message.is_rts) {
    if (!make_room(peer(message.source))) return false;
    peer(message.source).no_receive_memory_ns = 0;
  }
  if (!message.taken) matcher.remove_unexpected(message);
  if (message.is_rts) {
    fetch(request, message.source, message.tag, message.memory, message.send_id);
    matcher.release(&message);
  } else if (message.arrived == message.bytes) {
    deliver(request, message);
  } else if (peer(message.source).lost) {
    request.peer = message.source;
    matcher.release(&message);
    complete(request, Code::peer_lost);
  } else {
    request.peer = message.source;
    request.phase = kArriving;
    message.receiver = &request;
  }
  return true;
}

void Receiving::release_unexpected(Peer& peer, Unexpected& message) {
  if (!message.is_rts) {
    peer.unexpected_bytes -= message.bytes + sizeof(Unexpected);
    if (peer.in.hold && peer.unexpected_bytes < unexpected_max / 2) {
      peer.in.hold = false;
      peer.in.return_now();
    }
  }
  matcher.release(&message);
}

void Receiving::lose_incoming(Peer& peer) {
  if (peer.incoming != nullptr) complete(*std::exchange(peer.incoming, nullptr), Code::peer_lost);
  Unexpected* message = std::exchange(peer.incoming_unexpected, nullptr);
  if (message == nullptr) return;
  // The message is incomplete. If a matched probe has taken it, irecv_matched reports the loss.
  if (message->receiver != nullptr)
    complete(*message->receiver, Code::peer_lost);
  else if (!message->taken)
    matcher.remove_unexpected(*message);
  if (message->receiver != nullptr || !message->taken) matcher.release(message);
}

void Receiving::broken(Peer& peer, const char* what) {
  if (peer.lost) return;
  log_peer(LogLevel::error, peer.rank, "{} sent invalid data ({}): its lane is closed", what);
  vci().lose(peer);
}

}  // namespace weft::tagged
