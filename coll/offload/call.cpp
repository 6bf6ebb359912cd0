#include "coll/offload/call.hpp"

#include <algorithm>
#include <cstring>

#include "coll/offload/offload.hpp"
#include "coll/plan/links.hpp"

namespace weft::offload {

using coll::Collective;

std::size_t Call::counted_bytes() const noexcept {
  if (collective == Collective::barrier) return 0;
  return collective == Collective::allgather ? given.bytes : bytes();
}

Call allreduce_call(const void* input, void* result, std::size_t count,
                    const coll::Reduction& op) noexcept {
  const std::size_t bytes = count * op.element_bytes;
  return {Collective::allreduce, op, count, {input, 0, bytes}, {result, 0, bytes}};
}

Call reduce_call(const void* input, void* result, std::size_t count,
                 const coll::Reduction& op) noexcept {
  Call call = allreduce_call(input, result, count, op);
  call.collective = Collective::reduce;
  if (result == nullptr) call.kept = {};
  return call;
}

Call bcast_call(void* data, std::size_t bytes, bool is_root) noexcept {
  Call call{Collective::bcast, bitwise_or(), bytes, {}, {}};
  if (is_root)
    call.given = {data, 0, bytes};
  else
    call.kept = {data, 0, bytes};
  return call;
}

Call barrier_call() noexcept { return {Collective::barrier, bitwise_or(), 1, {}, {}}; }

Call reduce_scatter_call(const void* input, void* result, const std::size_t* counts, int rank,
                         int size, const coll::Reduction& op) noexcept {
  std::size_t before = 0, count = 0;
  for (int r = 0; r < size; ++r) {
    if (r < rank) before += counts[r];
    count += counts[r];
  }
  const std::size_t unit = op.element_bytes;
  return {Collective::reduce_scatter,
          op,
          count,
          {input, 0, count * unit},
          {result, before * unit, counts[rank] * unit}};
}

Call allgather_call(const void* block, void* all, std::size_t bytes, int rank, int size) noexcept {
  const std::size_t place = coll::index(rank) * bytes, total = coll::index(size) * bytes;
  return {Collective::allgather,
          bitwise_or(),
          total,
          {block != nullptr ? block : coll::at(all, place), place, bytes},
          {all, 0, total}};
}

const coll::Reduction& bitwise_or() noexcept {
  static const SumOp op(innet::Element::u8, innet::Operation::bor);
  return op.reduction();
}

void write_piece(const Part<const void*>& given, std::size_t first,
                 std::span<std::byte> piece) noexcept {
  const std::size_t begin = std::clamp(given.first, first, first + piece.size());
  const std::size_t end = std::clamp(given.first + given.bytes, begin, first + piece.size());
  std::ranges::fill(piece.first(begin - first), std::byte{0});
  if (begin != end)
    std::memcpy(piece.data() + (begin - first), coll::at(given.data, begin - given.first),
                end - begin);
  std::ranges::fill(piece.subspan(end - first), std::byte{0});
}

const void* piece_of(const Part<const void*>& given, std::size_t first, std::size_t bytes,
                     std::vector<std::byte>& room) {
  if (given.first <= first && first + bytes <= given.first + given.bytes)
    return coll::at(given.data, first - given.first);
  room.resize(bytes);
  write_piece(given, first, room);
  return room.data();
}

void keep_piece(const Part<void*>& kept, std::size_t first,
                std::span<const std::byte> piece) noexcept {
  const std::size_t begin = std::max(kept.first, first);
  const std::size_t end = std::min(kept.first + kept.bytes, first + piece.size());
  if (begin < end)
    std::memcpy(coll::at(kept.data, begin - kept.first), piece.data() + (begin - first),
                end - begin);
}

}  // namespace weft::offload
