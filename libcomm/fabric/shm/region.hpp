#pragma once
// Regions: memory from Weft's own allocator, each a memfd that peers map at first use. A region is
// known by its file descriptor's number in the owner, which is how peers open it.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "fabric/fabric.hpp"
#include "weft/status.hpp"

namespace weft::shm {

// This process's regions.
class OwnRegions {
 public:
  ~OwnRegions();
  Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory);
  Status release(void* address);
  RemoteMemory describe(const void* address, std::size_t bytes) const noexcept;
  bool empty() const noexcept { return regions_.empty(); }

 private:
  struct Region {
    std::size_t bytes;
    int fd;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Region> regions_;  // by start address
};

// Regions of one peer, mapped here.
class PeerRegions {
 public:
  ~PeerRegions();
  // The local address of [address, address + bytes) of the peer's region, or null with the reason.
  // The region's file is checked to be what the descriptor names.
  std::byte* find(int pid, const RemoteMemory& memory, std::size_t offset, std::size_t bytes,
                  Code& code) noexcept;

 private:
  struct Mapping {
    std::byte* base;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::map<std::uint32_t, Mapping> mappings_;  // by region number
};

}  // namespace weft::shm
