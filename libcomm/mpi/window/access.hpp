#pragma once
// Access to a window's memory for one operation: the checks that all operations share, and moving
// typed memory of a target to and from packed bytes here.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "mpi/datatype/datatype.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {

// A part of the memory that a target has attached to a dynamic window.
struct Segment {
  std::uint64_t address;
  MemoryName memory;
};

// Elements of a target's memory, checked to lie in the window.
struct TargetMemory {
  int target = 0;
  const Datatype* type = nullptr;
  MPI_Count count = 0;
  std::size_t bytes = 0;       // packed
  std::byte* place = nullptr;  // mapped: the address a user would pass for them; null: not mapped
  MemoryName memory{};         // else the memory, and the offset in it
  std::int64_t offset = 0;
  // Used instead of these where elements of a dynamic window lie in several pieces of attached
  // memory: the segments that cover them, in order, and the address a user would pass.
  std::vector<Segment> segments;
  std::uint64_t address = 0;
};

// Not an error: the target is MPI_PROC_NULL, or there are no data.
inline constexpr int kNothingToDo = -1;

// Checks a target's arguments against the window and its epoch, in the standard's order.
// MPI_SUCCESS, kNothingToDo or the error class.
int find_target(Window& window, int target, MPI_Aint displacement, MPI_Count count,
                MPI_Datatype type, TargetMemory& memory);
// Finds and checks an origin's buffer. MPI_SUCCESS or the error class. bytes: of its elements.
int find_origin(const void* buffer, MPI_Count count, MPI_Datatype handle, Datatype*& type,
                std::size_t& bytes);

// Does as raise_on(), with the meaning of the class for an access.
[[nodiscard, gnu::cold]] int raise_access(Window* window, int code, const char* function);
// For functions with requests: checks that a request can be returned. MPI_SUCCESS or the code
// raised.
int check_request(MPI_Win win, const MPI_Request* request, const char* function);

// The gets and puts of one call, several at a time. Its completions must not move.
class Batch {
 public:
  explicit Batch(Lanes& lanes, int peer) : lanes_(lanes), peer_(peer) {}
  ~Batch() { finish(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  // `at` is counted as in for_each_piece().
  void get(const TargetMemory& from, std::ptrdiff_t at, void* to, std::size_t bytes);
  void put(const TargetMemory& to, std::ptrdiff_t at, const void* from, std::size_t bytes);
  // Waits for all; returns the first failure.
  Code finish();

 private:
  static constexpr std::size_t kMost = 32;
  Completion& next();
  Lanes& lanes_;
  int peer_;
  std::array<Completion, kMost> completions_;
  std::size_t num_ = 0;
  Code code_ = Code::ok;
};

// Calls visit(offset, bytes) for the memory of elements, adjacent blocks joined.
template <class Visit>
void for_each_piece(const Datatype& type, MPI_Count count, Visit&& visit) {
  if (type.is_contiguous()) {
    visit(type.true_lb(), type.size() * static_cast<std::size_t>(count));
    return;
  }
  std::ptrdiff_t start = 0;
  std::size_t length = 0;
  type.layout_.for_each_block(count, type.extent(), [&](std::ptrdiff_t at, std::size_t bytes) {
    if (length != 0 && start + static_cast<std::ptrdiff_t>(length) == at) {
      length += bytes;
      return;
    }
    if (length != 0) visit(start, length);
    start = at;
    length = bytes;
  });
  if (length != 0) visit(start, length);
}

// Copy the first `bytes` packed bytes of the target's elements to and from local memory. They
// block.
Code read_target(Window& window, const TargetMemory& memory, void* packed, std::size_t bytes);
Code write_target(Window& window, const TargetMemory& memory, const void* packed,
                  std::size_t bytes);

// A put or get of a remote target under way, which a flush or a request completes. Shared by the
// window and its request.
class RmaTransfer {
 public:
  static constexpr std::size_t kMostPieces = 16;

  explicit RmaTransfer(int target) : target_(target) {}
  ~RmaTransfer();
  RmaTransfer(const RmaTransfer&) = delete;
  RmaTransfer& operator=(const RmaTransfer&) = delete;

  // Each starts the transfer and returns true, or false: it takes more pieces than a transfer has,
  // and nothing happened. Packed data of a put are in `staging`, or the user's; a get's are
  // unpacked from there once it is complete, if `type` is not null.
  bool put(Window& window, const TargetMemory& memory, const void* packed, std::size_t bytes,
           std::unique_ptr<std::byte[]>& staging);
  bool get(Window& window, const TargetMemory& memory, void* packed, std::size_t bytes,
           std::unique_ptr<std::byte[]>& staging, void* buffer, Datatype* type, MPI_Count count);

  int target() const noexcept { return target_; }
  bool is_done() const noexcept;
  bool is_finished() const noexcept { return finished_.load(std::memory_order_acquire); }
  // Once is_done(): does, once, the steps that follow the data, and returns the result.
  Code finish();

 private:
  template <class Start>
  bool start(Window& window, const TargetMemory& memory, std::size_t bytes, Start&& start);

  const int target_;
  std::array<Completion, kMostPieces> pieces_;
  std::size_t num_pieces_ = 0;
  std::unique_ptr<std::byte[]> staging_;
  std::mutex mutex_;  // one thread at a time unpacks
  std::atomic<bool> finished_{false};
  void* buffer_ = nullptr;
  Datatype* type_ = nullptr;  // counted
  MPI_Count count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace weft::mpi
