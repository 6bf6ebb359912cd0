#include "mpi/op/op.hpp"

#include <algorithm>
#include <cassert>
#include <climits>
#include <memory>
#include <new>

#include "mpi/core/state.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

Op* make_predefined() {
  auto* made = new Op[32];
  for (MPI_Op handle : {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND,
                        MPI_LOR, MPI_LXOR, MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP}) {
    const auto code = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(handle) & 0x1f);
    made[code].predefined = true;
    made[code].code = code;
    // The last writer wins in both: the order matters.
    made[code].commutative = handle != MPI_REPLACE && handle != MPI_NO_OP;
  }
  return made;
}

// Calls the program's function on elements in their own layout, at most INT_MAX at a time.
void call_user(const UserReduction& user, char* in, char* inout, std::size_t count) {
  MPI_Datatype handle = user.handle;
  if (user.op->function_c != nullptr) {
    auto n = static_cast<MPI_Count>(count);
    user.op->function_c(in, inout, &n, &handle);
    return;
  }
  while (count != 0) {
    int n = count > INT_MAX ? INT_MAX : static_cast<int>(count);
    user.op->function(in, inout, &n, &handle);
    in += n * user.type->extent();
    inout += n * user.type->extent();
    count -= static_cast<std::size_t>(n);
  }
}

// The memory of `count` elements in their layout, from `low` behind the address that a user would
// pass, rounded so that elements are as aligned as the memory.
struct Span {
  std::ptrdiff_t low;
  std::size_t bytes;
};
Span span_of(const Datatype& type, std::size_t count) noexcept {
  const std::ptrdiff_t reach = type.extent() * static_cast<std::ptrdiff_t>(count - 1);
  const std::ptrdiff_t low = (type.true_lb() + std::min<std::ptrdiff_t>(0, reach)) & ~15;
  const std::ptrdiff_t high =
      type.true_lb() + type.true_extent() + std::max<std::ptrdiff_t>(0, reach);
  return {low, (static_cast<std::size_t>(high - low) + 15) / 16 * 16};
}

void apply_user(const void* in, void* inout, std::size_t count, void* argument) {
  const auto& user = *static_cast<const UserReduction*>(argument);
  const Datatype& type = *user.type;
  if (count == 0) return;
  if (type.is_contiguous()) {
    // The function expects the address that a user would pass.
    call_user(user, static_cast<char*>(const_cast<void*>(in)) - type.true_lb(),
              static_cast<char*>(inout) - type.true_lb(), count);
    return;
  }
  // Packed elements are unpacked into their layout.
  const Span span = span_of(type, count);
  assert(2 * span.bytes <= user.layout_bytes);
  char* a = user.layout.get() - span.low;
  char* b = a + span.bytes;
  const auto n = static_cast<MPI_Count>(count);
  type.unpack(a, in, n, type.size() * count);
  type.unpack(b, inout, n, type.size() * count);
  call_user(user, a, b, count);
  type.pack(inout, b, n);
}

// Maps the predefined types and operations to those of a switch that computes.
innet::Element switch_element(Basic basic) noexcept {
  using innet::Element;
  switch (basic) {
    case Basic::i8:
      return Element::i8;
    case Basic::u8:
      return Element::u8;
    case Basic::i16:
      return Element::i16;
    case Basic::u16:
      return Element::u16;
    case Basic::i32:
      return Element::i32;
    case Basic::u32:
      return Element::u32;
    case Basic::i64:
      return Element::i64;
    case Basic::u64:
      return Element::u64;
    // Complex numbers are two, which sums add up one by one.
    case Basic::f32:
    case Basic::c32:
      return Element::f32;
    case Basic::f64:
    case Basic::c64:
      return Element::f64;
    case Basic::float_int:
      return Element::float_int;
    case Basic::double_int:
      return Element::double_int;
    case Basic::long_int:
      return Element::long_int;
    case Basic::two_int:
      return Element::two_int;
    case Basic::short_int:
      return Element::short_int;
    default:
      return Element::none;
  }
}

innet::Operation switch_operation(unsigned code) noexcept {
  using innet::Operation;
  static constexpr std::pair<unsigned, Operation> kOperations[] = {
      {0x01, Operation::sum},  {0x02, Operation::min},    {0x03, Operation::max},
      {0x04, Operation::prod}, {0x08, Operation::band},   {0x09, Operation::bor},
      {0x0a, Operation::bxor}, {0x10, Operation::land},   {0x11, Operation::lor},
      {0x12, Operation::lxor}, {0x18, Operation::minloc}, {0x19, Operation::maxloc}};
  for (const auto& [known, operation] : kOperations)
    if (known == code) return operation;
  return Operation::none;
}

int deliver(std::unique_ptr<Op> made, int commute, MPI_Op* out, const char* name) {
  made->commutative = commute != 0;
  const MPI_Op handle = ops().insert(made.get());
  if (handle == nullptr) return raise(nullptr, MPI_ERR_NO_MEM, name);
  made.release();
  *out = handle;
  return MPI_SUCCESS;
}

