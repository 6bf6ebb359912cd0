#include "job/crash.hpp"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string_view>

namespace weft::crash {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
constexpr int kMostWaitMs = 6000;  // beyond what the launcher takes for it
constexpr int kPauseMs = 10;

// What the handler needs, written before it is set.
struct Told {
  pid_t process = 0;
  int rank = -1;
  sockaddr_un address{};
  socklen_t address_length = 0;
  std::atomic<bool> is_telling{false};
};
Told told;

// A stack that is full is no place for a handler. Of the thread that joins the job. As large as a
// stack, as handlers of the program may run on it too, with a page below that nobody may write.
constexpr std::size_t kStackBytes = 8u << 20, kGuardBytes = 64u << 10;

void set_stack() noexcept {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  mprotect(memory, kGuardBytes, PROT_NONE);
  stack = {};
  stack.ss_sp = static_cast<char*>(memory) + kGuardBytes;
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
}

void take_registers(const ucontext_t& context, Notice& notice) noexcept {
#if defined(__x86_64__)
  const auto& from = context.uc_mcontext.gregs;
  constexpr int kOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (const int number : kOrder)
    notice.registers[notice.num_registers++] = static_cast<std::uint64_t>(from[number]);
  notice.pc = static_cast<std::uint64_t>(from[REG_RIP]);
  notice.sp = static_cast<std::uint64_t>(from[REG_RSP]);
  constexpr int kPageFault = 14, kWrites = 2, kFetches = 16;
  if (from[REG_TRAPNO] == kPageFault)
    notice.access = (from[REG_ERR] & kFetches) != 0  ? Notice::Access::jump
                    : (from[REG_ERR] & kWrites) != 0 ? Notice::Access::write
                                                     : Notice::Access::read;
#elif defined(__aarch64__)
  for (const auto value : context.uc_mcontext.regs)
    notice.registers[notice.num_registers++] = value;
  notice.registers[notice.num_registers++] = context.uc_mcontext.sp;
  notice.pc = context.uc_mcontext.pc;
  notice.sp = context.uc_mcontext.sp;
#else
  (void)context, (void)notice;
#endif
}

bool connect_to_launcher(int socket) noexcept {
  const auto* address = reinterpret_cast<const sockaddr*>(&told.address);
  // Many ranks may crash at once.
  for (int left = kMostWaitMs; connect(socket, address, told.address_length) != 0;
       left -= kPauseMs) {
    if (errno != EAGAIN || left <= 0) return false;
    poll(nullptr, 0, kPauseMs);
  }
  ucred launcher{};
  socklen_t length = sizeof launcher;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &launcher, &length) != 0 ||
      launcher.uid != geteuid())
    return false;
  // Where a process is read by its ancestors alone, by what the launcher starts for it, too.
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(launcher.pid), 0, 0, 0);
  return true;
}

void tell(const siginfo_t& info, const ucontext_t& context) noexcept {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return;
  Notice notice;
  notice.rank = told.rank;
  notice.signal = info.si_signo;
  notice.code = info.si_code;
  if (info.si_code <= 0) {
    notice.number = info.si_pid;
    notice.user = static_cast<std::int32_t>(info.si_uid);
    notice.is_own = info.si_pid == told.process;
  } else if (info.si_signo == SIGSYS) {
    notice.number = info.si_syscall;
  } else {
    notice.address = reinterpret_cast<std::uint64_t>(info.si_addr);
  }
  take_registers(context, notice);
  if (connect_to_launcher(socket) &&
      send(socket, &notice, sizeof notice, MSG_NOSIGNAL) == sizeof notice) {
    pollfd end{socket, POLLIN, 0};
    poll(&end, 1, kMostWaitMs);
  }
  close(socket);
  told.is_telling = false;
}

// An exit that another thread makes meanwhile is not the end of this process.
[[gnu::destructor]] void wait_for_teller() {
  if (told.is_telling && getpid() == told.process) poll(nullptr, 0, kMostWaitMs);
}

// Makes system calls alone: the process may hold any lock, and its memory be broken. All signals
// are blocked meanwhile.
void on_crash(int number, siginfo_t* info, void* context) {
  // A handler of the program that calls the one before it may know of the number alone.
  const bool is_whole = info != nullptr &&
                        reinterpret_cast<std::uintptr_t>(info) % alignof(siginfo_t) == 0 &&
                        info->si_signo == number;
  // Not for a child that the program has forked.
  if (is_whole && getpid() == told.process) {
    if (!told.is_telling.exchange(true))
      tell(*info, *static_cast<const ucontext_t*>(context));
    else
      poll(nullptr, 0, kMostWaitMs);  // for another thread, which ends the process
  }
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  sigaction(number, &plain, nullptr);
  // The same signal again, with the same cause, which comes when the handler returns.
  if (!is_whole || syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0)
    raise(number);
}

bool is_default(int number) noexcept {
  struct sigaction now {};
  return sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_DFL;
}

// Valgrind itself tells of the same signals.
bool is_under_valgrind() noexcept {
  const char* loaded = getenv("LD_PRELOAD");
  return loaded != nullptr && strstr(loaded, "/vgpreload_") != nullptr;
}

void set_handlers(std::string_view name, int rank) noexcept {
  if (name.empty() || name.size() + 1 > sizeof told.address.sun_path || is_under_valgrind()) return;
  told.process = getpid();
  told.rank = rank;
  told.address.sun_family = AF_UNIX;
  memcpy(told.address.sun_path + 1, name.data(), name.size());
  told.address_length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  set_stack();
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (const int number : kSignals)
    if (is_default(number)) sigaction(number, &action, nullptr);
}

}  // namespace

void tell_launcher(int rank) noexcept {
  const char* name = getenv(kSocketVariable);
  if (name == nullptr) return;
  static std::once_flag once;
  std::call_once(once, set_handlers, std::string_view(name), rank);
}

}  // namespace weft::crash
