// The hot path: posts, completions, credit.
//
// Credit. The receiver has a buffer for each message that a peer may send. The number of buffers
// that it has freed since goes along with its own messages, or in one of their own once half of the
// window is free. The last credit is kept for such a message, which always carries half a window:
// of two sides that send without end, each can always return credit to the other.
#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/verbs/endpoint_impl.hpp"

namespace weft::fabric::verbs {

namespace {

constexpr int kBatch = 32;
constexpr int kMaxBatches = 8;             // of one poll
constexpr std::uint32_t kRarePolls = 32;   // until the clock is read
constexpr std::uint32_t kMakingPolls = 8;  // while links are made
constexpr std::uint64_t kRareNs = 4'000'000;
constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 30;

// Prepares the fields that requests here need, out of a structure of 128 bytes.
void prepare(ibv_send_wr& request, ibv_wr_opcode opcode, ibv_sge* piece) noexcept {
  request.next = nullptr;
  request.sg_list = piece;
  request.num_sge = piece != nullptr ? 1 : 0;
  request.opcode = opcode;
  request.send_flags = 0;
}

Code code_of(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Code::ok;
    case IBV_WC_REM_ACCESS_ERR:
      return Code::not_permitted;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
      return Code::bad_argument;
    default:
      return Code::peer_lost;
  }
}

}  // namespace

// A request that moves nothing of a client's, and completes once what was posted before it has
// arrived.
void VerbsEndpoint::prepare_probe(const VerbsLink& link, ibv_send_wr& request) {
  if (transport_.sent_has_arrived)
    prepare(request, IBV_WR_RDMA_WRITE, nullptr);
  else
    prepare(request, IBV_WR_RDMA_READ, &proof_lands_);
  request.wr.rdma = {link.proof.address, link.proof.rkey};
}

// Posts; under the link's lock, with room in the send queue. Where the completion of a request does
// not say that it has arrived, a probe behind it signals instead.
Code VerbsEndpoint::post(VerbsLink& link, ibv_send_wr& request, const Posted& what,
                         bool is_signalled) {
  is_signalled = is_signalled || ++link.unsignalled >= link.depth / 4 ||
                 link.ring_head - link.signalled_head >= kRingBytes / 4;
  if (!is_signalled || transport_.sent_has_arrived || request.opcode == IBV_WR_RDMA_READ)
    return post_one(link, request, what, is_signalled);
  if (const Code code = post_one(link, request, what, false); code != Code::ok) return code;
  ibv_send_wr probe;
  prepare_probe(link, probe);
  // A failure takes the link down, which ends the request.
  [[maybe_unused]] const Code code = post_one(link, probe, {}, true);
  return Code::ok;
}

Code VerbsEndpoint::post_one(VerbsLink& link, ibv_send_wr& request, const Posted& what,
                             bool is_signalled) {
  request.wr_id = std::uint64_t{link.id} << 32 | link.posted;
  if (is_signalled) {
    request.send_flags |= IBV_SEND_SIGNALED;
    link.unsignalled = 0;
    link.last_signalled = link.posted + 1;
    link.signalled_head = link.ring_head;
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(link.qp, &request, &bad); error != 0) [[unlikely]] {
    log_line(LogLevel::warn, -1, "verbs: {} takes no request: {}", device_->port.device,
             std::strerror(error));
    note_broken(link);
    return Code::peer_lost;
  }
  Posted& slot = link.slots[link.posted % kDepth];
  slot = what;
  slot.ring_end = link.ring_head;
  ++link.posted;
  return Code::ok;
}

// Under the link's lock: it goes down in the next poll. Once for each link: broken_ has room for so
// many, as posting threads cannot go without memory here.
void VerbsEndpoint::note_broken(VerbsLink& link) noexcept {
  if (std::exchange(link.state, VerbsLink::State::broken) == VerbsLink::State::broken) return;
  std::lock_guard lock(deferred_lock_);
  broken_.push_back(link.id);
  has_deferred_.store(true, std::memory_order_release);
}

