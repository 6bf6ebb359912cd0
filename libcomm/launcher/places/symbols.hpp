#pragma once
// Symbols: functions and lines of a program and its libraries, from their files, by libdw. To be
// used in a process of its own (aside.hpp), as the files may be large, or broken.
#include <elfutils/libdwfl.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft::weftrun {

struct Line {
  std::string function;  // empty: unknown
  std::string file;      // the last part of its path; empty: unknown
  int number = 0;
  std::string module;        // the program or library
  std::uint64_t offset = 0;  // there

  // "solve (solve.c:41)", "solve (libsolve.so)" or "libsolve.so+0x1f"
  std::string text() const;
};

class Symbols {
 public:
  // Of the files that a process has mapped.
  explicit Symbols(pid_t process);
  // Of one file, at the addresses that stand in it.
  explicit Symbols(const std::string& file);
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;
  ~Symbols();

  // The line of an address, and of the calls into which it was inlined. Empty: the address is in no
  // file.
  std::vector<Line> lines_at(std::uint64_t address) const;
  Dwfl* dwfl() const { return dwfl_; }

 private:
  std::string root_;  // of the process
  Dwfl* dwfl_ = nullptr;
};

}  // namespace weft::weftrun
