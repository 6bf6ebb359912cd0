#pragma once
// Buffers: the memory of operations that are under way. Two of them may read the same bytes; any
// other overlap is reported, and so is what the program changes in a buffer that is being sent.
//
// Threads: any.
#include <cstdint>
#include <memory>

#include "tools/weft-check/call.hpp"
#include "tools/weft-check/program/memory.hpp"
#include "tools/weft-check/ranks/types.hpp"

namespace weft::check {

enum class Access : std::uint8_t { reads, writes };

struct Memory {
  const void* buffer = nullptr;
  std::uint64_t count = 0;
  std::shared_ptr<const Layout> layout;
  Access access = Access::reads;
  std::uintptr_t begin = 0, end = 0;  // around all bytes
};

// Empty, if nothing is accessed.
Memory memory_of(const void* buffer, std::uint64_t count, const Layout& layout, Access access);

// True if the bytes that are accessed leave the block. Types that go from one block to another one
// are right to.
bool leaves(const Memory& memory, const Block& block);

// Numbers an operation's use of memory; 0: none.
using Use = std::uint64_t;
// Reports overlaps with uses that have begun.
Use begin_use(const Memory& memory);
// is_sure: this operation has ended; else one of several has.
void end_use(Use use, bool is_sure = true);
// The same for a call that has ended its use when it returns. layout: may be the caller's own.
void check_use(const void* buffer, std::uint64_t count, const Layout& layout, Access access);

// Called before memory is given back.
void check_freed(std::uintptr_t begin, std::uintptr_t end, const void* caller);

// Two buffers of one call that must not overlap.
void check_disjoint(const Memory& first, const Memory& second, const char* names);

}  // namespace weft::check
