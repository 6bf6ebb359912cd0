#include "tools/weft-check/program/variables.hpp"

#include <dlfcn.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <unordered_map>

#include "tools/weft-check/program/debug_info.hpp"
#include "tools/weft-check/program/memory.hpp"
#include "tools/weft-check/report.hpp"

namespace weft::check {
namespace {

constexpr std::size_t kMostFrames = 64;
constexpr std::size_t kNumKnown = 4096;
constexpr std::uint32_t kMostLooks = 64;  // at one place of the program
constexpr std::uint64_t kMostElements = 64;

struct Stack {
  std::uintptr_t begin = 0, end = 0;
};
const Stack& stack() {
  static thread_local const Stack own = [] {
    Stack found;
    pthread_attr_t attributes;
    void* begin = nullptr;
    std::size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return found;
    if (pthread_attr_getstack(&attributes, &begin, &bytes) == 0) {
      found.begin = reinterpret_cast<std::uintptr_t>(begin);
      found.end = found.begin + bytes;
    }
    pthread_attr_destroy(&attributes);
    return found;
  }();
  return own;
}

struct Walk {
  const void* library = nullptr;
  std::size_t number = 0;
  Frame frames[kMostFrames];
  std::uintptr_t bottoms[kMostFrames];  // where each frame begins
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* object) {
  Walk& walk = *static_cast<Walk*>(object);
  const std::uintptr_t bottom = _Unwind_GetCFA(context);  // of the frame inside
  if (walk.number > 0) walk.frames[walk.number - 1].cfa = bottom;
  int is_before = 0;
  const std::uintptr_t ip = _Unwind_GetIPInfo(context, &is_before);
  if (ip == 0 || walk.number == kMostFrames) return _URC_END_OF_STACK;
  Dl_info info{};
  if (walk.number == 0 && dladdr(reinterpret_cast<const void*>(ip), &info) != 0 &&
      info.dli_fbase == walk.library)
    return _URC_NO_REASON;
  Frame& frame = walk.frames[walk.number];
  frame.address = is_before == 0 ? ip - 1 : ip;
  frame.base = _Unwind_GetGR(context, 6);
  walk.bottoms[walk.number] = bottom;
  ++walk.number;
  return _URC_NO_REASON;
}

void walk_stack(Walk& walk) {
  static const void* const library = [] {
    Dl_info own{};
    return dladdr(reinterpret_cast<const void*>(&check_variable), &own) != 0 ? own.dli_fbase
                                                                             : nullptr;
  }();
  walk.library = library;
  _Unwind_Backtrace(take_frame, &walk);
}

bool is_compatible(Basic wanted, const VariableType& had, std::size_t room) {
  const Kind kind = kind_of(wanted);
  const std::size_t bytes = bytes_of(wanted);
  // Characters are bytes of anything, if there are enough of them.
  if (had.kind == Kind::character) return room >= bytes;
  if (kind == Kind::character) return true;
  const bool is_integer = kind == Kind::integer || kind == Kind::natural;
  if (had.kind == Kind::pointer) return is_integer && bytes == sizeof(void*);
  if (kind == Kind::complex && had.kind == Kind::real) return bytes == 2 * had.bytes;
  if (bytes != had.bytes) return false;
  if (kind == Kind::logical || had.kind == Kind::logical)
    return is_integer || kind == had.kind || had.kind != Kind::real;
  // size_t has no datatype of its own.
  if (is_integer && (had.kind == Kind::integer || had.kind == Kind::natural))
    return kind == had.kind || bytes == 8;
  return kind == had.kind;
}

// Compares the elements that the call accesses with those of the variable. `room`: its bytes from
// `offset` on; 0: without end.
std::string difference(const Memory& memory, const VariableType& type, std::size_t offset,
                       std::size_t room) {
  const Layout& layout = *memory.layout;
  // A pointer to characters points to bytes of anything.
  if (type.kind == Kind::character || type.bytes == 0) return "";
  std::uint64_t left = kMostElements;
  for (std::uint64_t i = 0; i < memory.count && left > 0; ++i) {
    if (!layout.has_runs) return "";
    for (const Run& run : layout.runs) {
      if (run.basic == 0) continue;
      const std::size_t bytes = bytes_of(run.basic);
      for (std::uint64_t k = 0; k < run.number && left > 0; ++k, --left) {
        const std::int64_t at = static_cast<std::int64_t>(i) * layout.extent + run.offset +
                                static_cast<std::int64_t>(k * bytes);
        if (at < 0 || (room != 0 && static_cast<std::size_t>(at) + bytes > room)) return "";
        bool is_inside = false;
        std::size_t bytes_there = 0;
        const VariableType* had = basic_at(
            type, (offset + static_cast<std::size_t>(at)) % type.bytes, is_inside, bytes_there);
        if (had != nullptr) {
          if (had->kind == Kind::complex && kind_of(run.basic) == Kind::real) return "";
          if (is_compatible(run.basic, *had, bytes_there)) continue;
          return fmt::format("the call takes what lies at byte {} of it for {}, but it is {}", at,
                             name_of(run.basic), had->name);
        }
        if (!is_inside || kind_of(run.basic) == Kind::character) return "";
        // A gap, or the inside of an element.
        for (std::size_t back = 1; back < 16 && back <= offset + static_cast<std::size_t>(at);
             ++back) {
          had = basic_at(type, (offset + static_cast<std::size_t>(at) - back) % type.bytes,
                         is_inside, bytes_there);
          if (had == nullptr) continue;
          if (had->kind == Kind::character || had->kind == Kind::complex || had->bytes <= back)
            break;
          return fmt::format(
              "the call takes what lies at byte {} of it for {}, but that is inside of {}", at,
              name_of(run.basic), had->name);
        }
        return fmt::format(
            "the call takes what lies at byte {} of it for {}, but nothing begins there", at,
            name_of(run.basic));
      }
    }
  }
  return "";
}

std::string text_of_access(const Memory& memory) {
  return fmt::format("{} {}", memory.access == Access::writes ? "writes" : "reads",
                     text_of(memory.count, *memory.layout));
}

void check_against(const Memory& memory, const Variable& variable, const char* what) {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(memory.buffer) - variable.begin;
  const std::uintptr_t end = variable.begin + variable.type.bytes;
  if (memory.end > end || memory.begin < variable.begin) {
    report("size",
           fmt::format("{} is too small: the call {}, up to {} bytes from the variable `{}` of {} "
                       "bytes{}",
                       what, text_of_access(memory), memory.end - variable.begin, variable.name,
                       variable.type.bytes,
                       offset == 0 ? "" : fmt::format(", from its byte {} on", offset)));
    return;
  }
  const std::string text = difference(memory, variable.type, offset, variable.type.bytes - offset);
  if (!text.empty())
    report("type", fmt::format("{} is{} `{}` of type {}{}, and the call {}: {}", what,
                               offset == 0 ? "" : fmt::format(" from byte {} on in", offset),
                               variable.name, variable.type.name,
                               variable.type.is_array ? "[]" : "", text_of_access(memory), text));
}

// A block from malloc has the type that the program's pointers to it say.
void check_against_pointers(const Memory& memory, const Walk& walk, const Block& block,
                            const char* what) {
  if (walk.number == 0) return;
  const auto buffer = reinterpret_cast<std::uintptr_t>(memory.buffer);
  std::string first;
  for (const Variable& pointer : pointers_into(walk.frames[0], block.begin, buffer + 1)) {
    // Blocks that hold several things have pointers into their middle, and to parts of other types.
    if (pointer.type.kind == Kind::none || pointer.type.kind == Kind::pointer ||
        pointer.begin != buffer || buffer != block.begin)
      return;
    std::string text = difference(memory, pointer.type, buffer - pointer.begin, 0);
    if (text.empty()) return;
    if (first.empty())
      first = fmt::format("{} is what `{}` points to, of type {}, and the call {}: {}", what,
                          pointer.name, pointer.type.name, text_of_access(memory), text);
  }
  if (!first.empty()) report("type", first);
}

void check_stack(const Memory& memory, const Walk& walk, const char* what) {
  for (std::size_t i = 0; i < walk.number; ++i) {
    const Frame& frame = walk.frames[i];
    if (memory.begin < walk.bottoms[i] || memory.begin >= frame.cfa) continue;
    Variable variable;
    if (local_at(frame, memory.begin, variable))
      check_against(memory, variable, what);
    else if (memory.end > frame.cfa - sizeof(void*) && memory.begin < frame.cfa - sizeof(void*))
      report("size",
             fmt::format("{} is too small: the call {}, beyond the variables of the function "
                         "that it lies in",
                         what, text_of_access(memory)));
    return;
  }
}

// Remembers which buffers have been looked at: nothing changes about most of them.
struct Known {
  std::atomic<std::uint64_t> key, num_freed;
};
enum class Looked : std::uint8_t { never, before_a_free, lately };
Looked look_up(std::uint64_t key) {
  static Known known[kNumKnown];
  Known& entry = known[(key >> 40) % kNumKnown];
  const std::uint64_t now = num_freed();
  if (entry.key.load(std::memory_order_relaxed) == key) {
    if (entry.num_freed.load(std::memory_order_relaxed) == now) return Looked::lately;
    entry.num_freed.store(now, std::memory_order_relaxed);
    return Looked::before_a_free;
  }
  entry.key.store(key, std::memory_order_relaxed);
  entry.num_freed.store(now, std::memory_order_relaxed);
  return Looked::never;
}

// Looking at the stack takes long, and a program may use other buffers again and again.
bool has_looked_enough() {
  static std::mutex mutex;
  static std::unordered_map<const void*, std::uint32_t>& looks =
      *new std::unordered_map<const void*, std::uint32_t>;
  const std::lock_guard lock(mutex);
  return ++looks[current_call.caller] > kMostLooks;
}

bool is_mapped(std::uintptr_t address) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char is_resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &is_resident) == 0;
}

}  // namespace

