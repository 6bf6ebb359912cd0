// Rendezvous of long messages. The sender's RTS names the memory of the data. Once it has matched,
// there are three protocols:
//   get       the receiver copies the data alone, by the processor or by gets of the fabric, and
//             sends a FIN;
//   shared    the receiver sends a CTS with a SharedCopy, and both sides claim chunks of it until
//             none is left: half the time when the sender waits too, and the receiver finishes
//             alone when it does not;
//   stream    the receiver sends a CTS with kStreamed, and the sender sends the data through the
//             ring: where the kernel refuses copies, and for data that are not contiguous at one
//             side.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {

// Copied between two looks at the rings by a side that copies alone.
constexpr std::uint64_t kAloneBytes = 4 * CopyPolicy::kSharedPieceBytes;

// Returns null if the number is not in use or belongs to another peer.
Request* find_request(RequestTable& table, std::uint64_t id, const Peer& peer) noexcept {
  Request** found = table.find(id);
  return found != nullptr && (*found)->peer == peer.rank ? *found : nullptr;
}

// As Rendezvous::make_room(), for the control entry at the end of a copy; does not move `copies`.
bool make_room_to_answer(Peer& peer) noexcept {
  return or_no_memory([&] { peer.controls.make_room(); }) == Code::ok;
}

}  // namespace

bool Rendezvous::make_room(Peer& peer) noexcept {
  return or_no_memory([&] {
           weft::make_room(copies);
           receives.make_room();
           peer.controls.make_room();
           if (peer.remote) gets.make_room();
         }) == Code::ok;
}

bool Rendezvous::send_rts(Peer& peer, Request& request) {
  if (or_no_memory([&] { sends.make_room(); }) != Code::ok) return wait_for_memory(peer);
  peer.no_send_memory_ns = 0;
  std::byte* to = peer.out.reserve(sizeof(Rts));
  if (to == nullptr) return false;
  MemoryName memory{};
  if (request.packer != nullptr) {
    // No memory in the RTS: the receiver asks for a stream.
  } else if (!peer.remote) {
    memory = local->describe(request.buffer, request.length);
  } else if (request.length > 0) {
    // Without a region in the RTS the receiver asks for a stream.
    if (Status status = peer.lanes->remote()->share_once(request.buffer, request.length, memory);
        !status)
      memory = {};
    else
      shared.notify({Notice::Kind::shared, peer.rank, request.buffer, request.length});
    request.stream_id = number_of(memory);
  }
  request.id = sends.add(&request);
  request.phase = kRtsSent;
  const Rts message{request.length, memory.address, request.id, memory.region, memory.extra};
  std::memcpy(to, &message, sizeof message);
  peer.out.publish(kRts, sizeof message, envelope(request.context, request.tag));
  return true;
}

void Rendezvous::end_share(Request& request) {
  Peer& peer = this->peer(request.peer);
  if (!peer.remote || request.stream_id == 0) return;
  const MemoryName memory = named(0, 0, std::exchange(request.stream_id, 0));
  if (Status status = peer.lanes->unshare(memory); !status)
    log_line(LogLevel::debug, job.rank(), "cannot unshare a message's memory: {}", status.text());
}

bool Rendezvous::on_rts(Peer& peer, const Entry& entry) {
  Rts message;
  if (entry.length != sizeof message) {
    vci().broken(peer, "the length of an RTS");
    return true;
  }
  std::memcpy(&message, entry.data, sizeof message);
  const auto context = static_cast<std::uint32_t>(entry.immediate >> 32);
  const auto tag = static_cast<std::int32_t>(entry.immediate);
  const MemoryName memory{message.address, message.length, message.region, message.extra};
  if (Request* request = matcher.take_posted(peer.rank, context, tag)) {
    fetch(*request, peer.rank, tag, memory, message.send_id);
    return true;
  }
  Unexpected* waiting = vci().allocate_for(peer, 0);
  if (waiting == nullptr) return peer.lost;
  waiting->source = peer.rank;
  waiting->tag = tag;
  waiting->context = context;
  waiting->is_rts = true;
  waiting->bytes = message.length;
  waiting->memory = memory;
  waiting->send_id = message.send_id;
  matcher.add_unexpected(*waiting);
  return true;
}

