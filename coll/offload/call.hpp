#pragma once
// Call: a collective as the allreduce that it is to switches, in which each member gives a part of
// a vector, and zeros for the rest, and keeps a part of the result. Pure functions; any thread.
#include <span>
#include <vector>

#include "coll/coll.hpp"

namespace weft::offload {

// `bytes` bytes of a vector, from `first` on. Data: void* or const void*.
template <class Data>
struct Part {
  Data data = nullptr;
  std::size_t first = 0, bytes = 0;
};

// The memory is the caller's, and what op.argument points to lives until the end of the call.
struct Call {
  coll::Collective collective = coll::Collective::allreduce;
  coll::Reduction op{};
  std::size_t count = 0;  // elements of the vector; 0: there is no call
  Part<const void*> given;
  // May share memory with `given`, if what is kept of a piece overwrites that piece or earlier
  // ones.
  Part<void*> kept;

  std::size_t bytes() const noexcept { return count * op.element_bytes; }
  // As CallCounts counts them.
  std::size_t counted_bytes() const noexcept;
};

// `result`: null for a member that gets none.
Call allreduce_call(const void* input, void* result, std::size_t count,
                    const coll::Reduction& op) noexcept;
Call reduce_call(const void* input, void* result, std::size_t count,
                 const coll::Reduction& op) noexcept;
// The root's memory is only read.
Call bcast_call(void* data, std::size_t bytes, bool is_root) noexcept;
Call barrier_call() noexcept;
// counts: of elements, by rank. result: this member's part of it; may be the input's memory.
Call reduce_scatter_call(const void* input, void* result, const std::size_t* counts, int rank,
                         int size, const coll::Reduction& op) noexcept;
// block: null if it is in its place among all.
Call allgather_call(const void* block, void* all, std::size_t bytes, int rank, int size) noexcept;

// Bytes as switches join those of which all but one member's are zero.
const coll::Reduction& bitwise_or() noexcept;

// Writes the piece of a member's vector that begins at `first`.
void write_piece(const Part<const void*>& given, std::size_t first,
                 std::span<std::byte> piece) noexcept;
// Returns that piece: the caller's memory if it is all there, else `room`, written.
const void* piece_of(const Part<const void*>& given, std::size_t first, std::size_t bytes,
                     std::vector<std::byte>& room);
// Copies what the member keeps of a piece of the result.
void keep_piece(const Part<void*>& kept, std::size_t first,
                std::span<const std::byte> piece) noexcept;

}  // namespace weft::offload
