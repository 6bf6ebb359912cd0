#pragma once
// Op: what an MPI_Op names (MPI 5.0 section 6.9). Reductions see packed elements: for types with
// gaps the caller packs first, and apply() unpacks them again for a program's own function.
#include <atomic>
#include <memory>

#include "coll/coll.hpp"
#include "mpi/core/call.hpp"
#include "mpi/core/handle_table.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {

struct Op {
  bool predefined = false;
  bool commutative = true;
  unsigned code = 0;                          // predefined: the handle's low five bits
  MPI_User_function* function = nullptr;      // own, made by MPI_Op_create
  MPI_User_function_c* function_c = nullptr;  // own, made by MPI_Op_create_c
  std::atomic<int> uses{1};
};

using OpTable = HandleTable<MPI_Op, Op, Kind::op>;
OpTable& ops() noexcept;
extern Op* const predefined_ops;  // 32, by the low five bits of the handle

inline Op* find_op(MPI_Op handle) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value - 0x20 <= 0x1f) [[likely]] {
    Op* op = &predefined_ops[value & 0x1f];
    return op->predefined ? op : nullptr;
  }
  return ops().find(handle);
}

inline void retain(Op* op) noexcept {
  if (!op->predefined) op->uses.fetch_add(1, std::memory_order_relaxed);
}
inline void release(Op* op) noexcept {
  // acq_rel: the last user, which deletes it, sees what the others did with it.
  if (!op->predefined && op->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) delete op;
}

// The state that a reduction with a program's own function needs while it runs.
struct UserReduction {
  Op* op = nullptr;
  Datatype* type = nullptr;
  MPI_Datatype handle = MPI_DATATYPE_NULL;  // of the type, passed to the function
  std::unique_ptr<char[]> layout;           // for packed elements unpacked to their layout
  std::size_t layout_bytes = 0;

  // Allocates for up to `count` elements at a time in advance: a reduction under way could not
  // report that there is no memory. False: there is none.
  bool make_room(std::size_t count) noexcept;
};

// Makes the reduction of `type`, which the program calls `handle`, by `op`, on elements of
// type.size() packed bytes. MPI_ERR_OP if the standard does not define it (MPI_REPLACE and
// MPI_NO_OP are for one-sided calls only). `user` must live as long as the reduction is used, and
// have room for the elements that it is used on.
int make_reduction(Op* op, Datatype* type, MPI_Datatype handle, UserReduction& user,
                   coll::Reduction& reduction) noexcept;

// Kernel of a predefined operation on a basic type, or null; kernels.cpp.
using Kernel = void (*)(const void* in, void* inout, std::size_t count, void* unused);
Kernel find_kernel(unsigned code, Basic basic, BasicClass kind) noexcept;

}  // namespace weft::mpi
