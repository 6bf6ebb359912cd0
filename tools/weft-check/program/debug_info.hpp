#pragma once
// What the program's debug information (-g) says: lines, and variables with their types. Slow; used
// when something is reported, and once for each place and buffer.
//
// Threads: any; one at a time does the work.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::check {

struct Line {
  std::string function, file;  // empty: not known
  int line = 0;
};
Line line_of(const void* address);

// A basic type of C as the compiler describes it.
enum class Kind : std::uint8_t {
  none,
  integer,
  natural,
  real,
  complex,
  logical,
  character,
  pointer
};

// A type of the program, down to its basic types.
struct VariableType {
  Kind kind = Kind::none;   // none: an array, a structure, or nothing that is known
  std::size_t bytes = 0;    // of all of it; 0: not known
  std::string name;         // "int", "struct S"
  std::size_t element = 0;  // of an array: the bytes of one
  struct Member;
  std::vector<Member> members;  // of a structure; of an array: the one type of all
  bool is_array = false;
  bool is_opaque = false;  // a union, or a type that is not described here
};
struct VariableType::Member {
  std::size_t offset = 0;
  VariableType type;
};

// The basic type that lies at this offset of the type; null: none begins there, which is_inside
// tells from what is not known. room: its bytes, of an array those up to its end.
const VariableType* basic_at(const VariableType& type, std::size_t offset, bool& is_inside,
                             std::size_t& room);

struct Variable {
  std::string name;
  std::uintptr_t begin = 0;
  VariableType type;
};

// A frame of the stack.
struct Frame {
  std::uintptr_t address = 0;  // of the code, inside the call
  std::uintptr_t cfa = 0;      // where the frame ends
  std::uintptr_t base = 0;     // the register that compilers keep frames in
};

// The variable of a function that contains the address, in the frame that is its own.
bool local_at(const Frame& frame, std::uintptr_t address, Variable& out);
// The same of variables outside functions.
bool global_at(std::uintptr_t address, Variable& out);
// The pointers of this frame that point to addresses from begin to end: what each points to, with
// `begin` its value.
std::vector<Variable> pointers_into(const Frame& frame, std::uintptr_t begin, std::uintptr_t end);

}  // namespace weft::check
