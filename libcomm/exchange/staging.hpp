#pragma once
// Staging: registered memory for blocks that their receiver reads, kept and reused, since
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
    int peer = -1;          // its reader
    std::uint64_t use = 0;  // StagingHead::fin, until it is read

    std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(head + 1); }
  };

  // limit: bytes that the pool may allocate.
  void open(Job::Impl& job, std::size_t limit) {
    job_ = &job;
    limit_ = limit;
  }
  // Frees all memory, even of pinned buffers.
  void close() noexcept;

  // Returns a buffer with room for `bytes`. again: the limit is reached, and all buffers are
  // pinned. May throw std::bad_alloc; the calls below do not.
  Code take(std::size_t bytes, Buffer& buffer);
  // For a buffer whose RTS was not sent.
  void give_back(const Buffer& buffer) noexcept { free_[index(buffer)].push_back(buffer); }
  // For a buffer whose RTS was sent: it is free again once `peer` has read it.
  void pin(Buffer buffer, int peer) noexcept {
    buffer.peer = peer;
    pinned_.push_back(buffer);
  }
  // Frees the pinned buffers that were read.
  void collect();
  // The peer sends no FIN any more. reuse: it does not read either; otherwise its buffers stay
  // unchanged until close().
  void forget(int peer, bool reuse);

 private:
  static constexpr int kMinClass = 16;  // 64 KiB
  static constexpr int kMaxClass = 31;
  static std::size_t index(const Buffer& buffer) {
    return static_cast<std::size_t>(buffer.size_class - kMinClass);
  }
  Code grow(int size_class);

  // By size class: existing buffers, for all of which free_ and `pinned_` have capacity.
  std::array<std::size_t, kMaxClass - kMinClass + 1> num_made_{};
  std::size_t num_buffers_ = 0;

  Job::Impl* job_ = nullptr;
  std::size_t limit_ = 0;
  std::size_t allocated_ = 0;
  std::uint64_t last_use_ = 0;
  std::array<std::vector<Buffer>, kMaxClass - kMinClass + 1> free_;  // by size class
  std::vector<Buffer> pinned_;
  std::vector<void*> slabs_;
};

}  // namespace weft::transport