bool VerbsEndpoint::has_ring(VerbsLink& link, std::size_t bytes) {
  const std::uint64_t before = link.ring_head;
  const bool has = take_ring(link, bytes) != nullptr;
  link.ring_head = before;
  return has;
}

// Bytes of the ring in one piece, or null: there is no room now.
std::byte* VerbsEndpoint::take_ring(VerbsLink& link, std::size_t bytes) {
  bytes = (bytes + 7) & ~std::size_t{7};
  std::uint64_t head = link.ring_head;
  if (head % kRingBytes + bytes > kRingBytes) head += kRingBytes - head % kRingBytes;
  if (head + bytes - link.ring_tail > kRingBytes) return nullptr;
  link.ring_head = head + bytes;
  return link.ring.data + head % kRingBytes;
}

// Outside of the lock: the poster's own. A link that is up and gets none goes down, as it has no
// room: other links have all the memory.
bool VerbsEndpoint::need_ring(VerbsLink& link) noexcept {
  if (link.ring.data != nullptr) return true;
  Block block;
  if (Status status = or_no_memory([&] { return rings_->take(block); }); !status) {
    std::lock_guard lock(link.lock);
    if (link.state != VerbsLink::State::up) return false;
    link.shortage = std::move(status);
    note_broken(link);
    return false;
  }
  link.lock.lock();
  const bool is_first = link.ring.data == nullptr;
  if (is_first) link.ring = block;
  link.lock.unlock();
  if (!is_first) rings_->give(block);
  return true;
}

// The request ends in the next poll.
Code VerbsEndpoint::refuse(VerbsLink& link, WorkRequest& request, Code code) {
  std::lock_guard lock(deferred_lock_);
  if (or_no_memory([&] { refused_.push_back({link.id, &request, code}); }) != Code::ok)
    return Code::no_memory;
  has_deferred_.store(true, std::memory_order_release);
  return Code::ok;
}

// Messages.

// Under the lock; credit and state were checked.
Code VerbsEndpoint::send(VerbsLink& link, MessageKind kind, Bytes head, Bytes body) {
  const std::size_t bytes = sizeof(Head) + head.size() + body.size();
  std::byte inlined[256];
  std::byte* to = inlined;
  const std::uint64_t ring_before = link.ring_head;
  const bool is_inline = bytes <= max_inline_;
  if (!is_inline && (to = take_ring(link, bytes)) == nullptr) return Code::again;
  const std::uint32_t credit = std::min(link.owed, kMostCredit);
  const Head first{static_cast<std::uint16_t>(credit), kind,
                   static_cast<std::uint32_t>(head.size() + body.size())};
  std::memcpy(to, &first, sizeof first);
  if (!head.empty()) std::memcpy(to + sizeof first, head.data(), head.size());
  if (!body.empty()) std::memcpy(to + sizeof first + head.size(), body.data(), body.size());
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(to), static_cast<std::uint32_t>(bytes),
                is_inline ? 0 : link.ring.lkey};
  ibv_send_wr request;
  prepare(request, IBV_WR_SEND, &piece);
  if (is_inline) request.send_flags = IBV_SEND_INLINE;
  const Code code = post(link, request, {}, false);
  if (code != Code::ok) {
    link.ring_head = ring_before;
    return code;
  }
  link.owed -= credit;
  --link.credit;
  return Code::ok;
}

Code VerbsEndpoint::message(Link& base, Bytes head, Bytes body) {
  auto& link = static_cast<VerbsLink&>(base);
  const std::size_t bytes = head.size() + body.size();
  if (bytes > limits_.message_max) return Code::bad_argument;
  if (bytes + sizeof(Head) > max_inline_ && !need_ring(link)) return Code::again;
  std::lock_guard lock(link.lock);
  if (const Code code = link.ready(); code != Code::ok) return code;
  if (link.credit <= 1) return Code::again;
  return send(link, kUser, head, body);
}

