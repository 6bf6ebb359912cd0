#pragma once
// Shared memory of the processes of a host: files without a name, so that nothing is left when a
// process ends in any manner. Others map one by a descriptor that was sent to them, or open it by
// its owner's process and descriptor. Any thread.
#include <cstddef>

#include "base/os/descriptor.hpp"
#include "weft/status.hpp"

namespace weft {

// Makes a file of this size, all zero, for this user alone. Its size is fixed: memory that shrank
// under a process that has it mapped would end that process (SIGBUS). no_memory, with what to do.
Status make_shared_file(const char* name, std::size_t bytes, Descriptor& file);

// The size of a file that cannot shrink any more; 0: it can, or is no such file.
std::size_t fixed_bytes(int fd) noexcept;

// Opens for reading and writing the file that another process has open as `fd`; -1: see errno.
// more: flags.
int open_of(int pid, int fd, int more = 0) noexcept;

// Returns true if the process is gone or ending: its files are closed, some time before its
// watchers are notified, and longer if it had much memory.
bool is_ending(int pid) noexcept;

}  // namespace weft
