#include "launcher/crash/cause.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <array>

namespace weft::weftrun {
namespace {

using crash::Notice;

constexpr int kOfKernel = 128;  // SI_KERNEL

struct Row {
  int signal, code;
  const char* text;  // {}: the address
};
constexpr std::array kRows = {
    Row{SIGBUS, BUS_ADRALN, "address {} is not aligned"},
    Row{SIGBUS, BUS_ADRERR,
        "address {} is beyond the end of the file that is mapped there, or has no memory left"},
    Row{SIGBUS, BUS_OBJERR, "the hardware fails at address {}"},
    Row{SIGBUS, 4, "the memory at address {} is defective"},
    Row{SIGBUS, 5, "the memory at address {} is defective"},
    Row{SIGFPE, FPE_INTDIV, "an integer is divided by zero at {}"},
    Row{SIGFPE, FPE_INTOVF, "an integer is too large at {}"},
    Row{SIGFPE, FPE_FLTDIV, "a floating-point number is divided by zero at {}"},
    Row{SIGFPE, FPE_FLTOVF, "a floating-point number is too large at {}"},
    Row{SIGFPE, FPE_FLTUND, "a floating-point number is too small at {}"},
    Row{SIGFPE, FPE_FLTRES, "a floating-point result is not exact at {}"},
    Row{SIGFPE, FPE_FLTINV, "a floating-point operation has no valid result at {}"},
    Row{SIGTRAP, TRAP_BRKPT, "a breakpoint at {} without a debugger"},
    Row{SIGTRAP, kOfKernel, "a breakpoint without a debugger"},
};

std::string hex(std::uint64_t address) { return fmt::format("{:#x}", address); }

const char* access_of(const Notice& notice) {
  switch (notice.access) {
    case Notice::Access::read:
      return "read of";
    case Notice::Access::write:
      return "write to";
    case Notice::Access::jump:
      return "jump to";
    case Notice::Access::unknown:
      break;
  }
  return "access to";
}

}  // namespace

bool is_stack_full(const Notice& notice) {
  // A function goes below its stack pointer by little, or moves it first; above it is what is in
  // use.
  constexpr std::uint64_t kNear = 64u << 10, kPage = 4096;
  return notice.signal == SIGSEGV && notice.code > 0 && notice.code != kOfKernel &&
         notice.sp > kNear && notice.address + kNear >= notice.sp &&
         notice.address < notice.sp + kPage;
}

std::string cause_of(const Notice& notice) {
  if (notice.code <= 0) {  // a process has sent it
    if (!notice.is_own)
      return fmt::format("sent by process {} of user {}", notice.number, notice.user);
    return notice.signal == SIGABRT ? "abort()" : "sent by the process itself";
  }
  if (notice.signal == SIGSEGV) {
    const std::string access = fmt::format("{} address {}", access_of(notice), hex(notice.address));
    if (is_stack_full(notice)) return access + ": the stack is full (ulimit -s)";
    if (notice.code == SEGV_MAPERR) return access + ", which is not mapped";
    if (notice.code == SEGV_ACCERR) return access + ", for which there is no permission";
    if (notice.code == kOfKernel) return "an address that no memory can have";
    return access;
  }
  if (notice.signal == SIGILL) return "the instruction at " + hex(notice.address);
  if (notice.signal == SIGSYS)
    return fmt::format("system call {}, which is not allowed", notice.number);
  for (const Row& row : kRows)
    if (row.signal == notice.signal && row.code == notice.code)
      return fmt::format(fmt::runtime(row.text), hex(notice.address));
  return "";
}

}  // namespace weft::weftrun
