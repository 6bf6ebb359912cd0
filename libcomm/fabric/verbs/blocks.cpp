#include "fabric/verbs/blocks.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/shortage.hpp"

namespace weft::fabric::verbs {

Blocks::~Blocks() {
  for (const Chunk& chunk : chunks_) {
    (void)ibv_dereg_mr(chunk.mr);
    ::munmap(chunk.data, chunk.bytes);
  }
}

Status Blocks::take(Block& block) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    // Where many are too much for a limit, there may be room for one.
    Status status = add_chunk(per_chunk_);
    if (!status && per_chunk_ > 1 && add_chunk(1)) status = {};
    if (!status) return status;
  }
  block = free_.back();
  free_.pop_back();
  return {};
}

Status Blocks::add_chunk(std::size_t num_blocks) {
  make_room(chunks_);
  free_.reserve((chunks_.size() + 1) * per_chunk_);  // giving back wants no memory
  const std::size_t bytes = block_bytes_ * num_blocks;
  Chunk chunk{::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
              bytes, nullptr};
  if (chunk.data == MAP_FAILED)
    return {Code::no_memory, fmt::format("cannot map {} bytes: {}", bytes, std::strerror(errno))};
  if (Status status = registrations_.make(chunk.data, bytes, access_, chunk.mr); !status) {
    ::munmap(chunk.data, bytes);
    return status;
  }
  chunks_.push_back(chunk);
  for (std::size_t i = num_blocks; i-- > 0;)
    free_.push_back({static_cast<std::byte*>(chunk.data) + i * block_bytes_, chunk.mr->lkey});
  return {};
}

void Blocks::give(const Block& block) {
  std::lock_guard lock(mutex_);
  free_.push_back(block);
}

}  // namespace weft::fabric::verbs