int reduce_local(const void* in, void* inout, MPI_Count count, MPI_Datatype datatype,
                 MPI_Op op_handle, const char* name) {
  MPI_MUST_RUN_IN(name);
  Datatype* type = nullptr;
  if (const int code = check_elements(count, datatype, type); code != MPI_SUCCESS)
    return raise(nullptr, code, name);
  Op* op = find_op(op_handle);
  UserReduction user;
  coll::Reduction reduction;
  if (op == nullptr || make_reduction(op, type, datatype, user, reduction) != MPI_SUCCESS)
    return raise(nullptr, MPI_ERR_OP, name);
  if (count == 0) return MPI_SUCCESS;
  if (first_byte(in, *type) == nullptr || first_byte(inout, *type) == nullptr ||
      in == MPI_IN_PLACE || inout == MPI_IN_PLACE || in == inout)
    return raise(nullptr, MPI_ERR_BUFFER, name);
  const auto n = static_cast<std::size_t>(count);
  if (type->is_contiguous()) {
    reduction.apply(first_byte(in, *type), first_byte(inout, *type), n, reduction.argument);
    return MPI_SUCCESS;
  }
  if (!op->predefined) {
    call_user(user, static_cast<char*>(const_cast<void*>(in)), static_cast<char*>(inout), n);
    return MPI_SUCCESS;
  }
  const std::unique_ptr<char[]> packed(new (std::nothrow) char[2 * n * type->size()]);
  if (packed == nullptr) return raise(nullptr, MPI_ERR_NO_MEM, name);
  char* other = packed.get() + n * type->size();
  type->pack(packed.get(), in, count);
  type->pack(other, inout, count);
  reduction.apply(packed.get(), other, n, reduction.argument);
  type->unpack(inout, other, count, n * type->size());
  return MPI_SUCCESS;
}

}  // namespace

bool UserReduction::make_room(std::size_t count) noexcept {
  if (op == nullptr || count == 0 || type->is_contiguous()) return true;
  const std::size_t bytes = 2 * span_of(*type, count).bytes;
  if (bytes <= layout_bytes) return true;
  layout_bytes = 0;
  layout.reset(new (std::nothrow) char[bytes]());
  if (layout == nullptr) return false;
  layout_bytes = bytes;
  return true;
}

OpTable& ops() noexcept {
  static Immortal<OpTable> table;
  return *table;
}

Op* const predefined_ops = make_predefined();

int make_reduction(Op* op, Datatype* type, MPI_Datatype handle, UserReduction& user,
                   coll::Reduction& reduction) noexcept {
  reduction.element_bytes = type->size();
  reduction.commutative = op->commutative;
  if (op->predefined) {
    reduction.apply = find_kernel(op->code, type->basic_, type->class_);
    reduction.argument = nullptr;
    reduction.element = switch_element(type->basic_);
    reduction.operation = switch_operation(op->code);
    return reduction.apply != nullptr ? MPI_SUCCESS : MPI_ERR_OP;
  }
  user.op = op;
  user.type = type;
  user.handle = handle;
  reduction.apply = apply_user;
  reduction.argument = &user;
  return MPI_SUCCESS;
}

}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT(google-build-using-namespace): bodies of a C interface

MPI_FUNCTION(Op_create)(MPI_User_function* function, int commute, MPI_Op* op) {
  MPI_MUST_RUN();
  if (function == nullptr || op == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  auto made = std::make_unique<Op>();
  made->function = function;
  return deliver(std::move(made), commute, op, __func__);
}
MPI_FUNCTION(Op_create_c)(MPI_User_function_c* function, int commute, MPI_Op* op) {
  MPI_MUST_RUN();
  if (function == nullptr || op == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  auto made = std::make_unique<Op>();
  made->function_c = function;
  return deliver(std::move(made), commute, op, __func__);
}
MPI_FUNCTION(Op_free)(MPI_Op* handle) {
  MPI_MUST_RUN();
  if (handle == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "op is null");
  Op* op = ops().erase(*handle);
  if (op == nullptr)
    return raise(nullptr, MPI_ERR_OP, __func__,
                 find_op(*handle) != nullptr ? "a predefined operation cannot be freed" : "");
  *handle = MPI_OP_NULL;
  release(op);
  return MPI_SUCCESS;
}
MPI_FUNCTION(Op_commutative)(MPI_Op handle, int* commute) {
  MPI_MUST_RUN();
  const Op* op = find_op(handle);
  if (op == nullptr) return raise(nullptr, MPI_ERR_OP, __func__);
  if (commute == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "commute is null");
  *commute = op->commutative ? 1 : 0;
  return MPI_SUCCESS;
}
MPI_FUNCTION(Op_toint)(MPI_Op op) { return OpTable::to_int(op); }
MPI_ALIAS(Op_fromint)
extern "C" MPI_Op PMPI_Op_fromint(int number) { return ops().from_int(number); }

MPI_FUNCTION(Reduce_local)
(const void* in, void* inout, int count, MPI_Datatype datatype, MPI_Op op) {
  return reduce_local(in, inout, count, datatype, op, __func__);
}
MPI_FUNCTION(Reduce_local_c)
(const void* in, void* inout, MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  return reduce_local(in, inout, count, datatype, op, __func__);
}
