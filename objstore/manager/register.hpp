#pragma once
// ReadableMemory: the memory of the segment that other hosts can read.
//
// Locks. Manager's turn_mutex_; the server's lock while an object is held or dropped.
#include <unordered_map>
#include <vector>

#include "core.hpp"
#include "members.hpp"

namespace weft::objstore {

class ReadableMemory {
 public:
  ReadableMemory(ManagerCore& core, const Members& members) : core_(core), members_(members) {}

  // An object of `bytes` bytes at `place` in the segment at `segment`, which the caller holds.
  // peer_lost; no_memory and others: as Node::register_memory.
  Status offer_parts(std::uint64_t to, std::uint32_t entry, const std::byte* segment,
                     std::byte* place, std::uint64_t bytes, std::vector<OfferPart>& parts);
  void count_lease(std::uint32_t entry, int more);
  void end_registrations();
  // The manager has ended, and the Node is gone. Called with the server's lock held.
  void drop_all();

 private:
  struct RegisteredPiece {
    std::uint64_t begin, bytes;
    MemoryKey key;
  };
  struct Registered {
    std::byte* place;
    int num_leases;
  };

  Status register_pieces();

  ManagerCore& core_;
  const Members& members_;
  std::vector<RegisteredPiece> pieces_;
  std::unordered_map<std::uint32_t, Registered> registered_;  // by entry
};

}  // namespace weft::objstore
