#pragma once
// Regions: memory from Weft's own allocator, each a memfd that peers map at first use. A region is
// known by its file descriptor's number in the owner, which is how peers open it.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/os/descriptor.hpp"
#include "base/os/mapping.hpp"
#include "rma/memory.hpp"
#include "weft/status.hpp"

namespace weft::shm {

// Bits that no other process can guess, for the number of memory.
Status make_secret(std::uint64_t& secret);

// This process's regions.
class OwnRegions {
 public:
  Status allocate(std::size_t bytes, void*& address, MemoryName& memory);
  // for_others: peers that have mapped it keep what it has until they drop it.
  Status release(void* address, bool for_others = false);
  MemoryName describe(const void* address, std::size_t bytes) const noexcept;
  bool empty() const noexcept { return regions_.empty(); }

 private:
  struct Region {
    Descriptor file;
    Mapping mapping;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Region> regions_;  // by start address
};

// A peer's region, mapped here. One that its owner has released stays mapped while it is used, or
// until there are many.
struct PeerRegion {
  const std::atomic<std::uint64_t>& number() const noexcept;
  std::byte* data() const noexcept;

  Mapping mapping;
  std::uint64_t address = 0;  // of the data in the owner
  std::uint64_t room = 0;     // bytes of data
  int num_users = 0;
};

// Regions of one peer. Any thread.
class PeerRegions {
 public:
  static constexpr std::size_t kFewRegions = 64;

  // Returns the region with [offset, offset + bytes) of the memory at `data`, to be given back to
  // done(); or null with the reason. The region's file is checked to be the one that the descriptor
  // names.
  PeerRegion* use(int pid, const MemoryName& memory, std::size_t offset, std::size_t bytes,
                  std::byte*& data, Code& code) noexcept;
  // drops: without users nothing of it stays mapped.
  void done(PeerRegion* region, bool drops = false) noexcept;

 private:
  Code open(int pid, const MemoryName& memory, std::unique_ptr<PeerRegion>& region);
  void sweep() noexcept;

  std::mutex mutex_;
  std::map<std::uint64_t, std::unique_ptr<PeerRegion>> regions_;  // by number
  std::size_t sweep_at_ = kFewRegions;                            // as many regions as this
  std::vector<std::unique_ptr<PeerRegion>> released_;             // by their owner, but in use here
};

}  // namespace weft::shm
