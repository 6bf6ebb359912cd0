#pragma once
// The arithmetic of a switch: element types, operations, and one loop for each pair of them. Pure
// functions; any thread. Every operation is defined bit by bit, so that a switch and the hosts'
// fallback, which uses the same loops, agree.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::innet {

// Elements follow each other without gaps, little-endian, at any address.
enum class Element : std::uint8_t {
  none,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f32,
  f64,
  bf16,        // the upper half of a float
  float_int,   // pairs: a value, then a 32-bit index
  double_int,  // 12 bytes
  long_int,    // 12 bytes
  two_int,
  short_int,  // 6 bytes
  // A packet of these is one exponent and numbers that are multiples of its unit: a sum takes the
  // larger of the first 32 bits, signed, and adds up the other words, wrapping
  // (coll/offload/fixed_point.hpp).
  fixed,
  kEnd
};
inline constexpr std::size_t kNumElements = static_cast<std::size_t>(Element::kEnd);

enum class Operation : std::uint8_t {
  none,
  max,
  min,
  sum,
  prod,
  land,
  band,
  lor,
  bor,
  lxor,
  bxor,
  minloc,
  maxloc,
  kEnd
};
inline constexpr std::size_t kNumOperations = static_cast<std::size_t>(Operation::kEnd);

std::size_t element_bytes(Element element) noexcept;  // 0: none
std::string_view name(Element element) noexcept;
std::string_view name(Operation operation) noexcept;

// inout[i] = inout[i] op in[i], `inout` the lower children's. The two do not overlap.
using ReduceFunction = void (*)(const std::byte* in, std::byte* inout, std::size_t count) noexcept;
// Null: the operation is not defined on the type.
ReduceFunction find_reduce(Element element, Operation operation) noexcept;
// Returns true for a floating-point number, or a pair with one.
bool is_floating(Element element) noexcept;
// Returns true if the result depends on the order in which contributions are reduced.
bool depends_on_order(Element element, Operation operation) noexcept;

}  // namespace weft::innet
