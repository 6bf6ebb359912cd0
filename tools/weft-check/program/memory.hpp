#pragma once
// Memory: the blocks that the program has from malloc and its like, which this library takes over.
// Threads: any.
#include <cstddef>
#include <cstdint>

namespace weft::check {

struct Block {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;  // as the program asked for
};

// Called when the library is loaded.
void begin_memory();

// The block that contains the address.
bool block_of(std::uintptr_t address, Block& out);

// Changes when a block is given back.
std::uint64_t num_freed();

// Called before a block is given back; null: nobody wants to know. What it allocates is not kept
// account of.
using OnFree = void (*)(const Block& block, const void* caller);
void set_on_free(OnFree function);

// While one lives, this thread's allocations are this library's own.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
};

}  // namespace weft::check
