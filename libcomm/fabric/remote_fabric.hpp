#pragma once
// RemoteFabric: what fabrics that cross hosts have in common. They map nothing of a peer, and
// whoever waits in this process sleeps on the doorbells of the fabric inside the host.
#include <fmt/core.h>

#include <atomic>

#include "fabric/doorbell.hpp"
#include "fabric/fabric.hpp"
#include "job/members.hpp"

namespace weft {

class RemoteFabric : public Fabric {
 public:
  bool mapped() const noexcept override { return false; }
  bool can_copy(int) noexcept override { return false; }
  SharedCopy* own_copy(std::uint32_t) noexcept override { return nullptr; }
  SharedCopy* peer_copy(int, std::uint32_t) noexcept override { return nullptr; }
  std::atomic<std::uint32_t>& sleeping(int doorbell) noexcept override {
    return local_.sleeping(doorbell);
  }
  std::atomic<std::uint32_t>* peer_sleeping(int) noexcept override { return nullptr; }
  Status open_doorbell(int) override { return Code::unsupported; }

 protected:
  // local: the fabric inside the host; outlives this one.
  RemoteFabric(Members& job, Fabric& local) : job_(job), local_(local) {}
  void ring_own(int doorbell) noexcept { ring_doorbell(local_.sleeping(doorbell)); }
  // Threads of this process wait at this doorbell from now on.
  void note_doorbell(int doorbell) noexcept {
    int last = last_doorbell_.load(std::memory_order_relaxed);
    while (doorbell > last && !last_doorbell_.compare_exchange_weak(last, doorbell)) {
    }
  }
  // For what a thread at any of them could wait for: an operation's end, a peer's.
  void ring_all() noexcept {
    const int last = last_doorbell_.load(std::memory_order_relaxed);
    for (int doorbell = 0; doorbell <= last; ++doorbell) ring_own(doorbell);
  }
  // What the rings of exchanges take, and our mirrors of others' (WEFT_LANE_MEMORY_BYTES); the
  // engine's, one for each peer, are always given. With a lock of the fabric's held.
  Status take_lane_memory(int channel, std::uint32_t bytes) {
    if (is_engine_channel(channel)) return {};
    const std::size_t maximum = job_.settings().bytes(Setting::lane_memory_bytes);
    if (bytes > maximum || lane_memory_ > maximum - bytes)
      return {Code::no_memory, fmt::format("rings take {} bytes already, and "
                                           "WEFT_LANE_MEMORY_BYTES is {}",
                                           lane_memory_, maximum)};
    lane_memory_ += bytes;
    return {};
  }
  void give_lane_memory(int channel, std::uint32_t bytes) noexcept {
    if (!is_engine_channel(channel)) lane_memory_ -= bytes;
  }

  Members& job_;

 private:
  Fabric& local_;
  std::size_t lane_memory_ = 0;
  std::atomic<int> last_doorbell_{0};
};

}  // namespace weft