// Puts, gets, atomics.

Code VerbsEndpoint::put(Link& base, const void* from, std::size_t bytes, const Key& key,
                        std::uint64_t offset, WorkRequest& request) {
  return transfer(static_cast<VerbsLink&>(base), false,
                  static_cast<std::byte*>(const_cast<void*>(from)), bytes, key, offset, request);
}
Code VerbsEndpoint::get(Link& base, void* to, std::size_t bytes, const Key& key,
                        std::uint64_t offset, WorkRequest& request) {
  return transfer(static_cast<VerbsLink&>(base), true, static_cast<std::byte*>(to), bytes, key,
                  offset, request);
}

Code VerbsEndpoint::transfer(VerbsLink& link, bool is_get, std::byte* local, std::size_t bytes,
                             const Key& key, std::uint64_t offset, WorkRequest& request) {
  if (bytes > kMaxRequestBytes) return Code::bad_argument;
  MemoryKey remote;
  Code code = read_key(key, is_get ? kRead : kWrite, offset, bytes, remote);
  const bool is_inline = !is_get && bytes <= max_inline_;
  const bool is_copied = !is_inline && bytes <= kCopyBytes;
  if (is_copied && !need_ring(link)) return Code::again;
  lib::Registration* memory = nullptr;
  if (code == Code::ok && !is_inline && !is_copied) {
    {
      // Registering without need is slow.
      std::lock_guard lock(link.lock);
      if (const Code ready = link.ready(); ready != Code::ok) return ready;
    }
    const auto acquire = [&] { return registrations_->acquire(local, bytes, is_get, memory); };
    if (Status status = or_no_memory(acquire); !status) {
      log_line(LogLevel::error, -1, "verbs: {}", status.text());
      return status.code();
    }
  }
  link.lock.lock();
  if (const Code ready = link.ready(); ready != Code::ok)
    code = ready;
  else if (code != Code::ok || bytes == 0)
    code = refuse(link, request, code);
  else if (is_inline || is_copied) {
    const std::uint64_t ring_before = link.ring_head;
    std::byte* at = is_copied ? take_ring(link, bytes) : local;
    if (at == nullptr) {
      code = Code::again;
    } else {
      if (is_copied && !is_get) std::memcpy(at, local, bytes);
      ibv_sge piece{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(bytes),
                    is_copied ? link.ring.lkey : 0};
      ibv_send_wr wanted;
      prepare(wanted, is_get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &piece);
      if (is_inline) wanted.send_flags = IBV_SEND_INLINE;
      wanted.wr.rdma = {remote.address + offset, remote.rkey};
      Posted what{};
      what.request = &request;
      what.is_last = true;
      if (is_get) {
        what.copy_to = local;
        what.copy_from = at;
        what.copy_bytes = static_cast<std::uint32_t>(bytes);
      }
      code = post(link, wanted, what, true);
      if (code != Code::ok) link.ring_head = ring_before;
    }
  } else {
    const std::uint32_t before = link.posted;
    link.parts = {&request,
                  memory,
                  is_get,
                  reinterpret_cast<std::uintptr_t>(local),
                  remote.address + offset,
                  bytes,
                  remote.rkey};
    code = post_parts(link);
    if (code == Code::ok || link.posted != before) {
      code = Code::ok;  // the code that broke the link ends the request
      memory = nullptr;
    } else {
      link.parts = {};
    }
  }
  link.lock.unlock();
  if (memory != nullptr) registrations_->release(memory);
  return code;
}

