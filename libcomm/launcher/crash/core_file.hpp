#pragma once
// Where the kernel leaves the core file of a process.
#include <sys/types.h>

#include <string>
#include <string_view>

namespace weft::weftrun {

struct CoreNames {
  std::string pattern;        // of /proc/sys/kernel/core_pattern
  bool adds_process = false;  // of core_uses_pid
  pid_t process = 0;
  std::string program, host, folder;
};

// "/home/me/core.4711", or "a pipe to PROGRAM". What is only known later is a *.
std::string core_file_of(const CoreNames& names);
// The same of a process that runs.
std::string core_file_of(pid_t process);

}  // namespace weft::weftrun
