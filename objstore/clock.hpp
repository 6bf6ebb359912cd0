#pragma once
// The clock that times in the index are told by: CLOCK_MONOTONIC, the same for all processes.
#include <cstdint>

namespace weft::objstore {
std::uint64_t monotonic_ns();
}
