#include "segment.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace weft::objstore {

Status Segment::open(std::uint64_t capacity, std::uint64_t piece_bytes, bool huge_pages) {
  page_bytes_ = huge_pages ? 2 << 20 : 4096;
  const auto rounded = [this](std::uint64_t bytes) {
    return (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  };
  capacity_ = rounded(std::max<std::uint64_t>(capacity, 1));
  piece_bytes_ = rounded(std::max<std::uint64_t>(piece_bytes, 1));
  if (Status status = make_memory("weft-segment", huge_pages, file_); !status) return status;
  if (Status status = memory_.map(file_, capacity_, true); !status) return status;
  return forbid_new_writers(file_);
}

Status Segment::grow(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& grown) {
  const std::uint64_t wanted =
      std::max(piece_bytes_, (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_);
  const std::uint64_t more = std::min(wanted, capacity_ - bytes_);
  if (more == 0) return Code::no_memory;
  // fallocate also makes the file longer.
  if (Status status = back_with_memory(file_, bytes_, more); !status) return status;
  // All pages at once: a fault for each would cost a put more than its copy. Where the kernel is
  // too old for it they come one by one.
  ::madvise(memory_.data() + bytes_, more, MADV_POPULATE_WRITE);
  offset = bytes_;
  grown = more;
  bytes_ += more;
  return Code::ok;
}

}  // namespace weft::objstore
