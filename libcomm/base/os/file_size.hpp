#pragma once
// Sizing files without the signal that ends a process. Any thread.
#include <cstddef>

namespace weft {

// Returns true if the limit of file sizes (RLIMIT_FSIZE, ulimit -f), which applies to memfds, too,
// allows so many bytes. A write or ftruncate beyond it would end the process with SIGXFSZ.
bool is_file_size_allowed(std::size_t bytes) noexcept;

// ftruncate that fails with EFBIG there instead. False: see errno.
bool size_file(int fd, std::size_t bytes) noexcept;

}  // namespace weft
