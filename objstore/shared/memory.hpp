#pragma once
// Memory that has a descriptor and no name: memfds and their mappings.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/os/descriptor.hpp"
#include "weft/status.hpp"

namespace weft::objstore {

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  // Maps a file from its start. no_memory, not_permitted.
  Status map(const Descriptor& file, std::size_t bytes, bool is_writable);
  // A page of this process's own, which its children by fork have as zeros. no_memory, unsupported.
  Status map_own_page();
  std::byte* data() const { return address_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

// Distinguishes a process from its children by fork, without a system call.
class ForkMark {
 public:
  // no_memory.
  Status make();
  bool is_child() const {
    return *static_cast<const volatile std::byte*>(page_.data()) == std::byte{0};
  }

 private:
  Mapping page_;
};

// A memfd; huge: of pages of 2 MiB that the system has set aside. no_memory.
Status make_memory(const char* name, bool huge, Descriptor& file);
// A memfd of this length for good, all zero: nobody can shrink it while another process has it
// mapped.
Status make_sealed_memory(const char* name, std::size_t bytes, Descriptor& file);
// Forbids new writable mappings and writes through descriptors, also through one that is opened
// anew; existing mappings stay.
Status forbid_new_writers(const Descriptor& file);
// Makes the file at least this long, with memory behind all of the range. no_memory.
Status back_with_memory(const Descriptor& file, std::uint64_t offset, std::uint64_t bytes);

// "what: reason" of errno, with the code that fits.
Status system_error(const std::string& what);

}  // namespace weft::objstore
