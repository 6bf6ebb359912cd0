// The owner's side of gets, puts and atomics by message (see Operation): checks what is asked for
// against what this process shares, and does it.
#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/shortage.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {

// True: all of it, and all that the asker takes for the memory's, is shared for this, and starts
// here.
bool OfiFabric::find_registered(const Control& request, std::size_t bytes, bool to_write,
                                std::byte*& start) const noexcept {
  const std::lock_guard lock(memory_lock_);
  const auto found = registrations_.find(request.key);
  if (found == registrations_.end()) return false;
  const Registration& registration = found->second;
  if (to_write && !registration.is_writable) return false;
  const std::uint64_t room = std::max<std::uint64_t>(bytes, room_of(request));
  if (!is_within(request.address, room, registration.address, registration.bytes)) return false;
  start = registration.start + (request.address - registration.address);
  return true;
}

void OfiFabric::reply(const Control& request, Type type, Code code, std::uint64_t bytes) noexcept {
  Control answer{};
  answer.type = type;
  answer.channel = request.channel;
  answer.lane = request.lane;
  answer.code = static_cast<std::uint16_t>(code);
  answer.bytes = bytes;
  send(static_cast<int>(request.from), answer);
}

void OfiFabric::on_get(const Control& request) noexcept {
  std::byte* start = nullptr;
  if (request.channel >= kMaxOperations || !find_registered(request, request.bytes, false, start))
    return reply(request, Type::denied, Code::bad_argument, 0);
  const int peer = static_cast<int>(request.from);
  watch(peer);  // for whoever waits in end_pushes()
  std::deque<Control>& waiting = node(peer).waiting_gets;
  Control rest = request;
  if (waiting.empty() && try_push(rest)) return;
  note_waiting(peer);
  if (or_no_memory([&] {
        waiting.push_back(rest);
        return Code::ok;
      }) != Code::ok)
    reply(request, Type::denied, Code::no_memory, 0);
}

// True: none waits any more.
bool OfiFabric::retry_gets(PeerNode& peer) noexcept {
  while (!peer.waiting_gets.empty()) {
    // Taken out first: should the peer turn out to be lost, the list is emptied.
    Control request = peer.waiting_gets.front();
    peer.waiting_gets.pop_front();
    if (try_push(request)) continue;
    peer.waiting_gets.push_front(request);
    return false;
  }
  return true;
}

// Sends what a get has asked for. False: no room now for the rest, which `request` then names.
bool OfiFabric::try_push(Control& request) noexcept {
  PeerNode& peer = node(static_cast<int>(request.from));
  while (request.bytes > 0) {
    std::byte* start = nullptr;
    if (peer.handle == FI_ADDR_NOTAVAIL) return true;  // it is lost
    if (!find_registered(request, request.bytes, false, start)) {
      reply(request, Type::denied, Code::bad_argument, 0);  // its owner has ended it meanwhile
      return true;
    }
    Push* const taken = take_push(static_cast<int>(request.from));
    if (taken == nullptr) return false;
    Push& push = *taken;
    push.key = request.key;
    const std::size_t part = std::min<std::uint64_t>(request.bytes, part_max_);
    iovec local{start, part};
    fi_msg message{};
    message.msg_iov = &local;
    message.iov_count = 1;
    message.addr = peer.handle;
    message.context = &push.context;
    message.data = immediate_of_get(request.lane, request.channel);
    const ssize_t error = fi_sendmsg(endpoint_->ep(), &message, FI_REMOTE_CQ_DATA | FI_COMPLETION);
    if (error != 0) give_back(push);
    if (error == -FI_EAGAIN) return false;
    if (error != 0) {
      lose(static_cast<int>(request.from), error_text(error));
      return true;
    }
    peer.posted_bytes += part;
    request.address += part;
    request.bytes -= part;
    set_room(request, request.bytes);  // the rest of it was found to be good
  }
  return true;
}

// Every part is checked with all that is still to come, so that what is refused is refused from the
// start. The last one is always answered.
void OfiFabric::on_put(const Control& request, std::span<const std::byte> data) noexcept {
  if (data.empty() || data.size() > request.bytes) return;
  node(static_cast<int>(request.from)).arrived_bytes += data.size();
  std::byte* start = nullptr;
  const bool good = find_registered(request, request.bytes, true, start);
  const std::uint64_t rest = request.bytes - data.size();
  if (good) store(start, data);
  if (!good || rest == 0) reply(request, Type::written, good ? Code::ok : Code::bad_argument, rest);
}

// The owner may poll a word that it waits for.
void OfiFabric::store(std::byte* to, std::span<const std::byte> data) noexcept {
  if (data.size() == sizeof(std::uint64_t) &&
      reinterpret_cast<std::uintptr_t>(to) % sizeof(std::uint64_t) == 0) {
    std::uint64_t word;
    std::memcpy(&word, data.data(), sizeof word);
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  } else {
    std::memcpy(to, data.data(), data.size());
  }
}

// The owner's own atomics are the processor's too, so that all are atomic against each other.
void OfiFabric::on_atomic(const Control& request) noexcept {
  std::byte* start = nullptr;
  if (!find_registered(request, sizeof(std::uint64_t), true, start) ||
      reinterpret_cast<std::uintptr_t>(start) % sizeof(std::uint64_t) != 0)
    return reply(request, Type::denied, Code::bad_argument, 0);
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(start));
  std::uint64_t before = request.compare;
  if (request.type == Type::fetch_add)
    before = word.fetch_add(request.bytes);
  else
    word.compare_exchange_strong(before, request.bytes);
  reply(request, Type::value, Code::ok, before);
}

// Null: no memory, which is tried again as what the provider has no room for.
Push* OfiFabric::take_push(int peer) noexcept {
  if (free_pushes_.empty()) {
    if (or_no_memory([&] {
          make_room(free_pushes_, pushes_.size() + 1);  // so that giving back takes no memory
          free_pushes_.push_back(&pushes_.emplace_back());
          return Code::ok;
        }) != Code::ok)
      return nullptr;
    pushes_.back().context.kind = Context::push;
  }
  Push& push = *free_pushes_.back();
  free_pushes_.pop_back();
  push.context.peer = peer;
  push.key = 0;
  return &push;
}

void OfiFabric::give_back(Push& push) noexcept {
  push.context.peer = -1;
  push.key = 0;
  push.done = nullptr;
  free_pushes_.push_back(&push);
}

// Its connection is closed: nothing of this process's memory is sent any more. The pushes come back
// when the provider has told their end.
void OfiFabric::forget_pushes(int peer) noexcept {
  for (Push& push : pushes_) {
    if (push.context.peer != peer) continue;
    push.key = 0;
    if (push.done != nullptr) push.done->set(Code::peer_lost);
    push.done = nullptr;
  }
  node(peer).waiting_gets.clear();
}

// Waits until the provider sends nothing more of this memory, which nobody can ask for any more. It
// is bounded as a peer that takes nothing is lost.
void OfiFabric::end_pushes(std::uint64_t key) noexcept {
  for (int round = 0;; ++round) {
    {
      const std::lock_guard lock(lock_);
      if (std::none_of(pushes_.begin(), pushes_.end(),
                       [key](const Push& push) { return push.key == key; }))
        return;
      poll_locked();
    }
    // Where it takes long, others want the lock, which does not go to who waited for it first.
    if (round < 64)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace weft::ofi