std::uint32_t Rendezvous::take_record() {
  // Only when few are free: reading one costs a cache line from the sender.
  for (std::size_t i = 0; free_records.size() < 4 && i < closing_records.size();) {
    // acquire: the sender's last read of the record; pairs with the release in step().
    if (local->own_copy(closing_records[i])->sender_left.load(std::memory_order_acquire) != 0) {
      free_records.push_back(closing_records[i]);
      closing_records[i] = closing_records.back();
      closing_records.pop_back();
    } else {
      ++i;
    }
  }
  if (free_records.empty()) return kStreamed;
  const std::uint32_t index = free_records.back();
  free_records.pop_back();
  return index;
}

void Rendezvous::fetch(Request& request, int source, std::int32_t tag, const MemoryName& memory,
                       std::uint64_t send_id) {
  Peer& peer = this->peer(source);
  request.peer = source;
  request.tag = tag;
  request.received = memory.bytes;
  request.phase = kCopying;
  const std::uint64_t wanted = std::min<std::uint64_t>(memory.bytes, request.length);
  if (connect(peer) == Code::peer_lost) return complete(request, Code::peer_lost);
  RendezvousCopy copy{};
  copy.request = &request;
  copy.remote = memory;
  copy.remote.bytes = wanted;
  copy.length = wanted;
  copy.send_id = send_id;
  copy.peer = source;
  copy.claims = true;
  const bool can_copy = !peer.remote && local->can_copy(source);
  const bool is_in_reach = memory.region != 0 || (can_copy && memory.address != 0);
  if (wanted > 0 && (!is_in_reach || request.packer != nullptr)) return send_cts_to_stream(copy);
  if (wanted > 0 && peer.remote) {
    copy.gets = &gets.take();
    copy.gets->code = Code::ok;
  }
  if (can_copy && peer.copy_policy.is_shared(wanted)) send_cts_to_copy(peer, copy);
  copies.push_back(copy);
}

// Asks the sender to take part in the copy, if a record is free.
void Rendezvous::send_cts_to_copy(Peer& peer, RendezvousCopy& copy) {
  copy.record_index = take_record();
  if (copy.record_index == kStreamed) return;
  SharedCopy& record = *local->own_copy(copy.record_index);
  // relaxed: the ring entry below publishes it.
  for (auto* word : {&record.claimed, &record.done, &record.given_back})
    word->store(0, std::memory_order_relaxed);
  record.failed.store(0, std::memory_order_relaxed);
  record.sender_left.store(0, std::memory_order_relaxed);
  copy.record = &record;
  const MemoryName mine = local->describe(copy.request->buffer, copy.length);
  Control control{kCts, 0, sizeof(Cts), {}};
  control.cts = {copy.length, mine.address, copy.send_id, 0, copy.record_index, mine.region};
  enqueue(peer, control);
}

// For data that are not accessible from here, or not contiguous at one side.
void Rendezvous::send_cts_to_stream(RendezvousCopy& copy) {
  Request& request = *copy.request;
  request.progress_bytes = 0;
  request.id = receives.add(&request);
  Control control{kCts, 0, sizeof(Cts), {}};
  control.cts = {copy.length, 0, copy.send_id, request.id, kStreamed, 0};
  enqueue(peer(copy.peer), control);
}

void Rendezvous::on_cts(Peer& peer, const Entry& entry) {
  Cts cts;
  if (entry.length != sizeof cts) return vci().broken(peer, "the length of a CTS");
  std::memcpy(&cts, entry.data, sizeof cts);
  Request* request = find_request(sends, cts.send_id, peer);
  if (request == nullptr || cts.length > request->length)
    return vci().broken(peer, "the number of a message");
  SharedCopy* record = nullptr;
  if (cts.record != kStreamed) {
    if (!peer.remote && request->packer == nullptr)
      record = local->peer_copy(peer.rank, cts.record);
    if (record == nullptr) return vci().broken(peer, "the number of a copy");
  }
  sends.remove(cts.send_id);
  end_share(*request);
  if (record == nullptr) {
    request->phase = kStreaming;
    request->progress_bytes = 0;
    request->received = cts.length;
    request->stream_id = cts.receive_id;
    enqueue(peer, *request);
    return;
  }
  request->phase = kCopying;
  RendezvousCopy copy{};
  copy.request = request;
  copy.record = record;
  copy.remote = {cts.address, cts.length, cts.region, 0};
  copy.length = cts.length;
  copy.peer = peer.rank;
  copy.is_sender = true;
  copy.claims = local->can_copy(peer.rank);
  copies.push_back(copy);
}

