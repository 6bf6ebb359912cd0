#pragma once
// Staging: registered memory for blocks that are read by their receiver, kept and used again, since
// registering costs more than copying (rdma-object-store, section 3.4). One pool a thread.
#include <array>
#include <cstddef>
#include <vector>

#include "exchange/job_impl.hpp"
#include "exchange/wire.hpp"

namespace weft::transport {

class StagingPool {
 public:
  struct Buffer {
    StagingHead* head = nullptr;
    RemoteMemory memory;  // head and block
    int size_class = 0;
    int peer = -1;          // who reads it
    std::uint64_t use = 0;  // StagingHead::done, until it is read

    std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(head + 1); }
  };

  // limit: what the pool may allocate.
  void open(Job::Impl& job, std::size_t limit) {
    job_ = &job;
    limit_ = limit;
  }
  // Gives the memory back, also what is still being read.
  void close() noexcept;

  // A buffer with room for `bytes`. again: the limit is reached, and all is being read.
  // May throw std::bad_alloc; what follows does not.
  Code take(std::size_t bytes, Buffer& buffer);
  // Not announced after all.
  void give_back(const Buffer& buffer) noexcept { free_[index(buffer)].push_back(buffer); }
  // Announced to `peer`: comes back when that has read it.
  void lend(Buffer buffer, int peer) noexcept {
    buffer.peer = peer;
    lent_.push_back(buffer);
  }
  // Takes back what was read.
  void collect();
  // The peer will not say any more what it has read. reuse: it reads nothing either; else what it
  // may be reading stays as it is until close().
  void forget(int peer, bool reuse);

 private:
  static constexpr int kMinClass = 16;  // 64 KiB
  static constexpr int kMaxClass = 31;
  static std::size_t index(const Buffer& buffer) {
    return static_cast<std::size_t>(buffer.size_class - kMinClass);
  }
  Code grow(int size_class);

  // Buffers of each size, for which there is room in its list and in `lent_`.
  std::array<std::size_t, kMaxClass - kMinClass + 1> num_made_{};
  std::size_t num_buffers_ = 0;

  Job::Impl* job_ = nullptr;
  std::size_t limit_ = 0;
  std::size_t allocated_ = 0;
  std::uint64_t last_use_ = 0;
  std::array<std::vector<Buffer>, kMaxClass - kMinClass + 1> free_;  // by size class
  std::vector<Buffer> lent_;
  std::vector<void*> slabs_;
};

}  // namespace weft::transport