bool is_of_ended_function(std::uintptr_t address) {
  const Stack& own = stack();
  if (address < own.begin || address >= own.end) return false;
  Walk walk;
  walk_stack(walk);
  return walk.number > 0 && address < walk.bottoms[0];
}

void check_variable(const Memory& memory, const char* what) {
  if (memory.buffer == nullptr) return;
  std::uint64_t key = (reinterpret_cast<std::uintptr_t>(current_call.caller) ^
                       std::rotl(static_cast<std::uint64_t>(memory.begin), 20)) *
                      0x9e3779b97f4a7c15ull;
  key = (key ^ key >> 29 ^ (memory.end - memory.begin) << 1 ^
         static_cast<std::uint64_t>(memory.access) ^
         std::rotl(reinterpret_cast<std::uint64_t>(memory.layout.get()), 40)) *
        0xbf58476d1ce4e5b9ull;
  const Looked looked = look_up(key);
  if (looked == Looked::lately) return;
  const Stack& own = stack();
  const bool is_on_stack = memory.begin >= own.begin && memory.begin < own.end;
  Block block;
  const bool is_block = !is_on_stack && block_of(memory.begin, block);
  if (is_block && leaves(memory, block)) {
    report("size",
           fmt::format("{} is too small: the call {}, up to {} bytes from the beginning of a "
                       "block of {} bytes from malloc",
                       what, text_of_access(memory), memory.end - block.begin, block.bytes));
    return;
  }
  if (looked != Looked::never || has_looked_enough()) return;
  if (is_on_stack || is_block) {
    Walk walk;
    walk_stack(walk);
    if (is_on_stack)
      check_stack(memory, walk, what);
    else
      check_against_pointers(memory, walk, block, what);
    return;
  }
  Variable variable;
  if (global_at(memory.begin, variable)) {
    check_against(memory, variable, what);
  } else if (!is_mapped(memory.begin) || !is_mapped(memory.end - 1)) {
    report("unmapped", fmt::format("{} is no memory of the program: the call {} from {:#x} on",
                                   what, text_of_access(memory), memory.begin));
  }
}

}  // namespace weft::check
