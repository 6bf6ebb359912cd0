#pragma once
// Datatype: what an MPI_Datatype names (MPI 5.0 chapter 5). Immutable but for its commit mark, name
// and attributes. Reference-counted: a type lives until it is freed and no other type, request or
// message uses it.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/attributes.hpp"
#include "mpi/core/call.hpp"
#include "mpi/core/handle_table.hpp"
#include "mpi/datatype/layout.hpp"

namespace weft::mpi {

// The kind of a predefined type's elements, for reduction operations.
enum class Basic : std::uint8_t {
  none,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  i128,
  f16,
  f32,
  f64,
  f80,
  f128,
  c16,
  c32,
  c64,
  c80,
  c128,
  float_int,
  double_int,
  long_int,
  two_int,
  short_int,
  f80_int,
  two_real,
  two_double,
  kCount
};
// The operations that the standard allows on an element kind (MPI 5.0 section 6.9.2).
enum class BasicClass : std::uint8_t {
  none,
  integer,
  floating,
  logical,
  complex,
  byte,
  multi,
  pair
};

class Datatype {
 public:
  Datatype() = default;
  Datatype(const Datatype&) = delete;
  Datatype& operator=(const Datatype&) = delete;

  std::size_t size() const noexcept { return size_; }
  bool committed() const noexcept { return committed_; }
  // True if elements follow each other without gaps and in order: `count` of them are one block of
  // memory that begins true_lb() behind the buffer.
  bool is_contiguous() const noexcept { return contiguous_; }
  std::ptrdiff_t lb() const noexcept { return lb_; }
  std::ptrdiff_t extent() const noexcept { return ub_ - lb_; }
  std::ptrdiff_t true_lb() const noexcept { return true_lb_; }
  std::ptrdiff_t true_extent() const noexcept { return true_ub_ - true_lb_; }

  // Elements at `from` pack to size() bytes each; copies bytes [skip, skip + bytes) of them to
  // `to`.
  void pack_part(void* to, const void* from, std::size_t skip, std::size_t bytes) const noexcept;
  // Does the reverse.
  void unpack_part(void* to, const void* from, std::size_t skip, std::size_t bytes) const noexcept;
  // Packs all of `count` elements.
  void pack(void* to, const void* from, MPI_Count count) const noexcept {
    pack_part(to, from, 0, size_ * static_cast<std::size_t>(count));
  }
  // Unpacks the first `bytes` bytes of `count` elements.
  void unpack(void* to, const void* from, MPI_Count count, std::size_t bytes) const noexcept {
    const std::size_t most = size_ * static_cast<std::size_t>(count);
    unpack_part(to, from, 0, bytes < most ? bytes : most);
  }

  // The number of basic elements in `bytes` bytes of data of this type; MPI_UNDEFINED if they end
  // inside one.
  std::int64_t elements(std::int64_t bytes) const noexcept;
  std::int64_t bytes_of_elements(std::int64_t elements) const noexcept;

  // The members below are for the files that build and describe types.
  std::size_t size_ = 0;
  std::ptrdiff_t lb_ = 0, ub_ = 0, true_lb_ = 0, true_ub_ = 0;
  std::size_t align_ = 1;
  bool committed_ = false;
  bool contiguous_ = false;
  bool predefined_ = false;
  bool resized_ = false;  // bounds were set by hand, here or in a part: lb and ub markers of MPI
  Basic basic_ = Basic::none;
  BasicClass class_ = BasicClass::none;
  Layout layout_;
  Signature signature_;

  // How the type was made, for get_envelope and get_contents.
  int combiner_ = MPI_COMBINER_NAMED;
  bool large_ = false;  // made by a _c function
  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Count> counts_;
  std::vector<Datatype*> types_;  // counted

  MPI_Datatype handle_ = MPI_DATATYPE_NULL;
  int pins_ = 0;                             // the number of calls of pin_handles without their end
  std::vector<MPI_Datatype> freed_handles_;  // freed by the program while pinned
  std::string name_;
  AttributeSet attributes_;
  std::atomic<int> uses_{1};

  // Sets contiguous_ once size, bounds and layout are known.
  void seal();
};

// Computes the packed size of so many elements. False: it overflows.
inline bool bytes_of(MPI_Count count, const Datatype& type, std::size_t& bytes) noexcept {
  return !__builtin_mul_overflow(static_cast<std::size_t>(count), type.size(), &bytes);
}

using DatatypeTable = HandleTable<MPI_Datatype, Datatype, Kind::datatype>;
// The table is never destroyed, as programs may call until the very end.
DatatypeTable& datatypes() noexcept;
extern Datatype* const predefined_datatypes;  // 256, by the low byte of the handle

inline Datatype* find_derived(MPI_Datatype handle) noexcept { return datatypes().find(handle); }

// Returns null if the handle names no type.
inline Datatype* find_datatype(MPI_Datatype handle) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value - 0x200 <= 0xff) [[likely]] {
    Datatype* type = &predefined_datatypes[value & 0xff];
    return type->committed_ ? type : nullptr;
  }
  return find_derived(handle);
}

inline void retain(Datatype* type) noexcept {
  if (!type->predefined_) type->uses_.fetch_add(1, std::memory_order_relaxed);
}
void destroy(Datatype* type) noexcept;
// Pins the type's handles: until the end they find it even if the program frees them, as a
// program's own operation is given the handle that its call was given. The caller keeps the type
// alive.
void pin_handles(Datatype* type) noexcept;
void unpin_handles(Datatype* type) noexcept;
// Closes a handle of the type. False: it was closed before.
bool free_handle(Datatype* type, MPI_Datatype handle);
inline void release(Datatype* type) noexcept {
  // acq_rel: the last user, which destroys it, sees what the others did with it.
  if (!type->predefined_ && type->uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(type);
}

}  // namespace weft::mpi
