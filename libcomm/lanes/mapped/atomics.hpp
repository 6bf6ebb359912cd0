#pragma once
// Atomic operations on memory that a process shared without having allocated it. Peers cannot map
// such memory (its pages belong to the program: its heap, its stack), the kernel's copies between
// processes are not atomic, and putting shared pages in their place would race with the program's
// own threads. So the owner does the operation, as an RDMA device would: a thread of its own sleeps
// until a peer asks, and needs nothing of the program's threads. A request costs two wake-ups of a
// thread; use allocated memory where that matters. Where the kernel refuses copies between
// processes the owner does these too, to and from memory that the peer has allocated.
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "lanes/mapped/arena.hpp"

namespace weft::shm {

// The operation, and the word's value before.
struct AtomicOperation {
  AtomicRequest::Kind kind = AtomicRequest::kFetchAdd;
  MemoryName word{};          // its first 8 bytes; of a copy: all
  std::uint64_t operand = 0;  // the value to add, or to compare with
  std::uint64_t swap = 0;
  std::uint64_t previous = 0;
};

// On the word at `at`, which is aligned.
void apply(void* at, AtomicOperation& operation) noexcept;

// The owner's thread.
class AtomicServer {
 public:
  // Does, or refuses, what the local peer with this number asks for.
  using Serve = std::function<Code(std::uint32_t local, AtomicOperation&)>;
  // no_memory: there can be no thread.
  static Status start(std::shared_ptr<Arena> arena, std::uint32_t num_local, Serve serve,
                      std::unique_ptr<AtomicServer>& server);
  ~AtomicServer();

 private:
  AtomicServer() = default;
  void run() noexcept;
  void answer(std::uint32_t local) noexcept;

  std::shared_ptr<Arena> arena_;
  std::uint32_t num_local_ = 0;
  Serve serve_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Asks the owner of `arena`; `request` is this process's there, used by one thread at a time.
// Blocks until it is done; peer_lost if `alive()` turns false before.
Code ask(Arena& arena, AtomicRequest& request, AtomicOperation& operation,
         const std::function<bool()>& alive) noexcept;

}  // namespace weft::shm
