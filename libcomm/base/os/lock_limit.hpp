#pragma once
// Any thread.
#include <cstddef>

namespace weft {

// The bytes that this process may pin in memory: RLIMIT_MEMLOCK, or the largest number for
// processes with CAP_IPC_LOCK and where there is no limit.
std::size_t lock_limit_bytes() noexcept;

}  // namespace weft
