#include "weft/graph/buffer.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace weft::graph::detail {
namespace {

// Buffers of at least this size use huge pages. In smaller ones zeroing them costs more than it
// saves.
constexpr std::size_t kLeastForLargePages = std::size_t{8} << 20;

// Of an address in its page. Memory that is not of a file begins with one.
std::uintptr_t place_in_page(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) %
         static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
}

// All threads access the whole buffer, so its pages are interleaved over the NUMA nodes that this
// process may use. A failure costs only speed.
void interleave(void* address, std::size_t bytes) {
  constexpr unsigned long kMaxNodes = 1024;  // as many as Linux can be built for
  unsigned long nodes[kMaxNodes / (8 * sizeof(unsigned long))] = {};
  if (syscall(SYS_get_mempolicy, nullptr, nodes, kMaxNodes, nullptr, MPOL_F_MEMS_ALLOWED) != 0)
    return;
  (void)syscall(SYS_mbind, address, bytes, MPOL_INTERLEAVE, nodes, kMaxNodes, 0);
}

}  // namespace

Pages::Pages(transport::Job* job, std::size_t bytes, bool is_remote) : bytes_(bytes) {
  if (bytes == 0) return;
  if (job != nullptr && job->size() > 1 && is_remote) {
    const Status status = job->allocate(bytes, address_, remote_);
    if (!status.ok()) throw Error(status);
    job_ = job;
    interleave(address_, bytes);
    return;
  }
  void* const found =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED)
    throw Error(
        {Code::no_memory, "no " + std::to_string(bytes) + " bytes of memory for the graph"});
  address_ = found;
  if (job != nullptr) interleave(address_, bytes);
  if (bytes >= kLeastForLargePages) (void)madvise(address_, bytes, MADV_HUGEPAGE);
}

Pages::Pages(int descriptor, std::uint64_t offset, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::uint64_t before = offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  void* const found = mmap(nullptr, bytes + before, PROT_READ, MAP_SHARED, descriptor,
                           static_cast<off_t>(offset - before));
  if (found == MAP_FAILED)
    throw Error({Code::no_memory, "cannot map " + std::to_string(bytes) +
                                      " bytes of the graph's cache: " + std::strerror(errno)});
  address_ = static_cast<std::byte*>(found) + before;
}

Pages::~Pages() {
  if (address_ == nullptr) return;
  if (job_ != nullptr)
    (void)job_->release(address_);  // a peer that does not respond keeps the memory mapped
  else
    munmap(static_cast<std::byte*>(address_) - place_in_page(address_),
           bytes_ + place_in_page(address_));
}

}  // namespace weft::graph::detail