// A message as far as room and credit go: it takes a receive of the peer, for the notification,
// which is a message of its own where the transport has none.
Code VerbsEndpoint::write(Link& base, Bytes from, const Registration& source, const Key& key,
                          std::uint64_t offset, std::uint32_t number, WorkRequest& request) {
  auto& link = static_cast<VerbsLink&>(base);
  if (from.empty() || from.size() > kPartBytes || source.handle == nullptr)
    return Code::bad_argument;
  MemoryKey remote;
  if (const Code code = read_key(key, kWrite, offset, from.size(), remote); code != Code::ok)
    return code;
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(from.data()),
                static_cast<std::uint32_t>(from.size()),
                static_cast<const ibv_mr*>(source.handle)->lkey};
  ibv_send_wr wanted;
  prepare(wanted, transport_.has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
          &piece);
  if (from.size() <= max_inline_) wanted.send_flags = IBV_SEND_INLINE;
  wanted.imm_data = htobe32(number);
  wanted.wr.rdma = {remote.address + offset, remote.rkey};
  Posted what{};
  what.request = &request;
  what.is_last = true;
  constexpr std::size_t kTold = sizeof(Head) + sizeof(Written);
  const bool is_told = !transport_.has_immediate;
  const bool takes_ring = is_told && kTold > max_inline_;
  if (takes_ring && !need_ring(link)) return Code::again;
  std::lock_guard lock(link.lock);
  if (const Code ready = link.ready(); ready != Code::ok) return ready;
  if (link.credit <= 1 || (takes_ring && !has_ring(link, kTold))) return Code::again;
  if (!is_told) {
    const Code code = post(link, wanted, what, false);
    if (code == Code::ok) --link.credit;
    return code;
  }
  if (const Code code = post_one(link, wanted, what, false); code != Code::ok) return code;
  const Written told{number, static_cast<std::uint32_t>(from.size())};
  // A failure takes the link down, which ends the request.
  [[maybe_unused]] const Code code = send(link, kWritten, std::as_bytes(std::span(&told, 1)), {});
  return Code::ok;
}

// Under the lock: posts as many parts as there is room for.
Code VerbsEndpoint::post_parts(VerbsLink& link) {
  Parts& parts = link.parts;
  while (parts.request != nullptr && link.room() >= link.least.request) {
    const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(parts.left, part_bytes_));
    ibv_sge piece{parts.here, bytes, parts.memory->lkey()};
    ibv_send_wr wanted;
    prepare(wanted, parts.is_get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &piece);
    wanted.wr.rdma = {parts.there, parts.rkey};
    Posted what{};
    what.request = parts.request;
    what.is_last = bytes == parts.left;
    what.memory = what.is_last ? parts.memory : nullptr;
    if (const Code code = post(link, wanted, what, true); code != Code::ok) return code;
    parts.here += bytes;
    parts.there += bytes;
    parts.left -= bytes;
    if (what.is_last) parts = {};
  }
  return Code::ok;
}

Code VerbsEndpoint::atomic(Link& base, Atomic kind, const Key& key, std::uint64_t offset,
                           std::uint64_t operand, std::uint64_t compare, std::uint64_t& previous,
                           WorkRequest& request) {
  if (!limits_.atomics) return Code::unsupported;
  auto& link = static_cast<VerbsLink&>(base);
  MemoryKey remote;
  Code code = read_key(key, kAtomic, offset, 8, remote);
  if (!need_ring(link)) return Code::again;
  std::lock_guard lock(link.lock);
  if (const Code ready = link.ready(); ready != Code::ok) return ready;
  if (code != Code::ok) return refuse(link, request, code);
  const std::uint64_t ring_before = link.ring_head;
  std::byte* at = take_ring(link, 8);
  if (at == nullptr) return Code::again;
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(at), 8, link.ring.lkey};
  ibv_send_wr wanted;
  const bool adds = kind == Atomic::fetch_add;
  prepare(wanted, adds ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP, &piece);
  wanted.wr.atomic = {remote.address + offset, adds ? operand : compare, adds ? 0 : operand,
                      remote.rkey};
  Posted what{};
  what.request = &request;
  what.is_last = true;
  what.copy_to = reinterpret_cast<std::byte*>(&previous);
  what.copy_from = at;
  what.copy_bytes = 8;
  code = post(link, wanted, what, true);
  if (code != Code::ok) link.ring_head = ring_before;
  return code;
}

