#pragma once
// Blocks: registered memory of this process in pieces of one size, for the buffers that the device
// sends from and receives into. It grows by chunks, and gives them back when it ends. Any thread.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "fabric/verbs/registrations.hpp"
#include "weft/status.hpp"

namespace weft::fabric::verbs {

struct Block {
  std::byte* data = nullptr;
  std::uint32_t lkey = 0;
};

class Blocks {
 public:
  // access: of the device, as ibv_reg_mr has it.
  Blocks(weft::verbs::Registrations& registrations, int access, std::size_t block_bytes,
         std::size_t per_chunk)
      : registrations_(registrations),
        access_(access),
        block_bytes_(block_bytes),
        per_chunk_(per_chunk) {}
  Blocks(const Blocks&) = delete;
  ~Blocks();
  // no_memory: with the message of the device or the kernel.
  Status take(Block& block);
  void give(const Block& block);

 private:
  struct Chunk {
    void* data;
    std::size_t bytes;
    ibv_mr* mr;
  };
  Status add_chunk(std::size_t num_blocks);
  weft::verbs::Registrations& registrations_;
  const int access_;
  const std::size_t block_bytes_, per_chunk_;
  std::mutex mutex_;
  std::vector<Chunk> chunks_;
  std::vector<Block> free_;
};

}  // namespace weft::fabric::verbs
