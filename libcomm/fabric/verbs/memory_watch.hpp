#pragma once
// Memory watch: reports in time that memory of this process changes its pages: it is unmapped,
// moved, discarded, or mapped over, by the program or by free() inside the C library. A cache of
// registrations needs this, as the device would go on with the old pages.
//
// It uses userfaultfd's events. The kernel holds back the thread that changes watched memory until
// this object's thread has read the event, and that happens under the lock of the cache: a thread
// that takes the lock after the change has returned sees it. Hooks for munmap and the like would
// miss the calls that the C library makes inside itself (large free, trimming), unless they patched
// its code. No privilege is needed (UFFD_USER_MODE_ONLY), as no faults are handled: ranges are
// registered for write protection, which is never switched on. Where this is impossible (kernel
// before 5.11, seccomp profiles that refuse the call, memory of files) watch() returns so, and the
// cache must not keep such memory. Not reported: pages that are taken out of a shared file in
// memory (memfd, /dev/shm) by its descriptor, ftruncate or fallocate, here or in another process; a
// program that does so under messages of 32 KiB and more sets WEFT_VERBS_CACHE_BYTES=0.
//
// The lock. Memory that the process gives back while it holds the lock could be watched, and would
// wait for a thread that waits for the lock. So: no allocation and no freeing under it, here and in
// the cache; the kernel's calls below are fine, they don't wait for events.
//
// Threads: any; watch and unwatch with the lock held.
//
// Tests: tests/fabric/memory_watch_test.cpp.
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "weft/status.hpp"

namespace weft::verbs {

class MemoryWatch {
 public:
  // Called by the watching thread with the lock held; must not allocate or free.
  using Changed = void (*)(void* context, std::uintptr_t begin, std::uintptr_t end);

  MemoryWatch(std::mutex& lock, Changed changed, void* context) noexcept
      : lock_(lock), changed_(changed), context_(context) {}
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // unsupported or not_permitted, with the reason: watch() will always be false.
  Status start();
  bool works() const noexcept { return fd_ >= 0; }

  // Watches whole pages. False: this memory cannot be watched.
  bool watch(std::uintptr_t begin, std::uintptr_t end) noexcept;
  void unwatch(std::uintptr_t begin, std::uintptr_t end) noexcept;

 private:
  void run() noexcept;

  std::mutex& lock_;
  const Changed changed_;
  void* const context_;
  int fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace weft::verbs
