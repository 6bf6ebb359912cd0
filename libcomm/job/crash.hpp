#pragma once
// A crash of this process, told to the one that watches over it: weftrun, or its agent on this
// host. The process only says what signal it got, with its registers, and waits until its memory
// has been read from outside (launcher/crash/); then the signal takes its course, as if nothing had
// been there: the exit status, core files and their contents are the same.
//
// Threads: any.
//
// Tests: crash_* of tests/mpi/list.txt.
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::crash {

// The name of the abstract socket that hears it, of SOCK_SEQPACKET. May be missing, or empty: then
// nobody does.
inline constexpr const char* kSocketVariable = "WEFT_CRASH_SOCKET";

// The one message there is on a connection, whose end says that the process may go on.
struct Notice {
  static constexpr std::uint64_t kMagic = 0x3168736172637477;  // changes with the format
  // In DWARF's order: of x86-64 16, of AArch64 the general ones and the stack pointer. Others: 0.
  static constexpr std::size_t kMostRegisters = 32;

  std::uint64_t magic = kMagic;
  std::int32_t rank = -1;
  std::int32_t signal = 0;
  std::int32_t code = 0;    // si_code
  std::int32_t number = 0;  // of the sender's process, or of the refused system call
  std::int32_t user = 0;    // the sender's
  std::uint32_t num_registers = 0;
  std::uint64_t address = 0;  // si_addr
  std::uint64_t pc = 0, sp = 0;
  enum class Access : std::uint32_t { unknown, read, write, jump } access = Access::unknown;
  std::int32_t is_own = 0;  // the process has sent the signal to itself, as abort() does
  std::array<std::uint64_t, kMostRegisters> registers{};
};

// Tells, from now on, of signals that end this process by an error of its own. Signals that the
// program has a handler for are left alone, as are those that it sets one for later. Does nothing
// where nobody hears it, and once it has been called.
void tell_launcher(int rank) noexcept;

}  // namespace weft::crash
