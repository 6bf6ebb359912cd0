// The target side: the memory that peers may reach, and their gets, puts and atomics, each checked
// against what is shared. Shared memory has a random key of its own, so that no process finds it
// without its name. All of it happens under the lock, so that nothing is touched on a peer's behalf
// any more once unshare() has returned.
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/mix.hpp"
#include "base/os/mapped.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::transport {

// A process that knows one key must not learn the next one from it: a second secret lies between.
std::uint64_t RemoteLanes::next_key() {
  for (;;) {
    const std::uint64_t key = mix(mix(next_key_ += kMixStep) ^ key_secret_);
    // The lower half is a region, and 0 means that there is none.
    if (static_cast<std::uint32_t>(key) != 0 && !registered_.contains(key)) return key;
  }
}

Status RemoteLanes::share(void* address, std::size_t bytes, MemoryName& memory) {
  bool is_writable = false;
  if (Status status = find_writable(address, bytes, is_writable); !status) return status;
  return share_as(address, bytes, is_writable, memory);
}

Status RemoteLanes::share_as(void* address, std::size_t bytes, bool is_writable,
                             MemoryName& memory) {
  const std::lock_guard lock(lock_);
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
  const Code code = or_no_memory([&] { registered_.emplace(key, made); });
  if (code != Code::ok) {
    if (is_one_sided()) endpoint_->deregister(made.registration);
    return code;
  }
  memory = named(made.named, bytes, key);
  return {};
}

// The fabric reaches registered memory by itself.
bool RemoteLanes::is_one_sided() const {
  const fabric::Limits& limits = endpoint_->limits();
  return limits.gets || limits.puts || limits.atomics;
}

// No peer can ask for it any more; when this returns, the fabric has ended its reads there, or its
// link is gone.
Status RemoteLanes::unshare(const MemoryName& memory) {
  std::unique_lock lock(lock_);
  const auto found = registered_.find(number_of(memory));
  if (found == registered_.end() || found->second.is_ending)
    return {Code::bad_argument, "this memory is not shared"};
  Registered& shared = found->second;
  shared.is_ending = true;
  for (const std::uint64_t limit = now_ns() + silence_ns_ / 2; shared.num_pinned > 0;) {
    poll_locked();
    if (shared.num_pinned == 0) break;
    // Peers that do not take their answers ask again over another link, and are refused.
    if (now_ns() > limit) {
      for (const Pinned& pinned : pinned_.all())
        if (pinned.memory == &shared) drop_link(*pinned.peer);
      break;
    }
    lock.unlock();
    sched_yield();
    lock.lock();
  }
  fabric::Registration registration = shared.registration;
  registered_.erase(number_of(memory));
  if (is_one_sided()) endpoint_->deregister(registration);
  return {};
}

// Null: not all of it, and all that the asker takes for the memory's, is shared for this.
RemoteLanes::Registered* RemoteLanes::find_registered(const RemoteRange& range,
                                                      std::uint32_t rights) {
  const auto found = registered_.find(range.key);
  if (found == registered_.end() || found->second.is_ending) return nullptr;
  Registered& memory = found->second;
  if ((rights & (fabric::kWrite | fabric::kAtomic)) != 0 && !memory.is_writable) return nullptr;
  return is_within(range.address, std::max(range.bytes, range.room), memory.named, memory.bytes)
             ? &memory
             : nullptr;
}

std::byte* RankPeer::find_shared(const RemoteRange& range, std::uint32_t rights, Code& code) {
  const RemoteLanes::Registered* memory = lanes.find_registered(range, rights);
  code = memory != nullptr ? Code::ok : Code::bad_argument;
  return memory != nullptr ? memory->start + (range.address - memory->named) : nullptr;
}

fabric::WorkRequest* RankPeer::pin(const RemoteRange& range, std::size_t bytes) {
  if (bytes < lanes.endpoint_->limits().in_place_min) return nullptr;
  return lanes.pin(*this, *lanes.find_registered(range, fabric::kRead));
}

// Null: there is no memory to keep count of it.
RemoteLanes::Pinned* RemoteLanes::pin(RankPeer& peer, Registered& memory) {
  if (or_no_memory([&] { pinned_.make_room(); }) != Code::ok) return nullptr;
  Pinned& pinned = pinned_.take();
  pinned.done = Pinned::on_done;
  pinned.lanes = this;
  pinned.peer = &peer;
  pinned.memory = &memory;
  ++memory.num_pinned;
  return &pinned;
}

// In poll() or close() of the endpoint, which are called with the lock held, or where the link does
// not take the body.
void RemoteLanes::Pinned::on_done(fabric::WorkRequest& request, Code) noexcept {
  auto& pinned = static_cast<Pinned&>(request);
  --std::exchange(pinned.memory, nullptr)->num_pinned;
  pinned.lanes->pinned_.give_back(pinned);
}

}  // namespace weft::transport
