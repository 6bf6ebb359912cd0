#pragma once
// The clock that times in the index are told by: CLOCK_MONOTONIC, the same for all processes.
#include <cstdint>

namespace weft::objstore {
std::uint64_t monotonic_ns();

// When so many milliseconds from now are over; below 0: never, UINT64_MAX.
std::uint64_t deadline_after(std::int64_t timeout_ms);
// What is left of so many that began at begin_ns; those below 0 stay.
std::int64_t left_ms(std::int64_t timeout_ms, std::uint64_t begin_ns);
}  // namespace weft::objstore
