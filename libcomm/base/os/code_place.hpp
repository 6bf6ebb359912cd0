#pragma once
// Where an address of code lies: as dladdr(), but without the loader's lock, which a thread may
// hold for as long as it likes (in the constructor of a library that it loads). Of a function that
// cannot be unloaded meanwhile, as one on the caller's stack.
#include <link.h>

namespace weft {

struct CodePlace {
  const link_map* file = nullptr;  // l_name is empty for the program itself
  const char* symbol = nullptr;    // that the file exports; null: none is there
};

// Returns false if no file has the address. Any thread; allocates no memory.
bool find_code(const void* address, CodePlace& place) noexcept;

}  // namespace weft
