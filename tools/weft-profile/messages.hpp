#pragma once
// The log of the messages of this process: both kinds of ends in the order of their calls, and the
// calls that waited for them; paired at the end (pairing.hpp). Bounded: a process that has sent and
// received more messages logs the first ones. Any thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mpi.h"
#include "pairing.hpp"

namespace weft::profile {

// Elements of a call: a few, or memory.
template <class T>
class Elements {
 public:
  explicit Elements(std::size_t num) {
    if (num > few_.size()) many_.reset(new (std::nothrow) T[num]);
    size_ = num <= few_.size() || many_ != nullptr ? num : 0;
  }
  // 0: there is no memory.
  std::size_t size() const noexcept { return size_; }
  T* data() noexcept { return many_ != nullptr ? many_.get() : few_.data(); }
  T& operator[](std::size_t i) noexcept { return data()[i]; }

 private:
  std::array<T, 8> few_;
  std::unique_ptr<T[]> many_;
  std::size_t size_;
};

// Logs an end, and returns its number; kNone: it is not logged. rank: of the communicator, may be
// MPI_ANY_SOURCE for a receive that a request completes.
std::uint32_t log_end(End::Kind kind, MPI_Comm comm, int rank, int tag,
                      std::uint64_t start_ns) noexcept;
// The request, made with that communicator, completes that end.
void log_request(MPI_Request request, std::uint32_t end, MPI_Comm comm) noexcept;
// Logs a call that waited for these ends, of which some may be kNone.
void log_call(std::span<const std::uint32_t> ends, std::uint64_t begin_ns, std::uint64_t end_ns,
              bool is_counted) noexcept;

// A request that a call may complete, and its end.
struct Pending {
  MPI_Request request;
  std::uint32_t end;
};
// Before such a call. Returns true if one of them has an end.
bool find_pending(std::span<const MPI_Request> requests, Pending* pending) noexcept;
// Called when it has completed that one. Returns its end.
std::uint32_t complete(const Pending& pending, const MPI_Status& status) noexcept;
// Called when it has failed, or nobody knows how it ended: its handle may get another request.
void drop(const Pending& pending) noexcept;

// A persistent request is made, is started, and ends.
void log_persistent(MPI_Request request, End::Kind kind, MPI_Comm comm, int rank, int tag) noexcept;
void log_start(MPI_Request request, std::uint64_t start_ns) noexcept;
void forget_request(MPI_Request request) noexcept;

struct Log {
  std::vector<End> ends;
  std::vector<Call> calls;
  std::uint64_t num_left_out = 0;
};
// Logging begins, and ends with its result.
void begin_log();
Log end_log() noexcept;

}  // namespace weft::profile
