#include "mpi/datatype/layout.hpp"

#include <algorithm>
#include <cstring>

namespace weft::mpi {
namespace {

// The two directions of a copy between the blocks and the packed bytes.
struct Packing {
  using Address = const std::byte*;
  using Packed = std::byte*;
  static void move(Address place, Packed packed, std::size_t bytes) noexcept {
    std::memcpy(packed, place, bytes);
  }
};
struct Unpacking {
  using Address = std::byte*;
  using Packed = const std::byte*;
  static void move(Address place, Packed packed, std::size_t bytes) noexcept {
    std::memcpy(place, packed, bytes);
  }
};

// Moves blocks of a size known to the compiler, so that each is one load and one store.
template <class Direction, std::size_t kBytes>
void move_fixed(typename Direction::Address place, typename Direction::Packed packed,
                std::size_t count, std::ptrdiff_t stride) noexcept {
  for (std::size_t i = 0; i < count; ++i, packed += kBytes, place += stride)
    Direction::move(place, packed, kBytes);
}

template <class Direction>
void move_blocks(typename Direction::Address place, typename Direction::Packed packed,
                 std::size_t count, std::ptrdiff_t stride, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return move_fixed<Direction, 1>(place, packed, count, stride);
    case 2:
      return move_fixed<Direction, 2>(place, packed, count, stride);
    case 4:
      return move_fixed<Direction, 4>(place, packed, count, stride);
    case 8:
      return move_fixed<Direction, 8>(place, packed, count, stride);
    case 16:
      return move_fixed<Direction, 16>(place, packed, count, stride);
    default:
      break;
  }
  for (std::size_t i = 0; i < count; ++i, packed += bytes, place += stride)
    Direction::move(place, packed, bytes);
}

template <class Direction>
void move_repetitions(typename Direction::Address place, typename Direction::Packed packed,
                      std::ptrdiff_t stride, std::size_t size, std::size_t block,
                      const std::vector<Run>* children, std::size_t skip,
                      std::size_t bytes) noexcept;

// Moves bytes [skip, skip + bytes) of the packed form of one repetition of the runs.
template <class Direction>
void move_runs(const std::vector<Run>& runs, typename Direction::Address place,
               typename Direction::Packed packed, std::size_t skip, std::size_t bytes) noexcept {
  auto run = runs.begin();
  if (skip != 0) {
    const auto is_behind = [](std::size_t at, const Run& one) { return at < one.before; };
    run = std::upper_bound(runs.begin(), runs.end(), skip, is_behind) - 1;
    skip -= run->before;
  }
  for (; bytes != 0; ++run, skip = 0) {
    const std::size_t size = run->size();
    const std::size_t n = std::min(bytes, static_cast<std::size_t>(run->count) * size - skip);
    move_repetitions<Direction>(place + run->offset, packed, run->stride, size, run->bytes,
                                run->children.get(), skip, n);
    packed += n;
    bytes -= n;
  }
}

// Does the same for a unit of `size` packed bytes, a block or the children, that is repeated.
template <class Direction>
void move_repetitions(typename Direction::Address place, typename Direction::Packed packed,
                      std::ptrdiff_t stride, std::size_t size, std::size_t block,
                      const std::vector<Run>* children, std::size_t skip,
                      std::size_t bytes) noexcept {
  const auto move_part = [&](std::size_t first, std::size_t n) {
    if (block != 0)
      Direction::move(place + first, packed, n);
    else
      move_runs<Direction>(*children, place, packed, first, n);
    packed += n;
    bytes -= n;
  };
  place += static_cast<std::ptrdiff_t>(skip / size) * stride;
  if (skip %= size; skip != 0) {
    move_part(skip, std::min(bytes, size - skip));
    place += stride;
  }
  if (block != 0) {
    const std::size_t whole = bytes / size;
    move_blocks<Direction>(place, packed, whole, stride, size);
    place += static_cast<std::ptrdiff_t>(whole) * stride;
    packed += whole * size;
    bytes -= whole * size;
  } else {
    for (; bytes >= size; place += stride) move_part(0, size);
  }
  if (bytes != 0) move_part(0, bytes);
}

template <class Direction>
void move_elements(const std::vector<Run>& runs, typename Direction::Address place,
                   typename Direction::Packed packed, std::ptrdiff_t extent, std::size_t skip,
                   std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (runs.size() == 1 && runs[0].bytes != 0 && runs[0].count == 1)
    return move_repetitions<Direction>(place + runs[0].offset, packed, extent, runs[0].bytes,
                                       runs[0].bytes, nullptr, skip, bytes);
  move_repetitions<Direction>(place, packed, extent, runs.back().before + runs.back().total(), 0,
                              &runs, skip, bytes);
}

}  // namespace

