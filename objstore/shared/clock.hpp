#pragma once
// The clock of all times in the index: CLOCK_MONOTONIC, the same for all processes.
#include <cstdint>

namespace weft::objstore {
std::uint64_t monotonic_ns();

// The time `timeout_ms` from now; UINT64_MAX (never) if it is below 0.
std::uint64_t deadline_after(std::int64_t timeout_ms);
// The remainder of a timeout that began at begin_ns; timeouts below 0 stay as they are.
std::int64_t left_ms(std::int64_t timeout_ms, std::uint64_t begin_ns);
}  // namespace weft::objstore
