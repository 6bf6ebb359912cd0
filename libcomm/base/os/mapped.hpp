#pragma once
// What the kernel says of this process's own memory. Any thread; reads /proc, so not on a datapath.
#include <cstddef>

#include "weft/status.hpp"

namespace weft {

// Whether this process can write all of these bytes now, as far as its mappings tell: true where
// there is no /proc. no_memory: no descriptor is left to look.
Status find_writable(const void* address, std::size_t bytes, bool& is_writable);

}  // namespace weft