// Completions.

// Under the lock: everything up to this request is done, and this one so. Where sent requests may
// not have arrived, a failure leaves it open for those before it.
void VerbsEndpoint::on_sent(VerbsLink& link, std::uint32_t number, ibv_wc_status status,
                            Completed& completed) {
  if (number - link.completed >= link.posted - link.completed) return;  // none of ours
  while (link.completed != number + 1) {
    Posted& slot = link.slots[link.completed % kDepth];
    Code code = link.completed == number                                  ? code_of(status)
                : status == IBV_WC_SUCCESS || transport_.sent_has_arrived ? Code::ok
                                                                          : Code::peer_lost;
    ++link.completed;
    link.ring_tail = slot.ring_end;
    if (slot.request == nullptr) continue;
    if (code != Code::ok && link.refused != slot.request) {
      link.refused = slot.request;
      link.refused_code = code;
    }
    if (!slot.is_last) continue;
    if (link.refused == slot.request) code = link.refused_code;
    if (code == Code::ok && slot.copy_bytes > 0)
      std::memcpy(slot.copy_to, slot.copy_from, slot.copy_bytes);
    if (slot.memory != nullptr) registrations_->release(slot.memory);
    completed.add(slot.request, code);
    slot.request = nullptr;
  }
}

void VerbsEndpoint::on_completion(const ibv_wc& completion, Events& events) {
  if ((completion.wr_id & kReceiveBit) != 0) return on_received(completion, events);
  VerbsLink* link = find(static_cast<std::uint32_t>(completion.wr_id >> 32));
  if (link == nullptr) return;
  Completed completed;
  {
    std::lock_guard lock(link->lock);
    on_sent(*link, static_cast<std::uint32_t>(completion.wr_id), completion.status, completed);
    if (link->parts.request != nullptr && link->state == VerbsLink::State::up) [[maybe_unused]]
      const Code code = post_parts(*link);  // a failure takes the link down
  }
  if (completion.status != IBV_WC_SUCCESS && !link->is_ending)
    take_down(*link, ibv_wc_status_str(completion.status));
  if (link->spoke_ns != 0 && !link->is_ending) [[unlikely]]
    return on_heard(*link, events);  // there are no requests yet
  completed.report();
}

void VerbsEndpoint::on_received(const ibv_wc& completion, Events& events) {
  const auto index = static_cast<std::uint32_t>(completion.wr_id & ~kReceiveBit);
  const auto found = by_qp_.find(completion.qp_num);
  if (receives_ == nullptr) {
    // Of a queue pair that is no more, whose buffers have been taken back.
    if (found == by_qp_.end() || receivers_[index] != found->second->id) return;
    // A queue pair that failed gives its receives back, and takes none.
    if (completion.status != IBV_WC_SUCCESS || found->second->is_ending) {
      free_receive(index);
      if (!found->second->is_ending) take_down(*found->second, "its queue pair has failed");
      return;
    }
  }
  if (completion.status != IBV_WC_SUCCESS || found == by_qp_.end()) return post_receive(index);
  VerbsLink& link = *found->second;
  const std::uint32_t id = link.id;
  const std::byte* bytes = received_into_[index].data;
  Head head;
  if (link.is_ending) return post_receive(index);
  if (link.spoke_ns != 0) [[unlikely]] {
    on_heard(link, events);
    if (find(id) != &link) return post_receive(index);  // closed by the client
  }
  const bool is_write = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  if (link.expected == 0 || (!is_write && !read_head(bytes, completion.byte_len, head))) {
    link.why = Code::corrupt;
    take_down(link, link.expected == 0 ? "more messages than it has room for"
                                       : "what comes is no message");
    return post_receive(index);
  }
  --link.expected;
  if (is_write) {
    events.on_written(link, be32toh(completion.imm_data), completion.byte_len);
    post_receive(index);
    if (find(id) == &link) owe(link);  // else closed by the client
    return;
  }
  if (!take_credit(link, head)) {
    link.why = Code::corrupt;
    take_down(link, "more credit than there can be");
    return post_receive(index);
  }
  if (head.kind != kCredit) {
    if (head.kind == kUser) {
      events.on_message(link, {bytes + sizeof head, head.length});
    } else {
      Written told;
      std::memcpy(&told, bytes + sizeof head, sizeof told);
      events.on_written(link, told.number, told.bytes);
    }
    if (find(id) != &link) return post_receive(index);  // closed by the client
  }
  post_receive(index);
  owe(link);
}

