#include "exchange/staging.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/shortage.hpp"

namespace weft::transport {
namespace {
// The allocation that small buffers are cut from, as each region costs a descriptor.
constexpr std::size_t kSlabBytes = std::size_t{1} << 20;
}  // namespace

void StagingPool::close() noexcept {
  for (void* slab : slabs_) (void)job_->release(slab);
  slabs_.clear();
}

Code StagingPool::take(std::size_t bytes, Buffer& buffer) {
  const std::size_t whole = bytes + sizeof(StagingHead);
  const int size_class = std::max(kMinClass, static_cast<int>(std::bit_width(whole - 1)));
  if (size_class > kMaxClass) return Code::bad_argument;
  auto& free = free_[static_cast<std::size_t>(size_class - kMinClass)];
  // Even if some are free, as a buffer that was just read is warm in the caches.
  collect();
  if (free.empty()) {
    if (const Code code = grow(size_class); code != Code::ok) return code;
  }
  buffer = free.back();
  free.pop_back();
  buffer.use = last_use_ += 2;
  // relaxed: the RTS follows later. Atomic, as a repeated compare-and-swap may still read the word.
  std::atomic_ref(buffer.head->fin).store(buffer.use, std::memory_order_relaxed);
  return Code::ok;
}

Code StagingPool::grow(int size_class) {
  const std::size_t each = std::size_t{1} << size_class;
  const std::size_t slab = std::max(each, kSlabBytes);
  // The limit does not apply to a single message.
  if (allocated_ + slab > limit_ && !pinned_.empty()) return Code::again;
  // All bookkeeping memory is allocated before the slab.
  const std::size_t num_new = slab / each;
  std::size_t& num_made = num_made_[static_cast<std::size_t>(size_class - kMinClass)];
  auto& free = free_[static_cast<std::size_t>(size_class - kMinClass)];
  make_room(slabs_);
  make_room(free, num_made + num_new - free.size());
  make_room(pinned_, num_buffers_ + num_new - pinned_.size());
  void* address = nullptr;
  RemoteMemory memory;
  if (Status status = job_->allocate(slab, address, memory); !status)
    return pinned_.empty() ? status.code() : Code::again;
  slabs_.push_back(address);
  allocated_ += slab;
  num_made += num_new;
  num_buffers_ += num_new;
  for (std::size_t offset = 0; offset < slab; offset += each) {
    Buffer buffer;
    buffer.head = reinterpret_cast<StagingHead*>(static_cast<std::byte*>(address) + offset);
    buffer.memory = memory;
    buffer.memory.address += offset;
    buffer.memory.bytes = each;
    buffer.size_class = size_class;
    give_back(buffer);
  }
  return Code::ok;
}

void StagingPool::collect() {
  std::erase_if(pinned_, [this](const Buffer& buffer) {
    // acquire: all reads of the block; pairs with the reader's release (or its put).
    if (std::atomic_ref(buffer.head->fin).load(std::memory_order_acquire) == buffer.use)
      return false;
    give_back(buffer);
    return true;
  });
}

void StagingPool::forget(int peer, bool reuse) {
  std::erase_if(pinned_, [=, this](const Buffer& buffer) {
    if (buffer.peer != peer) return false;
    if (reuse) give_back(buffer);
    return true;
  });
}

}  // namespace weft::transport
