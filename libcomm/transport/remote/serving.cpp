// The owner's side: what peers may reach, and their gets, puts and atomics, each checked against
// what is shared. Shared memory has a random key of its own, so that nobody who was not told finds
// it. All of it happens under the lock, so that nothing is touched on a peer's behalf any more once
// unshare() or release() has returned.
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/mapped.hpp"
#include "base/mix.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "transport/remote/remote_lanes.hpp"

namespace weft::transport {

namespace {

MemoryName remote_memory(std::uint64_t key, std::uint64_t address, std::size_t bytes) {
  return {address, bytes, static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

// The owner may poll a word that it waits for.
void store(std::byte* to, fabric::Bytes data) {
  if (data.size() == sizeof(std::uint64_t) &&
      reinterpret_cast<std::uintptr_t>(to) % sizeof(std::uint64_t) == 0) {
    std::uint64_t word;
    std::memcpy(&word, data.data(), sizeof word);
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  } else {
    std::memcpy(to, data.data(), data.size());
  }
}

}  // namespace

// Whoever is told a key must not learn the next one from it: a second secret lies between.
std::uint64_t RemoteLanes::next_key() {
  for (;;) {
    const std::uint64_t key = mix(mix(next_key_ += kMixStep) ^ key_secret_);
    // The lower half is a region, and 0 means that there is none.
    if (static_cast<std::uint32_t>(key) != 0 && !registered_.contains(key)) return key;
  }
}

Status RemoteLanes::allocate(std::size_t bytes, void*& address, MemoryName& memory) {
  if (bytes == 0 || bytes > (std::size_t{1} << 46))
    return {Code::bad_argument, fmt::format("cannot allocate {} bytes", bytes)};
  Mapping mapping;
  if (Status status = mapping.map((bytes + 4095) / 4096 * 4096); !status) return status;
  address = mapping.data();
  std::unique_lock lock(lock_);
  if (Status status = share_as(address, bytes, true, memory); !status) return status;
  const Code code = or_no_memory([&] {
    allocated_.try_emplace(reinterpret_cast<std::uintptr_t>(address), std::move(mapping),
                           number_of(memory));
    return Code::ok;
  });
  if (code != Code::ok) end_sharing(number_of(memory), lock);
  return code;
}

Status RemoteLanes::release(void* address) {
  Mapping taken;  // unmapped without the lock
  std::unique_lock lock(lock_);
  const auto found = allocated_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == allocated_.end())
    return {Code::bad_argument, "this address was not allocated here, or is free already"};
  taken = std::move(found->second.first);
  const std::uint64_t key = found->second.second;
  allocated_.erase(found);
  end_sharing(key, lock);
  return {};
}

Status RemoteLanes::share(void* address, std::size_t bytes, MemoryName& memory) {
  memory = describe(address, bytes);
  if (memory.region != 0) return {};
  bool is_writable = false;
  if (Status status = find_writable(address, bytes, is_writable); !status) return status;
  const std::lock_guard lock(lock_);
  return share_as(address, bytes, is_writable, memory);
}

Status RemoteLanes::share_once(void* address, std::size_t bytes, MemoryName& memory) {
  const std::lock_guard lock(lock_);
  return share_as(address, bytes, false, memory);
}

Status RemoteLanes::share_as(void* address, std::size_t bytes, bool is_writable,
                             MemoryName& memory) {
  Registered made{.start = static_cast<std::byte*>(address),
                  .bytes = bytes,
                  .is_writable = is_writable,
                  .named = reinterpret_cast<std::uintptr_t>(address)};
  std::uint64_t key = 0;
  if (is_one_sided()) {
    const fabric::Limits& limits = endpoint_->limits();
    const std::uint32_t rights = (limits.gets ? fabric::kRead : 0u) |
                                 (limits.puts && is_writable ? fabric::kWrite : 0u) |
                                 (limits.atomics && is_writable ? fabric::kAtomic : 0u);
    if (Status status = endpoint_->register_memory(address, bytes, rights, made.registration);
        !status)
      return status;
    key = fabric::parts_of(made.registration.key).secret;
    made.named = fabric::parts_of(made.registration.key).address;
    if (static_cast<std::uint32_t>(key) == 0) {  // region 0 would mean "not shared"
      endpoint_->deregister(made.registration);
      return {Code::no_memory, fmt::format("{} gave a key that Weft cannot use", name())};
    }
  } else {
    key = next_key();
  }
  const Code code = or_no_memory([&] {
    registered_.emplace(key, made);
    return Code::ok;
  });
  if (code != Code::ok) {
    if (is_one_sided()) endpoint_->deregister(made.registration);
    return code;
  }
  memory = remote_memory(key, made.named, bytes);
  return {};
}

// The fabric reaches registered memory by itself.
bool RemoteLanes::is_one_sided() const {
  const fabric::Limits& limits = endpoint_->limits();
  return limits.gets || limits.puts || limits.atomics;
}

Status RemoteLanes::unshare(const MemoryName& memory) {
  std::unique_lock lock(lock_);
  const auto found = registered_.find(number_of(memory));
  if (found == registered_.end() || found->second.is_ending)
    return {Code::bad_argument, "this memory is not shared"};
  const auto owner = allocated_.find(reinterpret_cast<std::uintptr_t>(found->second.start));
  // What is allocated is shared until release().
  if (owner == allocated_.end() || owner->second.second != found->first)
    end_sharing(number_of(memory), lock);
  return {};
}

// Nobody can ask for it any more; what the fabric still reads there it is done with, or its link is
// gone, when this returns.
void RemoteLanes::end_sharing(std::uint64_t key, std::unique_lock<std::mutex>& lock) {
  Registered& memory = registered_.at(key);
  memory.is_ending = true;
  for (const std::uint64_t limit = now_ns() + silence_ns_ / 2; memory.num_lent > 0;) {
    poll_locked();
    if (memory.num_lent == 0) break;
    // Peers that do not take their answers ask again over another link, and are refused.
    if (now_ns() > limit) {
      for (const Lent& lent : lent_)
        if (lent.memory == &memory) drop_link(*lent.peer);
      break;
    }
    lock.unlock();
    sched_yield();
    lock.lock();
  }
  fabric::Registration registration = memory.registration;
  registered_.erase(key);
  if (is_one_sided()) endpoint_->deregister(registration);
}

MemoryName RemoteLanes::describe(const void* address, std::size_t bytes) const noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(lock_);
  auto after = allocated_.upper_bound(start);
  if (after != allocated_.begin()) {
    --after;
    const std::uint64_t key = after->second.second;
    const Registered& found = registered_.at(key);
    if (is_within(start, bytes, after->first, found.bytes))
      return remote_memory(key, found.named + (start - after->first), bytes);
  }
  return {start, bytes, 0, 0};
}

// Null: not all of it, and all that the asker takes for the memory's, is shared for this.
RemoteLanes::Registered* RemoteLanes::find_registered(const OwnerPlace& place, std::size_t bytes,
                                                      bool to_write) {
  const auto found = registered_.find(place.key);
  if (found == registered_.end() || (to_write && !found->second.is_writable)) return nullptr;
  Registered& memory = found->second;
  const bool is_in = is_within(place.address, std::max<std::uint64_t>(bytes, place.room),
                               memory.named, memory.bytes);
  return is_in && !memory.is_ending ? &memory : nullptr;
}

std::byte* RemoteLanes::find_shared(const OwnerPlace& place, std::size_t bytes, bool to_write) {
  const Registered* memory = find_registered(place, bytes, to_write);
  return memory != nullptr ? memory->start + (place.address - memory->named) : nullptr;
}

// An answer that finds no room goes later, over the same link: over the next one gets and puts are
// asked for again.
void RemoteLanes::answer(RankPeer& peer, const RankPeer::Answer& answer) {
  if (spare_answers_.empty()) spare_answers_.emplace_back();
  spare_answers_.front() = answer;
  peer.answers.splice(peer.answers.end(), spare_answers_, spare_answers_.begin());
  if (!pump_answers(peer)) peer.make_busy();
}

bool RemoteLanes::on_owner_get(RankPeer& peer, const OwnerAccessMessage& message) {
  if (peer.answers.size() >= kMaxAnswers || message.place.bytes == 0) return false;
  const bool good = find_shared(message.place, message.place.bytes, false) != nullptr;
  answer(peer, {message.id, !good, Code::bad_argument, message.place, 0});
  return true;
}

// The eldest first. False: more is left.
bool RemoteLanes::pump_answers(RankPeer& peer) {
  while (!peer.answers.empty()) {
    RankPeer::Answer& answer = peer.answers.front();
    if (!answer.is_done && !send_data(peer, answer)) return false;
    if (answer.is_done) {
      OwnerDoneMessage message{};
      message.kind = Kind::owner_done;
      message.id = answer.id;
      message.code = static_cast<std::uint64_t>(answer.code);
      if (peer.link.send_once(message, sizeof message, {}) != Code::ok) return false;
    }
    spare_answers_.splice(spare_answers_.begin(), peer.answers, peer.answers.begin());
  }
  return true;
}

// Null: the body is copied, as it is short, or there is no memory to keep count of it.
RemoteLanes::Lent* RemoteLanes::take_lent(RankPeer& peer, Registered& memory, std::size_t bytes) {
  if (bytes < endpoint_->limits().in_place_min) return nullptr;
  const Code code = or_no_memory([&] {
    if (!free_lent_.empty()) return Code::ok;
    make_room(free_lent_, lent_.size() + 1);  // giving back takes no memory
    free_lent_.push_back(&lent_.emplace_back());
    return Code::ok;
  });
  if (code != Code::ok) return nullptr;
  Lent* lent = free_lent_.back();
  lent->done = Lent::on_done;
  lent->lanes = this;
  lent->peer = &peer;
  lent->memory = &memory;
  return lent;
}

// In poll() or close() of the endpoint, which are called with the lock held.
void RemoteLanes::Lent::on_done(fabric::Request& request, Code) noexcept {
  auto& lent = static_cast<Lent&>(request);
  --std::exchange(lent.memory, nullptr)->num_lent;
  lent.lanes->free_lent_.push_back(&lent);
}

// False: there is no room for the rest.
bool RemoteLanes::send_data(RankPeer& peer, RankPeer::Answer& answer) {
  OwnerPlace& rest = answer.place;
  OwnerDataMessage message{{.kind = Kind::owner_data, .id = answer.id}, 0};
  const std::size_t most = endpoint_->limits().message_max - sizeof message;
  Registered* memory = find_registered(rest, rest.bytes, false);
  if (memory == nullptr) {  // this rank has taken it back meanwhile
    answer.is_done = true;
    answer.code = Code::bad_argument;
    return true;
  }
  const std::byte* start = memory->start + (rest.address - memory->named);
  while (rest.bytes > 0) {
    const std::size_t part = std::min<std::uint64_t>(rest.bytes, most);
    message.offset = answer.sent;
    Lent* lent = take_lent(peer, *memory, part);
    if (peer.link.send_once(message, sizeof message, {start, part}, lent) != Code::ok) {
      if (lent != nullptr) lent->memory = nullptr;
      return false;
    }
    if (lent != nullptr) {
      free_lent_.pop_back();
      ++memory->num_lent;
    }
    start += part;
    answer.sent += part;
    rest.address += part;
    rest.bytes -= part;
    rest.room -= std::min<std::uint64_t>(rest.room, part);
  }
  return true;
}

// Every piece is checked with all that is still to come, so that what is refused is refused from
// the start. A put that is refused is answered once.
bool RemoteLanes::on_owner_put(RankPeer& peer, const OwnerAccessMessage& message,
                               fabric::Bytes data) {
  if (data.empty() || data.size() > message.place.bytes) return false;
  std::byte* start = find_shared(message.place, message.place.bytes, true);
  if (start != nullptr) store(start, data);
  if (start == nullptr) {
    const bool is_first = peer.last_refused != message.id;
    const bool is_last = data.size() == message.place.bytes;
    peer.last_refused = is_last ? -1 : std::int64_t{message.id};
    if (!is_first) return true;
  } else if (data.size() < message.place.bytes) {
    return true;
  }
  if (peer.answers.size() >= kMaxAnswers) return false;
  answer(peer, {message.id, true, start != nullptr ? Code::ok : Code::bad_argument, {}, 0});
  return true;
}

// The owner's own atomics are the processor's too, so that all are atomic against each other.
bool RemoteLanes::on_owner_atomic(RankPeer& peer, const OwnerAtomicMessage& message) {
  OwnerDoneMessage answer{};
  answer.kind = Kind::owner_done;
  answer.id = message.id;
  std::byte* start = find_shared(message.place, sizeof(std::uint64_t), true);
  if (start == nullptr || reinterpret_cast<std::uintptr_t>(start) % sizeof(std::uint64_t) != 0)
    answer.code = static_cast<std::uint64_t>(Code::bad_argument);
  else
    answer.previous = fabric::apply(fabric::Atomic{message.is_swap != 0}, start, message.operand,
                                    message.compare);
  peer.link.post_control(answer, sizeof answer);
  return true;
}

}  // namespace weft::transport
