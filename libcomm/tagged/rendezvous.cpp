// Announced messages. The sender says where the data are (kAnnounce); once matched, the receiver
// fetches them. Those that do not lie in one block, at either side, go through the ring. Long ones
// are copied by both sides at once: the receiver answers with kReady, and both claim pieces of a
// SharedCopy until none is left, so that the copy takes half the time when the sender waits too,
// and is finished by the receiver alone when it doesn't. Where the kernel refuses such copies the
// receiver asks for the data through the ring (kReady with kStreamed).
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"
#include "weft/copy.hpp"

namespace weft::tagged {

void RequestTable::make_room() {
  if (!free_.empty()) return;
  weft::make_room(slots_);
  if (free_.capacity() <= slots_.size()) free_.reserve(slots_.capacity());
}

std::uint64_t RequestTable::add(Request& request) noexcept {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slots_[index].request = &request;
  return std::uint64_t{slots_[index].generation} << 32 | index;
}

Request* RequestTable::find(std::uint64_t id, int peer) const noexcept {
  const auto index = static_cast<std::uint32_t>(id);
  if (index >= slots_.size() || slots_[index].generation != id >> 32) return nullptr;
  Request* request = slots_[index].request;
  return request != nullptr && request->peer == peer ? request : nullptr;
}

void RequestTable::remove(std::uint64_t id) noexcept {
  const auto index = static_cast<std::uint32_t>(id);
  slots_[index].request = nullptr;
  ++slots_[index].generation;
  free_.push_back(index);
}

bool Engine::Impl::announce(Peer& peer, Request& request) {
  if (or_no_memory([&] { sends.make_room(); }) != Code::ok) return wait_for_memory(peer);
  peer.short_send_ns = 0;
  std::byte* to = peer.out.reserve(sizeof(Announce));
  if (to == nullptr) return false;
  MemoryName memory{};
  if (request.packer != nullptr) {
    // Nowhere: it goes through the ring.
  } else if (!peer.remote) {
    memory = local->describe(request.buffer, request.length);
  } else if (request.length > 0) {
    // What cannot be shared goes through the ring: the receiver sees it from the region.
    if (Status status = peer.lanes->remote()->share_once(request.buffer, request.length, memory);
        !status)
      memory = {};
    else
      shared.tell({Notice::Kind::shared, peer.rank, request.buffer, request.length});
    request.stream_id = number_of(memory);
  }
  request.id = sends.add(request);
  request.phase = kAnnounced;
  const Announce message{request.length, memory.address, request.id, memory.region, memory.extra};
  std::memcpy(to, &message, sizeof message);
  peer.out.publish(kAnnounce, sizeof message, envelope(request.context, request.tag));
  return true;
}

// The receiver needs the announced data no more.
void Engine::Impl::end_share(Request& request) {
  Peer& peer = this->peer(request.peer);
  if (!peer.remote || request.stream_id == 0) return;
  const MemoryName memory = named(0, 0, std::exchange(request.stream_id, 0));
  if (Status status = peer.lanes->unshare(memory); !status)
    log_line(LogLevel::debug, job.rank(), "cannot unshare a message's memory: {}", status.text());
}

// False: it has to wait for memory.
bool Engine::Impl::on_announce(Peer& peer, const Entry& entry) {
  Announce message;
  if (entry.length != sizeof message) {
    broken(peer, "an announcement");
    return true;
  }
  std::memcpy(&message, entry.data, sizeof message);
  const auto context = static_cast<std::uint32_t>(entry.immediate >> 32);
  const auto tag = static_cast<std::int32_t>(entry.immediate);
  if (Request* request = matcher.take_posted(peer.rank, context, tag)) {
    fetch(*request, peer.rank, tag, message.length,
          {message.address, message.length, message.region, message.extra}, message.send_id);
    return true;
  }
  Unexpected* waiting = allocate_for(peer, 0);
  if (waiting == nullptr) return peer.lost;
  waiting->source = peer.rank;
  waiting->tag = tag;
  waiting->context = context;
  waiting->announced = true;
  waiting->bytes = message.length;
  waiting->address = message.address;
  waiting->send_id = message.send_id;
  waiting->region = message.region;
  waiting->extra = message.extra;
  matcher.add_unexpected(*waiting);
  return true;
}

std::uint32_t Engine::Impl::take_record() {
  // Only when there is no other: looking costs a cache line from the sender.
  for (std::size_t i = 0; free_records.size() < 4 && i < closing_records.size();) {
    // acquire: the sender's last look at the record; pairs with the release in step().
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

void Engine::Impl::fetch(Request& request, int source, std::int32_t tag, std::uint64_t length,
                         const MemoryName& memory, std::uint64_t send_id) {
  Peer& peer = this->peer(source);
  request.peer = source;
  request.tag = tag;
  request.received = length;
  request.phase = kCopying;
  const std::uint64_t wanted = std::min<std::uint64_t>(length, request.length);
  if (connect(peer) == Code::peer_lost) return complete(request, Code::peer_lost);
  Transfer transfer{};
  transfer.request = &request;
  transfer.remote = memory;
  transfer.remote.bytes = wanted;
  transfer.length = wanted;
  transfer.send_id = send_id;
  transfer.peer = source;
  transfer.claims = true;
  const bool can_copy = !peer.remote && local->can_copy(source);
  const bool is_in_reach = memory.region != 0 || (can_copy && memory.address != 0);
  if (wanted > 0 && (!is_in_reach || request.packer != nullptr)) return stream_instead(transfer);
  if (wanted > 0 && peer.remote) {
    transfer.gets = free_gets.back();
    free_gets.pop_back();
    transfer.gets->code = Code::ok;
  }
  if (can_copy && peer.copies.is_shared(wanted)) share_copy(peer, transfer);
  transfers.push_back(transfer);
}

// Asks the sender to take part in the copy, if there is a record for it.
void Engine::Impl::share_copy(Peer& peer, Transfer& transfer) {
  transfer.record_index = take_record();
  if (transfer.record_index == kStreamed) return;
  SharedCopy& record = *local->own_copy(transfer.record_index);
  // relaxed: the ring entry below publishes it.
  for (auto* word : {&record.claimed, &record.done, &record.given_back})
    word->store(0, std::memory_order_relaxed);
  record.failed.store(0, std::memory_order_relaxed);
  record.sender_left.store(0, std::memory_order_relaxed);
  transfer.record = &record;
  const MemoryName mine = local->describe(transfer.request->buffer, transfer.length);
  Control control{kReady, 0, sizeof(Ready), {}};
  control.ready = {transfer.length,       mine.address, transfer.send_id, 0,
                   transfer.record_index, mine.region};
  enqueue(peer, control);
}

// The bytes are not within reach, or do not lie in one block: ask for the data through the ring.
void Engine::Impl::stream_instead(Transfer& transfer) {
  Request& request = *transfer.request;
  request.progress_bytes = 0;
  request.id = receives.add(request);
  Control control{kReady, 0, sizeof(Ready), {}};
  control.ready = {transfer.length, 0, transfer.send_id, request.id, kStreamed, 0};
  enqueue(peer(transfer.peer), control);
}

void Engine::Impl::on_ready(Peer& peer, const Entry& entry) {
  Ready ready;
  if (entry.length != sizeof ready) return broken(peer, "an answer");
  std::memcpy(&ready, entry.data, sizeof ready);
  Request* request = sends.find(ready.send_id, peer.rank);
  if (request == nullptr || ready.length > request->length)
    return broken(peer, "the number of a message");
  SharedCopy* record = nullptr;
  if (ready.record != kStreamed) {
    if (!peer.remote && request->packer == nullptr)
      record = local->peer_copy(peer.rank, ready.record);
    if (record == nullptr) return broken(peer, "the number of a copy");
  }
  sends.remove(ready.send_id);
  end_share(*request);
  if (record == nullptr) {
    request->phase = kStreaming;
    request->progress_bytes = 0;
    request->received = ready.length;
    request->stream_id = ready.receive_id;
    enqueue(peer, *request);
    return;
  }
  request->phase = kCopying;
  Transfer transfer{};
  transfer.request = request;
  transfer.record = record;
  transfer.remote = {ready.address, ready.length, ready.region, 0};
  transfer.length = ready.length;
  transfer.peer = peer.rank;
  transfer.is_sender = true;
  transfer.claims = local->can_copy(peer.rank);
  transfers.push_back(transfer);
}

// kFinished and kWithdrawn: an announced message is the sender's again.
void Engine::Impl::on_over(Peer& peer, const Entry& entry, Code code) {
  Request* request = sends.find(entry.immediate, peer.rank);
  if (request == nullptr) return broken(peer, "the number of a message");
  sends.remove(entry.immediate);
  end_share(*request);
  complete(*request, code);
}

void Engine::Impl::on_stream(Peer& peer, const Entry& entry) {
  Request* request = receives.find(entry.immediate, peer.rank);
  const std::uint64_t wanted =
      request == nullptr ? 0 : std::min<std::uint64_t>(request->received, request->length);
  if (request == nullptr || entry.length > wanted - request->progress_bytes)
    return broken(peer, "the number of a streamed message");
  store(*request, request->progress_bytes, entry.data, entry.length);
  request->progress_bytes += entry.length;
  if (request->progress_bytes < wanted) return;
  receives.remove(entry.immediate);
  complete_receive(*request, Code::ok);
}

// Takes back a send. What is in the ring stays there.
bool Engine::Impl::withdraw(Request& request) {
  Peer& peer = this->peer(request.peer);
  if (request.phase == kAnnounced && make_room(peer))
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

// A message that has matched is answered as if nothing had been said.
void Engine::Impl::on_withdraw(Peer& peer, const Entry& entry) {
  Unexpected* message = matcher.find_announced(peer.rank, entry.immediate);
  if (message == nullptr) return;
  matcher.remove_unexpected(*message);
  matcher.release(message);
  enqueue(peer, Control{kWithdrawn, entry.immediate, 0, {}});
}

void Engine::Impl::run_transfers() {
  // Receivers work from the oldest, senders from the newest, so that the two sides of a stream of
  // messages mostly copy different ones. One piece each, then back to the rings.
  for (std::size_t i = 0; i < transfers.size();) {
    if (step(transfers[i])) {
      transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  // Not in between: this ends transfers, too.
  if (Peer* peer = std::exchange(found_lost, nullptr)) end_of(*peer);
}

bool Engine::Impl::has_copies() const noexcept {
  for (const Transfer& transfer : transfers) {
    if (transfer.gets != nullptr) {
      // With none on its way nothing would wake us.
      if (std::none_of(std::begin(transfer.gets->busy), std::end(transfer.gets->busy),
                       [](bool busy) { return busy; }))
        return true;
    } else if (transfer.record == nullptr || transfer.claims) {
      return true;
    }
  }
  return false;
}

// Several gets at once, so that one's answer is on its way while the next is asked for.
bool Engine::Impl::step_remote(Transfer& transfer) {
  Request& request = *transfer.request;
  Peer& peer = this->peer(transfer.peer);
  Gets& gets = *transfer.gets;
  bool busy = false;
  for (int i = 0; i < Gets::kMax; ++i) {
    if (gets.busy[i]) {
      if (!gets.pieces[i].is_done()) {
        busy = true;
        continue;
      }
      gets.busy[i] = false;
      if (gets.code == Code::ok) gets.code = gets.pieces[i].code();
    }
    if (gets.code != Code::ok || transfer.copied == transfer.length) continue;
    const std::uint64_t bytes =
        std::min<std::uint64_t>(transfer.length - transfer.copied, peer.lanes->limits().piece_max);
    gets.pieces[i].reset();
    peer.lanes->start_get(transfer.peer, transfer.remote, transfer.copied,
                          static_cast<std::byte*>(request.buffer) + transfer.copied, bytes,
                          gets.pieces[i]);
    if (gets.pieces[i].is_done() && gets.pieces[i].code() == Code::again) return false;
    gets.busy[i] = busy = true;
    transfer.copied += bytes;
  }
  if (busy || (gets.code == Code::ok && transfer.copied < transfer.length)) return false;
  if (!make_room_to_answer(peer)) return false;
  const Code code = gets.code;
  if (code == Code::peer_lost) {
    found_lost = &peer;
    return false;
  }
  free_gets.push_back(&gets);
  end_fetch(transfer, code);
  return true;
}

Code Engine::Impl::copy(const Transfer& transfer, std::uint64_t offset, std::uint64_t bytes) {
  auto* here = static_cast<std::byte*>(transfer.request->buffer) + offset;
  return transfer.is_sender ? local->put(transfer.peer, transfer.remote, offset, here, bytes)
                            : local->get(transfer.peer, transfer.remote, offset, here, bytes);
}

void Engine::Impl::note_copied(const Transfer& transfer) {
  peer(transfer.peer).in.stats.row().add(stats::Counter::copied_bytes, transfer.length);
}

// The receiver, which copied alone, has all it wants.
void Engine::Impl::end_fetch(const Transfer& transfer, Code code) {
  note_copied(transfer);
  enqueue(peer(transfer.peer), Control{kFinished, transfer.send_id, 0, {}});
  complete_receive(*transfer.request, code);
}

// How the copy of a piece went.
void Engine::Impl::count_copied(Transfer& transfer, Code code, std::uint64_t bytes) {
  if (code == Code::ok) {
    // release: the bytes before the count; pairs with the acquire in step() on the other side.
    transfer.record->done.fetch_add(bytes, std::memory_order_release);
  } else if (code == Code::peer_lost) {
    found_lost = &peer(transfer.peer);
  } else {
    transfer.record->failed.store(1, std::memory_order_release);
  }
}

// A piece that the sender cannot copy. It claims no more.
void Engine::Impl::give_back(SharedCopy& record, std::uint64_t offset, std::uint64_t bytes) {
  record.given_back_bytes.store(bytes, std::memory_order_relaxed);
  record.given_back.store(offset + 1, std::memory_order_release);
}

void Engine::Impl::take_back(Transfer& transfer) {
  SharedCopy& record = *transfer.record;
  const std::uint64_t back = record.given_back.load(std::memory_order_acquire);
  if (back == 0) return;
  record.given_back.store(0, std::memory_order_relaxed);
  const std::uint64_t bytes = record.given_back_bytes.load(std::memory_order_relaxed);
  const bool fits = back <= transfer.length && bytes <= transfer.length - (back - 1);
  count_copied(transfer, fits ? copy(transfer, back - 1, bytes) : Code::corrupt, bytes);
}

// Copies a piece of a shared copy: of a short one each side has half.
void Engine::Impl::claim(Transfer& transfer) {
  SharedCopy& record = *transfer.record;
  std::uint64_t bytes =
      transfer.length >= 2 * CopyPolicy::kSharedPieceBytes
          ? CopyPolicy::kSharedPieceBytes
          : std::max<std::uint64_t>(4096, (transfer.length / 2 + 4095) & ~std::uint64_t{4095});
  // relaxed: only the number matters, each byte is claimed once.
  const std::uint64_t offset = record.claimed.fetch_add(bytes, std::memory_order_relaxed);
  if (offset >= transfer.length) {
    transfer.claims = false;
    return;
  }
  bytes = std::min(bytes, transfer.length - offset);
  const Code code = copy(transfer, offset, bytes);
  if (code != Code::ok && transfer.is_sender) {
    // The receiver may be allowed what we are not.
    transfer.claims = false;
    give_back(record, offset, bytes);
  } else {
    count_copied(transfer, code, bytes);
  }
}

bool Engine::Impl::step(Transfer& transfer) {
  if (transfer.gets != nullptr) return step_remote(transfer);
  Request& request = *transfer.request;
  SharedCopy* record = transfer.record;

  if (record == nullptr) {
    if (!make_room_to_answer(peer(transfer.peer))) return false;
    const std::uint64_t bytes = std::min<std::uint64_t>(transfer.length - transfer.copied,
                                                        4 * CopyPolicy::kSharedPieceBytes);
    const Code code = bytes == 0 ? Code::ok : copy(transfer, transfer.copied, bytes);
    transfer.copied += bytes;
    if (code == Code::peer_lost) found_lost = &this->peer(transfer.peer);
    if (code == Code::peer_lost || (code == Code::ok && transfer.copied < transfer.length))
      return false;
    end_fetch(transfer, code);
    return true;
  }

  if (transfer.claims) claim(transfer);
  if (!transfer.is_sender) take_back(transfer);

  const std::uint32_t failed = record->failed.load(std::memory_order_acquire);
  // acquire: all bytes have arrived; pairs with the releases in count_copied().
  if (failed == 0 && record->done.load(std::memory_order_acquire) < transfer.length) return false;
  if (transfer.is_sender) {
    record->sender_left.store(1, std::memory_order_release);
    ring_doorbell(*peer(transfer.peer).out.sleeping);
    complete(request, failed == 0 ? Code::ok : Code::not_permitted);
    return true;
  }
  ring_doorbell(*peer(transfer.peer).out.sleeping);
  closing_records.push_back(transfer.record_index);
  note_copied(transfer);
  complete_receive(request, failed == 0 ? Code::ok : Code::not_permitted);
  return true;
}

}  // namespace weft::tagged