void Layout::add(Run run) {
  if (run.count == 1) run.stride = 0;
  // Blocks without gaps are merged into one.
  if (run.bytes != 0 && run.count > 1 && run.stride == static_cast<std::ptrdiff_t>(run.bytes)) {
    run.bytes *= static_cast<std::size_t>(run.count);
    run.count = 1;
    run.stride = 0;
  }
  if (!runs_.empty() && run.bytes != 0) {
    Run& last = runs_.back();
    if (last.bytes != 0 && last.count == 1 && run.count == 1 &&
        last.offset + static_cast<std::ptrdiff_t>(last.bytes) == run.offset) {
      last.bytes += run.bytes;
      return;
    }
  }
  run.before = runs_.empty() ? 0 : runs_.back().before + runs_.back().total();
  runs_.push_back(std::move(run));
}

void Layout::append(const Layout& element, std::ptrdiff_t offset, std::int64_t count,
                    std::ptrdiff_t stride) {
  if (count == 0 || element.runs_.empty()) return;
  if (count == 1) {
    for (Run run : element.runs_) {
      run.offset += offset;
      add(std::move(run));
    }
    return;
  }
  if (element.runs_.size() == 1) {
    Run run = element.runs_[0];
    // A repetition that goes on where one run ends makes one longer run.
    if (run.count == 1 || stride == run.count * run.stride) {
      if (run.count == 1) run.stride = stride;
      run.count *= count;
      run.offset += offset;
      return add(std::move(run));
    }
  }
  add({offset, count, stride, 0, std::make_shared<const std::vector<Run>>(element.runs_), 0});
}

void Layout::pack(std::byte* to, const std::byte* from, std::ptrdiff_t extent, std::size_t skip,
                  std::size_t bytes) const noexcept {
  move_elements<Packing>(runs_, from, to, extent, skip, bytes);
}

void Layout::unpack(std::byte* to, const std::byte* from, std::ptrdiff_t extent, std::size_t skip,
                    std::size_t bytes) const noexcept {
  move_elements<Unpacking>(runs_, to, from, extent, skip, bytes);
}

void Signature::add(Part part) {
  bytes_ += part.count * part.bytes;
  elements_ += part.count * part.elements;
  if (!parts_.empty() && part.inner == nullptr && parts_.back().inner == nullptr &&
      parts_.back().bytes == part.bytes && parts_.back().form == part.form) {
    parts_.back().count += part.count;
    return;
  }
  parts_.push_back(std::move(part));
}

void Signature::append(const Signature& element, std::int64_t count) {
  if (count == 0 || element.parts_.empty()) return;
  if (count == 1) {
    for (const Part& part : element.parts_) add(part);
    return;
  }
  if (element.parts_.size() == 1) {
    Part part = element.parts_[0];
    part.count *= count;
    return add(std::move(part));
  }
  add({count, element.bytes_, element.elements_, {}, std::make_shared<const Signature>(element)});
}

std::int64_t Signature::elements_in(std::int64_t bytes, std::int64_t* rest) const noexcept {
  std::int64_t found = 0;
  for (const Part& part : parts_) {
    const std::int64_t whole = std::min(part.count, bytes / part.bytes);
    found += whole * part.elements;
    bytes -= whole * part.bytes;
    if (whole == part.count) continue;
    if (part.inner != nullptr) return found + part.inner->elements_in(bytes, rest);
    break;
  }
  *rest = bytes;
  return found;
}

std::int64_t Signature::bytes_of(std::int64_t elements) const noexcept {
  std::int64_t bytes = 0;
  for (const Part& part : parts_) {
    const std::int64_t whole = std::min(part.count, elements / part.elements);
    bytes += whole * part.bytes;
    elements -= whole * part.elements;
    if (whole == part.count) continue;
    return part.inner != nullptr ? bytes + part.inner->bytes_of(elements) : bytes;
  }
  return bytes;
}

}  // namespace weft::mpi