// The peer does not access the data of an RTS any more.
void Rendezvous::complete_rts(Peer& peer, std::uint64_t send_id, Code code) {
  Request* request = find_request(sends, send_id, peer);
  if (request == nullptr) return vci().broken(peer, "the number of a message");
  sends.remove(send_id);
  end_share(*request);
  const bool is_revoked = code == Code::cancelled && request->phase == kRevoked;
  complete(*request, is_revoked ? Code::peer_lost : code);
}

void Rendezvous::on_stream(Peer& peer, const Entry& entry) {
  Request* request = find_request(receives, entry.immediate, peer);
  const std::uint64_t wanted =
      request == nullptr ? 0 : std::min<std::uint64_t>(request->received, request->length);
  if (request == nullptr || entry.length > wanted - request->progress_bytes)
    return vci().broken(peer, "the number of a streamed message");
  vci().store(*request, request->progress_bytes, entry.data, entry.length);
  request->progress_bytes += entry.length;
  if (request->progress_bytes < wanted) return;
  receives.remove(entry.immediate);
  complete_receive(*request, Code::ok);
}

// Cancels a send. Entries in the ring stay there.
bool Rendezvous::withdraw(Request& request) {
  Peer& peer = this->peer(request.peer);
  if (request.phase == kRtsSent && make_room(peer))
    enqueue(peer, Control{kWithdraw, request.id, 0, {}});
  if (request.phase != kQueued) return false;
  Request* previous = nullptr;
  for (Request* r = peer.queue_head; r != nullptr; previous = r, r = r->next) {
    if (r != &request) continue;
    (previous != nullptr ? previous->next : peer.queue_head) = request.next;
    if (peer.queue_tail == &request) peer.queue_tail = previous;
    complete(request, Code::cancelled);
    return true;
  }
  return false;
}

void Rendezvous::revoke_sends(std::uint32_t context) {
  for (Peer& peer : peers) {
    Request** place = &peer.queue_head;
    Request* previous = nullptr;
    while (Request* request = *place) {
      if (request->context != context || request->phase != kQueued) {
        previous = request;
        place = &request->next;
        continue;
      }
      *place = request->next;
      if (peer.queue_tail == request) peer.queue_tail = previous;
      complete(*request, Code::peer_lost);
    }
  }
  // The table may grow while the peers are asked.
  std::vector<Request*> waiting;
  (void)or_no_memory([&] {
    sends.for_each([&](std::uint64_t, Request* request) {
      if (request->context == context && request->phase == kRtsSent) waiting.push_back(request);
    });
  });
  for (Request* request : waiting) {
    Peer& peer = this->peer(request->peer);
    if (!make_room(peer)) continue;
    request->phase = kRevoked;
    enqueue(peer, Control{kWithdraw, request->id, 0, {}});
  }
}

// An RTS that has matched is not withdrawn: its CTS or FIN is the answer.
void Rendezvous::on_withdraw(Peer& peer, const Entry& entry) {
  Unexpected* message = matcher.find_rts(peer.rank, entry.immediate);
  if (message == nullptr) return;
  matcher.remove_unexpected(*message);
  matcher.release(message);
  enqueue(peer, Control{kWithdrawn, entry.immediate, 0, {}});
}

void Rendezvous::lose_rendezvous(Peer& peer) {
  const auto fail_all = [&](RequestTable& table) {
    table.for_each([&](std::uint64_t id, Request* request) {
      if (request->peer != peer.rank) return;
      table.remove(id);
      if (!request->is_receive) end_share(*request);
      complete(*request, Code::peer_lost);
    });
  };
  fail_all(sends);
  fail_all(receives);

  for (std::size_t i = 0; i < copies.size();) {
    if (copies[i].peer != peer.rank) {
      ++i;
      continue;
    }
    Request* request = copies[i].request;
    RendezvousCopy copy = copies[i];
    if (copies[i].gets != nullptr) {
      std::fill_n(copies[i].gets->busy, Gets::kMax, false);
      gets.give_back(*copies[i].gets);
    }
    copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(i));
    // The peer may have copied the last bytes, and ended before this side polled.
    const bool may_be_complete =
        copy.record != nullptr && copy.record->failed.load(std::memory_order_acquire) == 0;
    if (!may_be_complete || !end_if_complete(copy)) complete(*request, Code::peer_lost);
  }
}

