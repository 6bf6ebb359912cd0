#pragma once
// Segment: the memory that objects lie in. One memfd, mapped whole from the start, that gets memory
// in pieces as it is needed; clients map it read-only, and nobody can map it otherwise.
#include <cstddef>
#include <cstdint>
#include <functional>

#include "objstore/shared/memory.hpp"

namespace weft::objstore {

class Segment {
 public:
  // `piece_bytes`: by how much it grows at least. bad_argument, no_memory.
  Status open(std::uint64_t capacity, std::uint64_t piece_bytes, bool huge_pages);
  // Grows by at least `bytes` if the capacity allows, else by what is left of it; returns the
  // offset and the length of the new memory. no_memory: nothing is left, of the capacity or of the
  // system's memory.
  Status grow(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& grown);

  const Descriptor& file() const { return file_; }
  std::byte* data() const { return memory_.data(); }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t capacity() const { return capacity_; }

 private:
  Descriptor file_;
  Mapping memory_;
  std::uint64_t capacity_ = 0, bytes_ = 0, piece_bytes_ = 0, page_bytes_ = 4096;
};

}  // namespace weft::objstore
