#pragma once
// Buffer: an array of plain values in page-aligned, zeroed memory. In a job of several ranks the
// others can read it with Job::rdma_read; in a job of one, or where that is not wanted, it is
// ordinary memory, in large pages if it is large. Or it is a part of a file, which is not changed.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/export.hpp"
#include "weft/job.hpp"

namespace weft::graph {

namespace detail {

// Memory for Buffer; throws weft::Error (no_memory). `job` may be null: ordinary memory, of which
// each thread uses its own.
class WEFT_API Pages {
 public:
  Pages() noexcept = default;
  Pages(transport::Job* job, std::size_t bytes, bool is_remote);
  // Those of a file from byte `offset` on, to be read alone; the kernel reads them when they are
  // used, and drops them when memory is short. The file must not get shorter.
  Pages(int descriptor, std::uint64_t offset, std::size_t bytes);
  Pages(Pages&& other) noexcept { swap(other); }
  Pages& operator=(Pages&& other) noexcept {
    Pages(std::move(other)).swap(*this);
    return *this;
  }
  ~Pages();
  void swap(Pages& other) noexcept {
    std::swap(job_, other.job_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(remote_, other.remote_);
  }
  void* address() const noexcept { return address_; }
  const transport::RemoteMemory& remote() const noexcept { return remote_; }

 private:
  transport::Job* job_ = nullptr;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  transport::RemoteMemory remote_;
};

}  // namespace detail

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() noexcept = default;
  Buffer(transport::Job* job, std::size_t size, bool is_remote = true)
      : pages_(job, size * sizeof(T), is_remote), size_(size) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  // `size` values of a file, at `offset`, a multiple of their size: constant, and not remote.
  // Throws weft::Error (no_memory).
  static Buffer of_file(int descriptor, std::uint64_t offset, std::size_t size) {
    Buffer buffer;
    buffer.pages_ = detail::Pages(descriptor, offset, size * sizeof(T));
    buffer.size_ = size;
    return buffer;
  }
  void swap(Buffer& other) noexcept {
    pages_.swap(other.pages_);
    std::swap(size_, other.size_);
  }

  T* data() const noexcept { return static_cast<T*>(pages_.address()); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size_; }
  // Of no owner in a job of one, for no elements, and where it is not remote.
  const transport::RemoteMemory& remote() const noexcept { return pages_.remote(); }

 private:
  detail::Pages pages_;
  std::size_t size_ = 0;
};

}  // namespace weft::graph
