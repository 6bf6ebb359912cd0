#pragma once
// Types: what a datatype consists of. A signature is the sequence of basic types, as the standard
// compares it between sender and receiver; two are compared by a hash that can be computed for any
// number of repetitions without going through them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/weft-check/program/debug_info.hpp"

#pragma GCC visibility push(default)
#include "mpi.h"
#pragma GCC visibility pop

namespace weft::check {

// A basic type as far as signatures tell them apart: its kind and size. MPI_LONG and MPI_INT64_T
// are one. 0: several different ones, or bytes of anything.
using Basic = std::uint16_t;
constexpr Basic basic_of(Kind kind, std::size_t bytes) {
  return static_cast<Basic>(static_cast<unsigned>(kind) << 8 | bytes);
}
constexpr Kind kind_of(Basic basic) { return static_cast<Kind>(basic >> 8); }
constexpr std::size_t bytes_of(Basic basic) { return basic & 0xff; }
// "int", "unsigned of 8 bytes".
std::string name_of(Basic basic);

struct Signature {
  std::uint64_t number = 0;  // of basic elements
  std::uint64_t hash = 0;    // of the sequence, if not all are the same
  Basic basic = 0;           // if they are
  bool has_any = false;      // MPI_BYTE or MPI_PACKED: fits everything
};
Signature joined(const Signature& first, const Signature& second);
Signature repeated(const Signature& signature, std::uint64_t times);

// Elements of one basic type, one behind the other.
struct Run {
  std::int64_t offset = 0;
  std::uint64_t number = 0;
  Basic basic = 0;  // 0: bytes of anything
};

struct Layout {
  Signature signature;
  std::int64_t extent = 0, true_lb = 0, true_extent = 0, bytes = 0;
  bool is_contiguous = false;  // elements of it fill memory from their address on
  bool is_derived = false;     // the program has made the type, and may free it
  bool has_runs = false;       // runs holds all; else there are too many
  std::vector<Run> runs;
  std::string name;  // "MPI_INT"; of others as the program named it
};

// Called when the program has made a type.
void add_type(MPI_Datatype type);
// The layout of a type, valid until that is freed. Of one that has not been added nothing is known:
// it fits all. null: it is none of the predefined ones, as a handle that is not valid.
const Layout* layout_of(MPI_Datatype type);
// The same, for longer.
std::shared_ptr<const Layout> keep_layout(MPI_Datatype type);
void forget_type(MPI_Datatype type);

Signature signature_of(const Layout& layout, std::uint64_t count);
// The signature's first elements; false: not known.
bool prefix_of(const Layout& layout, std::uint64_t count, std::uint64_t number, Signature& out);

// "10 x MPI_INT".
std::string text_of(std::uint64_t count, const Layout& layout);
std::string text_of(const Signature& signature);

}  // namespace weft::check
