#include "launcher/crash/stack.hpp"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/uio.h>

#include <fstream>

#include "base/mpi_name.hpp"
#include "launcher/places/symbols.hpp"

namespace weft::weftrun {
namespace {

using crash::Notice;

constexpr std::size_t kMostFrames = 100'000;             // a stack that is full has as many
constexpr std::size_t kInnermost = 20, kOutermost = 10;  // places that are shown of a deep stack

struct Frame {
  std::uint64_t pc = 0;
  std::size_t times = 1;
};

struct Walk {
  pid_t process;
  Notice notice;
  std::vector<Frame> frames = {};
  std::size_t num = 0;
  int error = 0;  // of reading its memory
};

bool read_word(Walk& walk, std::uint64_t address, std::uint64_t& word) {
  iovec to{&word, sizeof word}, from{reinterpret_cast<void*>(address), sizeof word};
  if (process_vm_readv(walk.process, &to, 1, &from, 1, 0) == sizeof word) return true;
  walk.error = errno;
  return false;
}

pid_t next_thread(Dwfl*, void* walk, void** thread) {
  if (*thread != nullptr) return 0;  // one is all there is
  *thread = walk;
  return static_cast<Walk*>(walk)->process;
}

bool get_thread(Dwfl*, pid_t, void* walk, void** thread) {
  *thread = walk;
  return true;
}

bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* walk) {
  std::uint64_t read = 0;
  if (!read_word(*static_cast<Walk*>(walk), address, read)) return false;
  *word = read;
  return true;
}

bool set_registers(Dwfl_Thread* thread, void* data) {
  const Notice& notice = static_cast<Walk*>(data)->notice;
  Dwarf_Word registers[Notice::kMostRegisters + 1];
  unsigned num = 0;
  for (; num < notice.num_registers; ++num) registers[num] = notice.registers[num];
#if defined(__x86_64__)
  registers[num++] = notice.pc;  // in the place of the return address
#else
  dwfl_thread_state_register_pc(thread, notice.pc);
#endif
  return dwfl_thread_state_registers(thread, 0, num, registers);
}

const Dwfl_Thread_Callbacks kCallbacks = {next_thread,   get_thread, read_memory,
                                          set_registers, nullptr,    nullptr};

int take_frame(Dwfl_Frame* frame, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  Dwarf_Addr pc = 0;
  bool is_exact = false;
  if (!dwfl_frame_pc(frame, &pc, &is_exact)) return DWARF_CB_ABORT;
  // A call that does not return is the last instruction of its function.
  if (!is_exact) --pc;
  if (!walk.frames.empty() && walk.frames.back().pc == pc)
    ++walk.frames.back().times;
  else
    walk.frames.push_back({pc});
  return ++walk.num < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// After a jump to where no code is: as if that had returned at once. The place is the call, not
// what comes behind it.
bool step_out(Walk& walk) {
#if defined(__x86_64__)
  constexpr std::size_t kStackPointer = 7;
  Notice& notice = walk.notice;
  if (!read_word(walk, notice.sp, notice.pc)) return false;
  --notice.pc;
  notice.sp += sizeof(std::uint64_t);
  notice.registers[kStackPointer] = notice.sp;
#elif defined(__aarch64__)
  constexpr std::size_t kLink = 30;
  walk.notice.pc = walk.notice.registers[kLink] - 1;
#else
  return false;
#endif
  return true;
}

pid_t debugger_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kName = "TracerPid:";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kName)) return static_cast<pid_t>(atoi(line.c_str() + kName.size()));
  return 0;
}

std::string why_unreadable(int error) {
  return fmt::format(
      "the rest of its stack is not known: its memory may not be read: {}{}", strerror(error),
      error == EPERM ? " (/proc/sys/kernel/yama/ptrace_scope, or the container, forbids it)" : "");
}

// What the C library has around a thread or program.
bool is_outermost(const std::string& name) {
  return name == "main" || name == "start_thread" || name == "clone3" ||
         name == "__libc_start_call_main";
}

void take_lines(const Symbols& symbols, const Frame& frame, Stack& stack, bool& is_over) {
  std::vector<Line> lines = symbols.lines_at(frame.pc);
  if (lines.empty()) lines.push_back({"", "", 0, "no file's code: address ", frame.pc});
  for (const Line& line : lines) {
    if (is_mpi_function(line.function)) stack.call = without_p(line.function);
    is_over = is_outermost(line.function);
    if (is_over && line.function != "main") return;
    std::string place = line.text();
    if (frame.times > 1) place += fmt::format(", {} times", frame.times);
    stack.places.push_back(std::move(place));
    if (is_over) return;
  }
}

}  // namespace

Stack read_stack(pid_t process, const Notice& notice) {
  Stack stack;
  if (const pid_t debugger = debugger_of(process); debugger != 0) {
    stack.missing = fmt::format("process {} debugs it, and can show its stack", debugger);
    return stack;
  }
  if (notice.pc == 0 && notice.num_registers == 0) {
    stack.missing = "stacks are not read on this kind of processor";
    return stack;
  }
  const Symbols symbols(process);
  Walk walk{process, notice};
  if (symbols.lines_at(notice.pc).empty()) {
    stack.places.push_back(fmt::format("address {:#x}, where no code is", notice.pc));
    if (!step_out(walk)) {
      stack.missing = walk.error != 0 ? why_unreadable(walk.error) : "";
      return stack;
    }
  }
  if (!dwfl_attach_state(symbols.dwfl(), nullptr, process, &kCallbacks, &walk)) {
    stack.missing = fmt::format("its stack is not known: {}", dwfl_errmsg(-1));
    return stack;
  }
  const bool is_whole =
      dwfl_getthread_frames(symbols.dwfl(), process, take_frame, &walk) == DWARF_CB_OK;
  if (walk.frames.empty()) walk.frames.push_back({walk.notice.pc});
  bool is_over = false;
  const std::size_t num = walk.frames.size();
  for (std::size_t i = 0; i < num && !is_over; ++i) {
    if (num > kInnermost + kOutermost && i == kInnermost) {
      i = num - kOutermost;
      stack.places.push_back(fmt::format("{} more", i - kInnermost));
    }
    take_lines(symbols, walk.frames[i], stack, is_over);
  }
  if (is_over) return stack;
  if (walk.num >= kMostFrames)
    stack.missing = "its stack is deeper than that";
  else if (walk.error != 0)
    stack.missing = why_unreadable(walk.error);
  else if (!is_whole)
    stack.missing = "the rest of its stack is not known";
  return stack;
}

std::string encode(const Stack& stack) {
  std::string text = fmt::format("{}\n{}\n", stack.call, stack.missing);
  for (const std::string& place : stack.places) text += place + '\n';
  return text;
}

bool decode(const std::string& text, Stack& stack) {
  if (text.empty() || text.back() != '\n') return false;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() < 2) return false;
  stack.call = lines[0];
  stack.missing = lines[1];
  stack.places.assign(lines.begin() + 2, lines.end());
  return true;
}

}  // namespace weft::weftrun
