#pragma once
// Registrations: memory that the device may reach, kept registered after use, because registering
// takes far longer than a message does. A kept one is used again only while its memory is the same
// (MemoryWatch); where memory cannot be watched nothing is kept. The bytes that are kept are
// bounded by WEFT_VERBS_CACHE_BYTES: the longest unused ones go first.
//
// Peers cannot reach kept memory, but over a transport whose reads write remotely (iWARP), where it
// is their word that they do not. What they may reach is registered by make() and ended by its
// owner.
//
// Threads: any. Calls may register, which takes microseconds per page; a hit takes a short lock.
//
// Tests: tests/fabric/registrations_test.cpp.
#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "fabric/verbs/memory_watch.hpp"
#include "fabric/verbs/transport.hpp"
#include "weft/status.hpp"

namespace weft::verbs {

// A kept range: at least what acquire() was asked for. Valid until release(), for that caller.
struct Registration {
  ibv_mr* mr = nullptr;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writable = false;
  // Guarded by the lock:
  bool kept = false;  // the memory is unchanged: may be given to others and kept
  bool watched = false;
  bool in_use = false;  // the slot
  bool ready = false;   // registered; before, only its maker knows it
  std::uint32_t references = 0;
  std::uint64_t last_use = 0;

  std::uint32_t lkey() const noexcept { return mr->lkey; }
};

class Registrations {
 public:
  Registrations(ibv_pd* pd, std::size_t max_bytes, const TransportFacts& transport);
  ~Registrations();

  // ok, or why nothing is kept.
  const Status& watch_status() const noexcept { return watch_status_; }

  // Registers memory for the device's reading, and for its writing if it is writable here; `write`:
  // it must be. no_memory (the text says what to do), bad_argument (not
  // this process's memory, or not writable).
  Status acquire(const void* address, std::size_t bytes, bool write, Registration*& registration);
  void release(Registration* registration) noexcept;
  // The access to local memory that a read lands in.
  int written_by_read() const noexcept { return written_by_read_; }
  // Registers memory until its owner ends `mr`. Errors as above.
  Status make(void* address, std::size_t bytes, int access, ibv_mr*& mr);
  // Gives back registrations whose memory has changed. Cheap when there are none.
  void collect() noexcept;
  // Gives back half of what is kept without use. False: there was nothing.
  bool make_room() noexcept;

  struct Counts {
    std::uint64_t hits, misses, changes;
    std::size_t bytes, entries;
  };
  Counts counts() noexcept;

 private:
  static constexpr int kMaxEntries = 1024;
  static constexpr int kVictims = 16;

  static void changed(void* context, std::uintptr_t begin, std::uintptr_t end);
  Status acquire_range(std::uintptr_t begin, std::uintptr_t end, bool write, bool must_keep,
                       Registration*& registration);
  Status use(Registration& entry, Registration*& registration) noexcept;
  Registration* find(std::uintptr_t begin, std::uintptr_t end, bool write) noexcept;
  Registration* take_slot() noexcept;
  void drop(Registration& entry) noexcept;
  int take_victims(ibv_mr* (&victims)[kVictims], std::size_t max_bytes, bool one) noexcept;
  int give_back(bool half) noexcept;
  static void deregister(ibv_mr* const* victims, int count) noexcept;

  ibv_pd* const pd_;
  const std::size_t max_bytes_;
  const int written_by_read_;
  std::mutex lock_;
  // A fixed table, as nothing may be allocated under the lock.
  Registration entries_[kMaxEntries];
  int num_slots_ = 0;  // slots ever used
  std::size_t bytes_ = 0;
  std::uint64_t clock_ = 0;
  std::atomic<int> num_doomed_{0};
  std::uint64_t hits_ = 0, misses_ = 0, changes_ = 0;
  MemoryWatch watch_;
  Status watch_status_;
};

}  // namespace weft::verbs
