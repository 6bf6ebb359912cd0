#pragma once
// Queries of this process's own mappings. Any thread; reads /proc, so not on a datapath.
#include <cstddef>

#include "weft/status.hpp"

namespace weft {

// Reports whether this process can write all of these bytes now, according to its mappings: true
// where there is no /proc. no_memory: no descriptor is left to read /proc with.
Status find_writable(const void* address, std::size_t bytes, bool& is_writable);

}  // namespace weft