bool VerbsEndpoint::take_credit(VerbsLink& link, const Head& head) {
  bool is_answering;
  {
    std::lock_guard lock(link.lock);
    if (link.credit + head.credit > kMostCredit) return false;
    link.credit += head.credit;
    is_answering = link.state == VerbsLink::State::answering;
  }
  if (is_answering) become_up(link);  // the peer has the connection, or it could not send
  return true;
}

// A message of the peer has been handled, and its buffer is free.
void VerbsEndpoint::owe(VerbsLink& link) {
  std::uint32_t more = 1;
  if (++link.received >= 4 * link.window && link.window < max_window_) {
    link.received = 0;
    if (or_no_memory([&] { return make_receives(num_needed_ + link.window); })) {
      num_needed_ += link.window;
      give_receives(link, link.window);
      more += link.window;
      link.window *= 2;
    }
  }
  link.expected += more;
  {
    std::lock_guard lock(link.lock);
    link.owed += more;
    if (link.owed < link.window / 2) return;
  }
  if (std::exchange(link.is_owing, true)) return;
  owing_.push_back(link.id);
}

// Sends credit to peers that no other message has carried it to.
void VerbsEndpoint::pay() {
  for (std::size_t i = 0; i < owing_.size();) {
    VerbsLink* link = find(owing_[i]);
    bool is_done = link == nullptr || link->is_ending;
    // Where nothing is sent inline, credit takes memory, too.
    const bool has_memory = is_done || sizeof(Head) <= max_inline_ || need_ring(*link);
    if (!is_done && has_memory) {
      std::lock_guard lock(link->lock);
      is_done = link->owed < link->window / 2 || link->state == VerbsLink::State::broken;
      if (!is_done && link->credit > 0 && link->room() >= link->least.credit)
        is_done = send(*link, kCredit, {}, {}) != Code::again;
    }
    if (!is_done) {
      ++i;
      continue;
    }
    if (link != nullptr) link->is_owing = false;
    owing_[i] = owing_.back();
    owing_.pop_back();
  }
}

bool VerbsEndpoint::poll(Events& events) {
  bool any = false;
  ibv_wc completions[kBatch];
  for (int batch = 0; batch < kMaxBatches; ++batch) {
    // Completions that a close() or arm() has read come first, and in between.
    while (num_unstashed_ < stash_.size()) {
      const ibv_wc completion = stash_[num_unstashed_++];
      on_completion(completion, events);
      any = true;
    }
    num_unstashed_ = 0;
    stash_.clear();
    const int count = ibv_poll_cq(queue_, kBatch, completions);
    for (int i = 0; i < count; ++i) on_completion(completions[i], events);
    any |= count > 0;
    if (count < kBatch) break;
  }
  if (!owing_.empty()) pay();
  // acquire: pairs with the threads that have deferred something.
  if (has_deferred_.load(std::memory_order_acquire) || !ending_.empty())
    any |= poll_deferred(events);
  if (is_urgent_ || ++num_polls_ >= (making_.empty() ? kRarePolls : kMakingPolls)) [[unlikely]] {
    num_polls_ = 0;
    const std::uint64_t now = coarse_now_ns();
    if (is_urgent_ || !making_.empty() || now > last_rare_ns_ + kRareNs) {
      last_rare_ns_ = now;
      is_urgent_ = false;
      any |= poll_rarely(events);
    }
  }
  return any;
}

}  // namespace weft::fabric::verbs
