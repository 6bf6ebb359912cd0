// MPI_Type_contiguous, _vector, _indexed, _create_*: MPI 5.0 section 5.1.2 and following. The plain
// and the _c form of a function are one template; Count is int or MPI_Count, Place the type of its
// displacements.
#include "mpi/datatype/build.hpp"

namespace weft::mpi {
namespace {

template <class Count>
inline constexpr bool kLarge = !std::is_same_v<Count, int>;

// Ends a call: returns the type's handle, or raises the error if it did not fit.
int deliver(Builder& builder, bool fits, MPI_Datatype* out, const char* function) {
  if (!fits) return raise(nullptr, MPI_ERR_COUNT, function, "the type's size is beyond 2^63 bytes");
  *out = builder.finish();
  return *out == MPI_DATATYPE_NULL ? raise(nullptr, MPI_ERR_NO_MEM, function) : MPI_SUCCESS;
}

// The checks common to all constructors.
#define CHECK_TYPE_ARGUMENTS(count, oldtype, newtype)                \
  MPI_MUST_RUN_IN(function);                                         \
  if ((count) < 0) return raise(nullptr, MPI_ERR_COUNT, function);   \
  Datatype* const old = find_datatype(oldtype);                      \
  if (old == nullptr) return raise(nullptr, MPI_ERR_TYPE, function); \
  if ((newtype) == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "newtype is null")

template <class Count>
int contiguous(Count count, MPI_Datatype oldtype, MPI_Datatype* newtype, const char* function) {
  CHECK_TYPE_ARGUMENTS(count, oldtype, newtype);
  Builder builder(MPI_COMBINER_CONTIGUOUS, kLarge<Count>);
  builder.note(count);
  builder.note(old);
  return deliver(builder, builder.add(*old, count, 0), newtype, function);
}

// stride: in elements, or in bytes if is_bytes.
template <class Count, class Stride>
int vector(Count count, Count blocklength, Stride stride, bool is_bytes, MPI_Datatype oldtype,
           MPI_Datatype* newtype, const char* function) {
  CHECK_TYPE_ARGUMENTS(count, oldtype, newtype);
  if (blocklength < 0) return raise(nullptr, MPI_ERR_ARG, function, "the block length is negative");
  Builder builder(is_bytes ? MPI_COMBINER_HVECTOR : MPI_COMBINER_VECTOR, kLarge<Count>);
  builder.note(count);
  builder.note(blocklength);
  if (is_bytes)
    builder.note_place(stride);
  else
    builder.note(stride);
  builder.note(old);
  std::ptrdiff_t step = 0;
  // The stride of a single block is not used.
  const bool fits = (count <= 1 || Builder::scale(stride, is_bytes ? 1 : old->extent(), step)) &&
                    builder.add_repeated(*old, blocklength, 0, count, step);
  return deliver(builder, fits, newtype, function);
}

template <class Count, class Place>
int indexed(Count count, const Count* lengths, const Place* places, bool is_bytes,
            MPI_Datatype oldtype, MPI_Datatype* newtype, const char* function) {
  CHECK_TYPE_ARGUMENTS(count, oldtype, newtype);
  if (count > 0 && (lengths == nullptr || places == nullptr))
    return raise(nullptr, MPI_ERR_ARG, function, "an array is null");
  Builder builder(is_bytes ? MPI_COMBINER_HINDEXED : MPI_COMBINER_INDEXED, kLarge<Count>);
  builder.note(count);
  builder.note(lengths, count);
  builder.note(old);
  bool fits = true;
  for (Count i = 0; i < count; ++i) {
    if (lengths[i] < 0) return raise(nullptr, MPI_ERR_ARG, function, "a block length is negative");
    if (is_bytes)
      builder.note_place(places[i]);
    else
      builder.note(places[i]);
    std::ptrdiff_t place = 0;
    fits = fits && Builder::scale(places[i], is_bytes ? 1 : old->extent(), place) &&
           builder.add(*old, lengths[i], place);
  }
  return deliver(builder, fits, newtype, function);
}

template <class Count, class Place>
int indexed_block(Count count, Count length, const Place* places, bool is_bytes,
                  MPI_Datatype oldtype, MPI_Datatype* newtype, const char* function) {
  CHECK_TYPE_ARGUMENTS(count, oldtype, newtype);
  if (length < 0) return raise(nullptr, MPI_ERR_ARG, function, "the block length is negative");
  if (count > 0 && places == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "an array is null");
  Builder builder(is_bytes ? MPI_COMBINER_HINDEXED_BLOCK : MPI_COMBINER_INDEXED_BLOCK,
                  kLarge<Count>);
  builder.note(count);
  builder.note(length);
  builder.note(old);
  bool fits = true;
  for (Count i = 0; i < count; ++i) {
    if (is_bytes)
      builder.note_place(places[i]);
    else
      builder.note(places[i]);
    std::ptrdiff_t place = 0;
    fits = fits && Builder::scale(places[i], is_bytes ? 1 : old->extent(), place) &&
           builder.add(*old, length, place);
  }
  return deliver(builder, fits, newtype, function);
}

template <class Count, class Place>
int structure(Count count, const Count* lengths, const Place* places, const MPI_Datatype* oldtypes,
              MPI_Datatype* newtype, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (count < 0) return raise(nullptr, MPI_ERR_COUNT, function);
  if (newtype == nullptr ||
      (count > 0 && (lengths == nullptr || places == nullptr || oldtypes == nullptr)))
    return raise(nullptr, MPI_ERR_ARG, function, "an array is null");
  Builder builder(MPI_COMBINER_STRUCT, kLarge<Count>);
  builder.note(count);
  builder.note(lengths, count);
  bool fits = true;
  for (Count i = 0; i < count; ++i) {
    if (lengths[i] < 0) return raise(nullptr, MPI_ERR_ARG, function, "a block length is negative");
    Datatype* old = find_datatype(oldtypes[i]);
    if (old == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
    builder.note_place(places[i]);
    builder.note(old);
    fits = fits && builder.add(*old, lengths[i], places[i]);
  }
  builder.pad_to_alignment();
  return deliver(builder, fits, newtype, function);
}

template <class Count, class Place>
int resized(MPI_Datatype oldtype, Place lb, Place extent, MPI_Datatype* newtype,
            const char* function) {
  CHECK_TYPE_ARGUMENTS(0, oldtype, newtype);
  Builder builder(MPI_COMBINER_RESIZED, kLarge<Count>);
  builder.note_place(lb);
  builder.note_place(extent);
  builder.note(old);
  const bool fits = builder.add(*old, 1, 0);
  builder.set_bounds(lb, extent);
  return deliver(builder, fits, newtype, function);
}

// Makes an n-dimensional block of an n-dimensional array, as repetitions of repetitions.
template <class Count>
int subarray(int ndims, const Count* sizes, const Count* subsizes, const Count* starts, int order,
             MPI_Datatype oldtype, MPI_Datatype* newtype, const char* function) {
  CHECK_TYPE_ARGUMENTS(0, oldtype, newtype);
  if (ndims < 1) return raise(nullptr, MPI_ERR_ARG, function, "there is no dimension");
  if (sizes == nullptr || subsizes == nullptr || starts == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "an array is null");
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
    return raise(nullptr, MPI_ERR_ARG, function,
                 "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
  for (int i = 0; i < ndims; ++i)
    if (sizes[i] < 1 || subsizes[i] < 1 || subsizes[i] > sizes[i] || starts[i] < 0 ||
        starts[i] > sizes[i] - subsizes[i])
      return raise(nullptr, MPI_ERR_ARG, function, "the block does not lie inside the array");
  Builder builder(MPI_COMBINER_SUBARRAY, kLarge<Count>);
  builder.note_int(ndims);
  builder.note(sizes, ndims);
  builder.note(subsizes, ndims);
  builder.note(starts, ndims);
  builder.note_int(order);
  builder.note(old);

  // From the dimension that varies fastest outwards.
  const auto dimension = [&](int i) { return order == MPI_ORDER_C ? ndims - 1 - i : i; };
  Layout layout = old->layout_;
  Signature signature = old->signature_;
  std::int64_t stride = old->extent(), size = static_cast<std::int64_t>(old->size());
  std::ptrdiff_t start = 0, low = old->true_lb_, high = old->true_ub_;
  for (int i = 0; i < ndims; ++i) {
    const int d = dimension(i);
    const std::int64_t count = subsizes[d];
    // The whole array fits, so all offsets inside it do.
    std::int64_t whole = 0;
    if (__builtin_mul_overflow(stride, static_cast<std::int64_t>(sizes[d]), &whole) ||
        __builtin_mul_overflow(size, count, &size))
      return deliver(builder, false, newtype, function);
    Layout next;
    next.append(layout, 0, count, stride);
    layout = std::move(next);
    Signature more;
    more.append(signature, count);
    signature = std::move(more);
    start += starts[d] * stride;
    if (stride > 0)
      high += (count - 1) * stride;
    else
      low += (count - 1) * stride;
    stride = whole;
  }
  Datatype& type = builder.type();
  type.layout_.append(layout, start, 1, 0);
  type.signature_ = std::move(signature);
  type.size_ = static_cast<std::size_t>(size);
  if (size != 0) {
    type.true_lb_ = low + start;
    type.true_ub_ = high + start;
  }
  type.align_ = old->align_;
  builder.set_bounds(0, stride);
  return deliver(builder, true, newtype, function);
}

// Makes the share of one process of an array that is distributed over a grid of processes. For each
// dimension, from the one that varies fastest outwards, the type so far becomes one whose extent is
// the whole dimension.
template <class Count>
int darray(int size, int rank, int ndims, const Count* gsizes, const int* distribs,
           const int* dargs, const int* psizes, int order, MPI_Datatype oldtype,
           MPI_Datatype* newtype, const char* function) {
  CHECK_TYPE_ARGUMENTS(0, oldtype, newtype);
  if (ndims < 1) return raise(nullptr, MPI_ERR_ARG, function, "there is no dimension");
  if (gsizes == nullptr || distribs == nullptr || dargs == nullptr || psizes == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "an array is null");
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
    return raise(nullptr, MPI_ERR_ARG, function,
                 "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
  if (size < 1 || rank < 0 || rank >= size)
    return raise(nullptr, MPI_ERR_ARG, function, "the rank is not one of the grid");
  std::int64_t processes = 1;
  for (int d = 0; d < ndims; ++d) {
    if (gsizes[d] < 1) return raise(nullptr, MPI_ERR_ARG, function, "the array has no elements");
    if (psizes[d] < 1 || __builtin_mul_overflow(processes, psizes[d], &processes))
      return raise(nullptr, MPI_ERR_ARG, function, "the grid has no processes in a dimension");
    const bool has_default = dargs[d] == MPI_DISTRIBUTE_DFLT_DARG;
    switch (distribs[d]) {
      case MPI_DISTRIBUTE_NONE:
        if (psizes[d] != 1)
          return raise(nullptr, MPI_ERR_ARG, function,
                       "an undistributed dimension has several processes");
        break;
      case MPI_DISTRIBUTE_BLOCK:
        if (!has_default && (dargs[d] < 1 || std::int64_t{dargs[d]} * psizes[d] < gsizes[d]))
          return raise(nullptr, MPI_ERR_ARG, function, "the blocks do not hold the array");
        break;
      case MPI_DISTRIBUTE_CYCLIC:
        if (!has_default && dargs[d] < 1)
          return raise(nullptr, MPI_ERR_ARG, function, "a block has no elements");
        break;
      default:
        return raise(nullptr, MPI_ERR_ARG, function, "the distribution is unknown");
    }
  }
  if (processes != size)
    return raise(nullptr, MPI_ERR_ARG, function, "the grid's dimensions do not make its size");

  // The grid's ranks are in C order whatever the order of the array is.
  std::vector<int> coords(static_cast<std::size_t>(ndims));
  for (int d = ndims - 1, rest = rank; d >= 0; --d) {
    coords[static_cast<std::size_t>(d)] = rest % psizes[d];
    rest /= psizes[d];
  }
  auto inner = std::make_unique<Builder>(MPI_COMBINER_DARRAY, kLarge<Count>);
  Datatype* part = old;
  std::ptrdiff_t stride = old->extent();
  for (int i = 0; i < ndims; ++i) {
    const int d = order == MPI_ORDER_C ? ndims - 1 - i : i;
    const auto whole = static_cast<std::int64_t>(gsizes[d]);
    const std::int64_t p = psizes[d], c = coords[static_cast<std::size_t>(d)];
    // This process has blocks of `block` elements, every `period` elements from `first` on.
    std::int64_t block = whole;
    if (distribs[d] != MPI_DISTRIBUTE_NONE) {
      block = distribs[d] == MPI_DISTRIBUTE_BLOCK ? (whole + p - 1) / p : 1;
      if (dargs[d] != MPI_DISTRIBUTE_DFLT_DARG) block = dargs[d];
    }
    const std::int64_t period = block * p, first = block * c;
    const std::int64_t full = first + block > whole ? 0 : (whole - first - block) / period + 1;
    const std::int64_t last = first + full * period;
    std::ptrdiff_t extent = 0;
    auto outer = std::make_unique<Builder>(MPI_COMBINER_DARRAY, kLarge<Count>);
    // All offsets lie inside the dimension, so they fit if it does.
    const bool fits = Builder::scale(whole, stride, extent) &&
                      outer->add_repeated(*part, block, full == 0 ? 0 : first * stride, full,
                                          full == 0 ? 0 : period * stride) &&
                      (last >= whole || outer->add(*part, whole - last, last * stride));
    if (!fits) return deliver(*outer, false, newtype, function);
    outer->set_bounds(0, extent);
    stride = extent;
    inner = std::move(outer);
    part = &inner->type();
  }
  inner->note_int(size);
  inner->note_int(rank);
  inner->note_int(ndims);
  inner->note(gsizes, ndims);
  for (int d = 0; d < ndims; ++d) inner->note_int(distribs[d]);
  for (int d = 0; d < ndims; ++d) inner->note_int(dargs[d]);
  for (int d = 0; d < ndims; ++d) inner->note_int(psizes[d]);
  inner->note_int(order);
  inner->note(old);
  return deliver(*inner, true, newtype, function);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT(google-build-using-namespace): bodies of a C interface

MPI_FUNCTION(Type_contiguous)(int count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return contiguous(count, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_contiguous_c)(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return contiguous(count, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_vector)
(int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return vector(count, blocklength, stride, false, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_vector_c)
(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return vector(count, blocklength, stride, false, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_hvector)
(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return vector(count, blocklength, stride, true, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_hvector_c)
(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return vector(count, blocklength, stride, true, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_indexed)
(int count, const int lengths[], const int places[], MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return indexed(count, lengths, places, false, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_indexed_c)
(MPI_Count count, const MPI_Count lengths[], const MPI_Count places[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed(count, lengths, places, false, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_hindexed)
(int count, const int lengths[], const MPI_Aint places[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed(count, lengths, places, true, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_hindexed_c)
(MPI_Count count, const MPI_Count lengths[], const MPI_Count places[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed(count, lengths, places, true, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_indexed_block)
(int count, int length, const int places[], MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return indexed_block(count, length, places, false, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_indexed_block_c)
(MPI_Count count, MPI_Count length, const MPI_Count places[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed_block(count, length, places, false, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_hindexed_block)
(int count, int length, const MPI_Aint places[], MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return indexed_block(count, length, places, true, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_hindexed_block_c)
(MPI_Count count, MPI_Count length, const MPI_Count places[], MPI_Datatype oldtype,
 MPI_Datatype* newtype) {
  return indexed_block(count, length, places, true, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_struct)
(int count, const int lengths[], const MPI_Aint places[], const MPI_Datatype oldtypes[],
 MPI_Datatype* newtype) {
  return structure(count, lengths, places, oldtypes, newtype, __func__);
}
MPI_FUNCTION(Type_create_struct_c)
(MPI_Count count, const MPI_Count lengths[], const MPI_Count places[],
 const MPI_Datatype oldtypes[], MPI_Datatype* newtype) {
  return structure(count, lengths, places, oldtypes, newtype, __func__);
}
MPI_FUNCTION(Type_create_resized)
(MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype* newtype) {
  return resized<int>(oldtype, lb, extent, newtype, __func__);
}
MPI_FUNCTION(Type_create_resized_c)
(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype) {
  return resized<MPI_Count>(oldtype, lb, extent, newtype, __func__);
}
MPI_FUNCTION(Type_create_subarray)
(int ndims, const int sizes[], const int subsizes[], const int starts[], int order,
 MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return subarray(ndims, sizes, subsizes, starts, order, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_subarray_c)
(int ndims, const MPI_Count sizes[], const MPI_Count subsizes[], const MPI_Count starts[],
 int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return subarray(ndims, sizes, subsizes, starts, order, oldtype, newtype, __func__);
}
MPI_FUNCTION(Type_create_darray)
(int size, int rank, int ndims, const int gsizes[], const int distribs[], const int dargs[],
 const int psizes[], int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return darray(size, rank, ndims, gsizes, distribs, dargs, psizes, order, oldtype, newtype,
                __func__);
}
MPI_FUNCTION(Type_create_darray_c)
(int size, int rank, int ndims, const MPI_Count gsizes[], const int distribs[], const int dargs[],
 const int psizes[], int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return darray(size, rank, ndims, gsizes, distribs, dargs, psizes, order, oldtype, newtype,
                __func__);
}