void Rendezvous::run_copies() {
  // Receivers work from the oldest, senders from the newest, so that the two sides of a stream of
  // messages mostly copy different ones. One chunk each, then the rings are polled again. Where
  // data go both ways each side leaves what it sends to the receivers until it has what it
  // receives, and neither waits for lines of the other's.
  const auto claims = [this](bool is_sender) {
    return std::ranges::any_of(copies, [is_sender](const RendezvousCopy& copy) {
      return copy.is_sender == is_sender && copy.claims;
    });
  };
  const bool both_ways = claims(false) && claims(true);
  for (std::size_t i = 0; i < copies.size();) {
    if (step(copies[i], both_ways)) {
      copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  // After the loop, as this removes copies, too.
  if (Peer* peer = std::exchange(found_lost, nullptr)) vci().end_of(*peer);
}

bool Rendezvous::has_copies() const noexcept {
  for (const RendezvousCopy& copy : copies) {
    if (copy.gets != nullptr) {
      // Without a get in flight nothing would wake this process.
      if (std::none_of(std::begin(copy.gets->busy), std::end(copy.gets->busy),
                       [](bool busy) { return busy; }))
        return true;
    } else if (copy.record == nullptr || copy.claims) {
      return true;
    }
  }
  return false;
}

// Keeps several gets in flight.
bool Rendezvous::step_remote(RendezvousCopy& copy) {
  Request& request = *copy.request;
  Peer& peer = this->peer(copy.peer);
  Gets& parts = *copy.gets;
  bool busy = false;
  for (int i = 0; i < Gets::kMax; ++i) {
    if (parts.busy[i]) {
      if (!parts.chunks[i].is_done()) {
        busy = true;
        continue;
      }
      parts.busy[i] = false;
      if (parts.code == Code::ok) parts.code = parts.chunks[i].code();
    }
    if (parts.code != Code::ok || copy.copied == copy.length) continue;
    const std::uint64_t bytes =
        std::min<std::uint64_t>(copy.length - copy.copied, peer.lanes->limits().piece_max);
    parts.chunks[i].reset();
    peer.lanes->start_get(copy.peer, copy.remote, copy.copied,
                          static_cast<std::byte*>(request.buffer) + copy.copied, bytes,
                          parts.chunks[i]);
    if (parts.chunks[i].is_done() && parts.chunks[i].code() == Code::again) return false;
    parts.busy[i] = busy = true;
    copy.copied += bytes;
  }
  if (busy || (parts.code == Code::ok && copy.copied < copy.length)) return false;
  if (!make_room_to_answer(peer)) return false;
  if (parts.code == Code::peer_lost) {
    found_lost = &peer;
    return false;
  }
  gets.give_back(parts);
  send_fin(copy, parts.code);
  return true;
}

Code Rendezvous::copy_bytes(const RendezvousCopy& copy, std::uint64_t offset, std::uint64_t bytes) {
  auto* here = static_cast<std::byte*>(copy.request->buffer) + offset;
  return copy.is_sender ? local->put(copy.peer, copy.remote, offset, here, bytes)
                        : local->get(copy.peer, copy.remote, offset, here, bytes);
}

void Rendezvous::count_message(const RendezvousCopy& copy) {
  peer(copy.peer).in.stats.row().add(stats::Counter::copied_bytes, copy.length);
}

// Ends a copy that the receiver did alone.
void Rendezvous::send_fin(const RendezvousCopy& copy, Code code) {
  count_message(copy);
  enqueue(peer(copy.peer), Control{kFin, copy.send_id, 0, {}});
  complete_receive(*copy.request, code);
}

// Records the result of a chunk in the SharedCopy.
void Rendezvous::count_chunk(RendezvousCopy& copy, Code code, std::uint64_t bytes) {
  if (code == Code::ok) {
    // release: the bytes before the count; pairs with the acquire in step() on the other side.
    copy.record->done.fetch_add(bytes, std::memory_order_release);
  } else if (code == Code::peer_lost) {
    found_lost = &peer(copy.peer);
  } else {
    copy.record->failed.store(1, std::memory_order_release);
  }
}

void Rendezvous::take_back(RendezvousCopy& copy) {
  SharedCopy& record = *copy.record;
  const std::uint64_t back = record.given_back.load(std::memory_order_acquire);
  if (back == 0) return;
  record.given_back.store(0, std::memory_order_relaxed);
  const std::uint64_t bytes = record.given_back_bytes.load(std::memory_order_relaxed);
  const bool fits = back <= copy.length && bytes <= copy.length - (back - 1);
  count_chunk(copy, fits ? copy_bytes(copy, back - 1, bytes) : Code::corrupt, bytes);
}

// Copies the next chunk of a shared copy; each side has half of a short one. is_alone: the other
// side will hardly help.
void Rendezvous::claim_chunk(RendezvousCopy& copy, bool is_alone) {
  SharedCopy& record = *copy.record;
  std::uint64_t bytes = kAloneBytes;
  if (!is_alone)
    bytes = copy.length >= 2 * CopyPolicy::kSharedPieceBytes
                ? CopyPolicy::kSharedPieceBytes
                : std::max<std::uint64_t>(4096, (copy.length / 2 + 4095) & ~std::uint64_t{4095});
  // relaxed: only the number matters, each byte is claimed once.
  const std::uint64_t offset = record.claimed.fetch_add(bytes, std::memory_order_relaxed);
  if (offset >= copy.length) {
    copy.claims = false;
    return;
  }
  bytes = std::min(bytes, copy.length - offset);
  const Code code = copy_bytes(copy, offset, bytes);
  if (code != Code::ok && copy.is_sender) {
    // The receiver may have the permission that the sender lacks: it gets the chunk, and the sender
    // claims no more.
    copy.claims = false;
    record.given_back_bytes.store(bytes, std::memory_order_relaxed);
    record.given_back.store(offset + 1, std::memory_order_release);
  } else {
    count_chunk(copy, code, bytes);
  }
}

// Ends a shared copy whose bytes have all arrived, or that one side could not copy.
bool Rendezvous::end_if_complete(RendezvousCopy& copy) {
  Request& request = *copy.request;
  SharedCopy* record = copy.record;
  const std::uint32_t failed = record->failed.load(std::memory_order_acquire);
  // acquire: all bytes have arrived; pairs with the releases in count_chunk().
  if (failed == 0 && record->done.load(std::memory_order_acquire) < copy.length) return false;
  if (copy.is_sender) {
    record->sender_left.store(1, std::memory_order_release);
    ring_doorbell(*peer(copy.peer).out.sleeping);
    complete(request, failed == 0 ? Code::ok : Code::not_permitted);
    return true;
  }
  ring_doorbell(*peer(copy.peer).out.sleeping);
  closing_records.push_back(copy.record_index);
  count_message(copy);
  complete_receive(request, failed == 0 ? Code::ok : Code::not_permitted);
  return true;
}

bool Rendezvous::step(RendezvousCopy& copy, bool both_ways) {
  if (copy.gets != nullptr) return step_remote(copy);
  SharedCopy* record = copy.record;

  if (record == nullptr) {
    if (!make_room_to_answer(peer(copy.peer))) return false;
    const std::uint64_t bytes = std::min<std::uint64_t>(copy.length - copy.copied, kAloneBytes);
    const Code code = bytes == 0 ? Code::ok : copy_bytes(copy, copy.copied, bytes);
    copy.copied += bytes;
    if (code == Code::peer_lost) found_lost = &this->peer(copy.peer);
    if (code == Code::peer_lost || (code == Code::ok && copy.copied < copy.length)) return false;
    send_fin(copy, code);
    return true;
  }

  if (copy.claims && !(copy.is_sender && both_ways)) claim_chunk(copy, both_ways);
  if (!copy.is_sender) take_back(copy);
  return end_if_complete(copy);
}

}  // namespace weft::tagged
