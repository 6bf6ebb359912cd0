#pragma once
// Mapping: mapped memory, whole pages, which cost nothing until they are touched. One thread.
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
  // Maps memory of this process alone. no_memory, with what to do about it. Call one of the two,
  // once.
  Status map(std::size_t bytes);
  // Maps a part of a shared file (shared_memory.hpp); offset: a multiple of the page size.
  Status map_file(int fd, std::size_t bytes, bool is_writable = true, std::size_t offset = 0);
  explicit operator bool() const noexcept { return data_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Status map(int fd, std::size_t bytes, int rights, int flags, std::size_t offset);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft
