#include "mpi/layout.hpp"

#include <algorithm>
#include <cstring>

namespace weft::mpi {
namespace {

// Blocks of a size known to the compiler, so that each is one load and one store.
template <std::size_t kBytes>
std::byte* gather_fixed(std::byte* to, const std::byte* from, std::int64_t count,
                        std::ptrdiff_t stride) noexcept {
  for (std::int64_t i = 0; i < count; ++i, to += kBytes, from += stride)
    std::memcpy(to, from, kBytes);
  return to;
}

std::byte* gather(std::byte* to, const std::byte* from, std::int64_t count, std::ptrdiff_t stride,
                  std::size_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return gather_fixed<1>(to, from, count, stride);
    case 2:
      return gather_fixed<2>(to, from, count, stride);
    case 4:
      return gather_fixed<4>(to, from, count, stride);
    case 8:
      return gather_fixed<8>(to, from, count, stride);
    case 16:
      return gather_fixed<16>(to, from, count, stride);
    default:
      break;
  }
  for (std::int64_t i = 0; i < count; ++i, to += bytes, from += stride)
    std::memcpy(to, from, bytes);
  return to;
}

template <std::size_t kBytes>
const std::byte* scatter_fixed(std::byte* to, const std::byte* from, std::int64_t count,
                               std::ptrdiff_t stride) noexcept {
  for (std::int64_t i = 0; i < count; ++i, from += kBytes, to += stride)
    std::memcpy(to, from, kBytes);
  return from;
}

const std::byte* scatter(std::byte* to, const std::byte* from, std::int64_t count,
                         std::ptrdiff_t stride, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return scatter_fixed<1>(to, from, count, stride);
    case 2:
      return scatter_fixed<2>(to, from, count, stride);
    case 4:
      return scatter_fixed<4>(to, from, count, stride);
    case 8:
      return scatter_fixed<8>(to, from, count, stride);
    case 16:
      return scatter_fixed<16>(to, from, count, stride);
    default:
      break;
  }
  for (std::int64_t i = 0; i < count; ++i, from += bytes, to += stride)
    std::memcpy(to, from, bytes);
  return from;
}

std::byte* pack_runs(const std::vector<Run>& runs, std::byte* to, const std::byte* from) noexcept {
  for (const Run& run : runs) {
    const std::byte* first = from + run.offset;
    if (run.bytes != 0) {
      to = gather(to, first, run.count, run.stride, run.bytes);
    } else {
      for (std::int64_t i = 0; i < run.count; ++i)
        to = pack_runs(*run.children, to, first + i * run.stride);
    }
  }
  return to;
}

const std::byte* unpack_runs(const std::vector<Run>& runs, std::byte* to,
                             const std::byte* from) noexcept {
  for (const Run& run : runs) {
    std::byte* first = to + run.offset;
    if (run.bytes != 0) {
      from = scatter(first, from, run.count, run.stride, run.bytes);
    } else {
      for (std::int64_t i = 0; i < run.count; ++i)
        from = unpack_runs(*run.children, first + i * run.stride, from);
    }
  }
  return from;
}

// The first `bytes` bytes of one element.
void unpack_part(const std::vector<Run>& runs, std::byte* to, const std::byte*& from,
                 std::size_t& bytes) noexcept {
  for (const Run& run : runs) {
    for (std::int64_t i = 0; i < run.count && bytes != 0; ++i) {
      std::byte* place = to + run.offset + i * run.stride;
      if (run.bytes == 0) {
        unpack_part(*run.children, place, from, bytes);
        continue;
      }
      const std::size_t n = std::min(run.bytes, bytes);
      std::memcpy(place, from, n);
      from += n;
      bytes -= n;
    }
  }
}

}  // namespace

void Layout::add(Run run) {
  if (run.count == 1) run.stride = 0;
  // Blocks without gaps are one block.
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
    // One run repeated is one longer run if the repetition goes on where it ends.
    if (run.count == 1 || stride == run.count * run.stride) {
      if (run.count == 1) run.stride = stride;
      run.count *= count;
      run.offset += offset;
      return add(std::move(run));
    }
  }
  add({offset, count, stride, 0, std::make_shared<const std::vector<Run>>(element.runs_)});
}

std::byte* Layout::pack(std::byte* to, const std::byte* from, std::int64_t count,
                        std::ptrdiff_t extent) const noexcept {
  if (runs_.size() == 1 && runs_[0].bytes != 0 && runs_[0].count == 1)
    return gather(to, from + runs_[0].offset, count, extent, runs_[0].bytes);
  for (std::int64_t i = 0; i < count; ++i) to = pack_runs(runs_, to, from + i * extent);
  return to;
}

void Layout::unpack(std::byte* to, const std::byte* from, std::int64_t count, std::ptrdiff_t extent,
                    std::size_t size, std::size_t bytes) const noexcept {
  if (size == 0) return;
  const auto whole = std::min<std::int64_t>(count, static_cast<std::int64_t>(bytes / size));
  if (runs_.size() == 1 && runs_[0].bytes != 0 && runs_[0].count == 1)
    from = scatter(to + runs_[0].offset, from, whole, extent, runs_[0].bytes);
  else
    for (std::int64_t i = 0; i < whole; ++i) from = unpack_runs(runs_, to + i * extent, from);
  std::size_t rest = whole < count ? bytes % size : 0;
  if (rest != 0) unpack_part(runs_, to + whole * extent, from, rest);
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
