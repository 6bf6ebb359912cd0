#pragma once
// Reads by io_uring of data that the kernel does not have in memory: many at a time, and none of
// them takes a thread. The process has one ring, made at the first use. Where there is no ring (old
// kernels, most containers), or a read does not go through it, threads read instead (threads.hpp).
//
// Threads: any thread may call any function. A thread of the ring's own submits. Threads that wait
// or test take ended reads from the ring; while they all sleep, the ring's thread waits for the
// ring and rings the process's doorbell.
#include <cstddef>
#include <cstdint>

namespace weft::mpi {

// One read. The object must not move until the read has ended.
class RingRead {
 public:
  int descriptor = -1;
  std::byte* to = nullptr;
  std::size_t bytes = 0;  // below 2 GiB
  std::int64_t place = 0;
  std::size_t done = 0;  // bytes so far, from the beginning

  // Called once, by some thread. True: all of it was read, or all up to the file's end. False: the
  // ring could not read it; a read in the usual way has the error.
  virtual void on_end(bool is_read) noexcept = 0;

 protected:
  ~RingRead() = default;
};

// Begins a read. False: it does not begin, as there is no ring or no room in it.
bool begin_ring_read(RingRead& read) noexcept;
// Ends the reads that can be ended now.
void reap_ring() noexcept;
// To be called before a thread that waits for a read falls asleep on the process's doorbell, after
// the doorbell was armed and the ring was reaped once more.
void watch_ring() noexcept;
// Ends the ring; nothing may be under way.
void close_ring() noexcept;

}  // namespace weft::mpi
