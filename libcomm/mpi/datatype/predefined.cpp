// The predefined datatypes: one table, in the order of their handles.
#include <complex>
#include <cstddef>
#include <type_traits>

#include "mpi/core/state.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {
namespace {

struct Row {
  MPI_Datatype handle;
  const char* name;
  Basic basic;
  BasicClass kind;
  std::size_t size;  // of one basic element; pairs give their parts below
};

template <class T>
struct Pair {
  T value;
  int index;
};

#define ROW(id, basic, kind, size) \
  { id, #id, Basic::basic, BasicClass::kind, size }
// The standard has no operations on MPI_CHAR and MPI_CHARACTER; other libraries reduce them as
// signed char, and programs rely on it.
const Row kRows[] = {
    ROW(MPI_AINT, i64, multi, 8),
    ROW(MPI_COUNT, i64, multi, 8),
    ROW(MPI_OFFSET, i64, multi, 8),
    ROW(MPI_PACKED, none, none, 1),
    ROW(MPI_SHORT, i16, integer, 2),
    ROW(MPI_INT, i32, integer, 4),
    ROW(MPI_LONG, i64, integer, 8),
    ROW(MPI_LONG_LONG, i64, integer, 8),
    ROW(MPI_UNSIGNED_SHORT, u16, integer, 2),
    ROW(MPI_UNSIGNED, u32, integer, 4),
    ROW(MPI_UNSIGNED_LONG, u64, integer, 8),
    ROW(MPI_UNSIGNED_LONG_LONG, u64, integer, 8),
    ROW(MPI_FLOAT, f32, floating, 4),
    ROW(MPI_DOUBLE, f64, floating, 8),
    ROW(MPI_LONG_DOUBLE, f80, floating, sizeof(long double)),
    ROW(MPI_C_COMPLEX, c32, complex, 8),  // MPI_C_FLOAT_COMPLEX is its synonym (MPI 5.0, table 3.2)
    ROW(MPI_CXX_FLOAT_COMPLEX, c32, complex, 8),
    ROW(MPI_C_DOUBLE_COMPLEX, c64, complex, 16),
    ROW(MPI_CXX_DOUBLE_COMPLEX, c64, complex, 16),
    ROW(MPI_C_LONG_DOUBLE_COMPLEX, c80, complex, 2 * sizeof(long double)),
    ROW(MPI_CXX_LONG_DOUBLE_COMPLEX, c80, complex, 2 * sizeof(long double)),
    // Fortran's default kinds: those of gfortran and others without options.
    ROW(MPI_LOGICAL, i32, logical, 4),
    ROW(MPI_INTEGER, i32, integer, 4),
    ROW(MPI_REAL, f32, floating, 4),
    ROW(MPI_COMPLEX, c32, complex, 8),
    ROW(MPI_DOUBLE_PRECISION, f64, floating, 8),
    ROW(MPI_DOUBLE_COMPLEX, c64, complex, 16),
    ROW(MPI_CHARACTER, i8, integer, 1),
    ROW(MPI_FLOAT_INT, float_int, pair, 0),
    ROW(MPI_DOUBLE_INT, double_int, pair, 0),
    ROW(MPI_LONG_INT, long_int, pair, 0),
    ROW(MPI_2INT, two_int, pair, 0),
    ROW(MPI_SHORT_INT, short_int, pair, 0),
    ROW(MPI_LONG_DOUBLE_INT, f80_int, pair, 0),
    ROW(MPI_2REAL, two_real, pair, 0),
    ROW(MPI_2DOUBLE_PRECISION, two_double, pair, 0),
    ROW(MPI_2INTEGER, two_int, pair, 0),
    ROW(MPI_C_BOOL, u8, logical, 1),
    ROW(MPI_CXX_BOOL, u8, logical, 1),
    ROW(MPI_WCHAR, none, none, sizeof(wchar_t)),
    ROW(MPI_INT8_T, i8, integer, 1),
    ROW(MPI_UINT8_T, u8, integer, 1),
    ROW(MPI_CHAR, i8, integer, 1),
    ROW(MPI_SIGNED_CHAR, i8, integer, 1),
    ROW(MPI_UNSIGNED_CHAR, u8, integer, 1),
    ROW(MPI_BYTE, u8, byte, 1),
    ROW(MPI_INT16_T, i16, integer, 2),
    ROW(MPI_UINT16_T, u16, integer, 2),
    ROW(MPI_INT32_T, i32, integer, 4),
    ROW(MPI_UINT32_T, u32, integer, 4),
    ROW(MPI_INT64_T, i64, integer, 8),
    ROW(MPI_UINT64_T, u64, integer, 8),
    ROW(MPI_LOGICAL1, i8, logical, 1),
    ROW(MPI_LOGICAL2, i16, logical, 2),
    ROW(MPI_LOGICAL4, i32, logical, 4),
    ROW(MPI_LOGICAL8, i64, logical, 8),
    ROW(MPI_LOGICAL16, i128, logical, 16),
    ROW(MPI_INTEGER1, i8, integer, 1),
    ROW(MPI_INTEGER2, i16, integer, 2),
    ROW(MPI_INTEGER4, i32, integer, 4),
    ROW(MPI_INTEGER8, i64, integer, 8),
    ROW(MPI_INTEGER16, i128, integer, 16),
    ROW(MPI_REAL2, f16, floating, 2),
    ROW(MPI_REAL4, f32, floating, 4),
    ROW(MPI_REAL8, f64, floating, 8),
    ROW(MPI_REAL16, f128, floating, 16),
    ROW(MPI_COMPLEX4, c16, complex, 4),
    ROW(MPI_COMPLEX8, c32, complex, 8),
    ROW(MPI_COMPLEX16, c64, complex, 16),
    ROW(MPI_COMPLEX32, c128, complex, 32),
};
#undef ROW

std::size_t alignment(const Row& row) {
  switch (row.basic) {
    case Basic::f80:
    case Basic::c80:
      return alignof(long double);
    case Basic::c16:
      return 2;
    case Basic::c128:
      return alignof(__float128);
    case Basic::c32:
      return alignof(float);
    case Basic::c64:
      return alignof(double);
    default:
      return row.size;
  }
}

Form form_of(const Row& row) {
  if (row.handle == MPI_LONG) return {Form::Kind::is_long, 8};
  if (row.handle == MPI_UNSIGNED_LONG) return {Form::Kind::is_unsigned_long, 8};
  if (row.handle == MPI_WCHAR) return {Form::Kind::wide_character, sizeof(wchar_t)};
  if (row.basic == Basic::f80 || row.basic == Basic::c80)
    return {Form::Kind::long_double, sizeof(long double)};
  const bool is_complex = row.kind == BasicClass::complex;
  return {Form::Kind::plain, static_cast<std::uint8_t>(is_complex ? row.size / 2 : row.size)};
}

template <class T>
constexpr Form pair_form() {
  Form form{Form::Kind::plain, sizeof(T)};
  if constexpr (std::is_same_v<T, long>) form.kind = Form::Kind::is_long;
  if constexpr (std::is_same_v<T, long double>) form.kind = Form::Kind::long_double;
  return form;
}

void make_pair(Datatype& type, Form first_form, std::size_t second, std::ptrdiff_t offset,
               std::size_t whole, std::size_t align) {
  const std::size_t first = first_form.unit;
  type.layout_.append(Layout::block(first), 0, 1, 0);
  type.layout_.append(Layout::block(second), offset, 1, 0);
  type.signature_.append(Signature::basic(first, first_form), 1);
  const Form second_form{Form::Kind::plain, static_cast<std::uint8_t>(second)};
  type.signature_.append(Signature::basic(second, second_form), 1);
  type.size_ = first + second;
  type.ub_ = static_cast<std::ptrdiff_t>(whole);
  type.true_ub_ = offset + static_cast<std::ptrdiff_t>(second);
  type.align_ = align;
}

template <class T>
void make_pair_with_int(Datatype& type) {
  make_pair(type, pair_form<T>(), sizeof(int), offsetof(Pair<T>, index), sizeof(Pair<T>),
            alignof(Pair<T>));
}

Datatype* make_all() {
  auto* types = new Datatype[256];
  for (const Row& row : kRows) {
    Datatype& type = types[reinterpret_cast<std::uintptr_t>(row.handle) & 0xff];
    type.handle_ = row.handle;
    type.name_ = row.name;
    type.basic_ = row.basic;
    type.class_ = row.kind;
    type.predefined_ = true;
    switch (row.basic) {
      case Basic::float_int:
        make_pair_with_int<float>(type);
        break;
      case Basic::double_int:
        make_pair_with_int<double>(type);
        break;
      case Basic::long_int:
        make_pair_with_int<long>(type);
        break;
      case Basic::two_int:
        make_pair_with_int<int>(type);
        break;
      case Basic::short_int:
        make_pair_with_int<short>(type);
        break;
      case Basic::f80_int:
        make_pair_with_int<long double>(type);
        break;
      case Basic::two_real:
        make_pair(type, pair_form<float>(), 4, 4, 8, 4);
        break;
      case Basic::two_double:
        make_pair(type, pair_form<double>(), 8, 8, 16, 8);
        break;
      default:
        type.layout_ = Layout::block(row.size);
        type.signature_ = Signature::basic(row.size, form_of(row));
        type.size_ = row.size;
        type.ub_ = type.true_ub_ = static_cast<std::ptrdiff_t>(row.size);
        type.align_ = alignment(row);
    }
    type.seal();
    type.committed_ = true;
  }
  return types;
}

}  // namespace

Datatype* const predefined_datatypes = make_all();

}  // namespace weft::mpi
