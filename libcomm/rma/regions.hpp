#pragma once
// Memory that crosses sessions: a Region is this process's own, a RemoteRegion a peer's, as its
// owner published it to one session.
#include <atomic>
#include <memory>
#include <vector>

#include "base/os/process_id.hpp"
#include "fabric/endpoint.hpp"
#include "weft/memory_key.hpp"
#include "weft/status.hpp"

namespace weft::transport {

class Session;
struct RemoteRegion;

// Under the transport's progress lock.
struct Region {
  struct Grant {
    std::array<std::uint8_t, 16> secret;
    std::uint32_t rights;
    std::uint64_t only;  // the generation of the one Node that may use it; 0: any
  };
  struct Registered {
    fabric::Endpoint* endpoint;
    std::uint32_t rights;
    fabric::Registration registration;
  };

  std::uint64_t id = 0;
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  bool is_allocated = false;  // by the fabric that maps
  bool is_withdrawn = false;
  std::vector<Grant> grants;
  std::vector<Registered> registered;
  std::size_t num_users = 0;  // handles of sessions that name it
};

// The owner's view of a key; opaque to all others.
struct KeyParts {
  std::uint64_t generation, region;
  std::array<std::uint8_t, 16> secret;
};
static_assert(sizeof(KeyParts) == sizeof(MemoryKey));

// The datapath's view of a region, one for each PeerMemory, used by one thread at a time. While
// `busy` is set, the memory at `base` stays mapped.
struct RegionUse {
  std::atomic<std::byte*> base{nullptr};  // null: not mapped (yet, or any more)
  std::atomic<bool> busy{false};
  std::uint64_t bytes = 0;   // once base is set
  std::uint32_t rights = 0;  // the same
  const pid_t process = process_id();
  std::shared_ptr<RemoteRegion> region;
  std::shared_ptr<Session> session;

  RegionUse(std::shared_ptr<Session> session, std::shared_ptr<RemoteRegion> region);
  ~RegionUse();
  RegionUse(const RegionUse&) = delete;
  // The place of these bytes, or null: not mapped, beyond the end, or without the right. After it,
  // leave() in any case.
  std::byte* enter(std::uint32_t right, std::uint64_t offset, std::size_t length) noexcept {
    // relaxed, and no fence but the compiler's: the thread that removes the mapping clears base,
    // has every thread pass a fence (heavy_fence) and then waits for busy.
    busy.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::byte* at = base.load(std::memory_order_acquire);
    if (at == nullptr || (rights & right) == 0 || offset > bytes || length > bytes - offset)
        [[unlikely]]
      return nullptr;
    return at + offset;
  }
  void leave() noexcept { busy.store(false, std::memory_order_release); }
};

// Under the lock of its session.
struct RemoteRegion {
  enum class State { asking, ready, gone };

  MemoryKey key;
  State state = State::asking;
  Code why = Code::ok;       // gone
  std::uint32_t id = 0;      // of the question
  std::uint32_t handle = 0;  // the owner's name for it in this session
  std::uint64_t bytes = 0;
  std::uint32_t rights = 0;
  std::uint32_t devices = 0;      // of the owner that have keys, a bit each
  std::vector<fabric::Key> keys;  // by device
  Mapping mapped;                 // empty: it is not mapped here
  std::size_t num_posted = 0;     // requests that the fabric has
  bool is_withdrawn = false;      // let go once num_posted is 0
  std::vector<RegionUse*> uses;

  // The key on this device of the owner; null: target-side emulation does it.
  const fabric::Key* key_on(std::uint32_t device) const noexcept {
    return (devices >> device & 1) != 0 ? &keys[device] : nullptr;
  }
};

}  // namespace weft::transport
