#pragma once
// Mapping: anonymous memory, whole pages; they cost nothing until they are touched. One thread.
#include <cstddef>
#include <utility>

#include "weft/status.hpp"

namespace weft {

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  // Maps the memory; call it once. no_memory, with what to do about it.
  Status map(std::size_t bytes);
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft
