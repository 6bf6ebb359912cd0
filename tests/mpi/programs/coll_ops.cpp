// Every predefined operation on every predefined C type it is defined for, through Reduce,
// Allreduce, Scan, Exscan, Reduce_scatter, Reduce_scatter_block and Reduce_local, against the same
// folding done here in rank order.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "expect.h"

namespace {

// std::vector<bool> has no data(): a bool is kept as its byte.
struct Flag {
  bool on = false;
  bool operator!=(const Flag& other) const { return on != other.on; }
};

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

// Small values, so that sums and products of eight of them are exact in every type.
template <class T>
T value_of(int from, int i) {
  auto v = mix(from * 1000003u + i);
  if constexpr (IsComplex<T>::value) {
    return T(static_cast<typename T::value_type>(v % 3),
             static_cast<typename T::value_type>(v / 3 % 2));
  } else if constexpr (std::is_same_v<T, Flag>) {
    return Flag{(v & 1) != 0};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<int>(v % 5) - 2) / 2;
  } else {
    return static_cast<T>(v % 3 == 0 ? v >> 40 : v % 4);  // some wide, for the bit operations
  }
}

// A product or sum of wide integers wraps in the type's own width.
template <class T, class F>
void check(MPI_Datatype type, MPI_Op op, const char* op_name, const char* type_name, F fold) {
  // Open MPI sums 8 and 16 bits saturating where the processor can; MPICH takes the largest and
  // smallest of unsigned ones as if they were signed.
  if (kOpenMpi && op == MPI_SUM && sizeof(T) < 4) return;
  if (kMpich && (op == MPI_MAX || op == MPI_MIN) && sizeof(T) < 4) return;
  for (int n : {1, 3, 17, 1000}) {
    std::vector<T> mine(n), all(n), before(n), total(n), result(n);
    auto data = [](std::vector<T>& v) { return static_cast<void*>(v.data()); };
    for (int i = 0; i < n; ++i) {
      mine[i] = value_of<T>(rank, i);
      T sum = value_of<T>(0, i);
      before[i] = sum;
      for (int r = 1; r < size; ++r) {
        sum = fold(sum, value_of<T>(r, i));
        if (r < rank) before[i] = sum;
        if (r == rank) all[i] = sum;
      }
      if (rank == 0) all[i] = value_of<T>(0, i);
      total[i] = sum;
    }
    auto expect = [&](const std::vector<T>& expected, const char* call, int from = 0,
                      int count = -1) {
      for (int i = 0; i < (count < 0 ? n : count); ++i)
        if (result[i] != expected[from + i]) {
          fprintf(stderr, "%s %s of %d %s, element %d\n", call, op_name, n, type_name, i);
          failed(__FILE__, __LINE__, "wrong result");
          return;
        }
    };
    auto clear = [&] { std::fill(result.begin(), result.end(), T()); };
    clear();
    EXPECT_OK(MPI_Allreduce(data(mine), data(result), n, type, op, MPI_COMM_WORLD));
    expect(total, "Allreduce");
    for (int root = 0; root < size; ++root) {
      clear();
      EXPECT_OK(MPI_Reduce(data(mine), data(result), n, type, op, root, MPI_COMM_WORLD));
      if (rank == root) expect(total, "Reduce");
    }
    clear();
    EXPECT_OK(MPI_Scan(data(mine), data(result), n, type, op, MPI_COMM_WORLD));
    expect(all, "Scan");
    clear();
    EXPECT_OK(MPI_Exscan(data(mine), data(result), n, type, op, MPI_COMM_WORLD));
    if (rank > 0) expect(before, "Exscan");
    if (n >= size) {
      std::vector<int> counts(size, n / size);
      counts[size - 1] += n % size;
      clear();
      EXPECT_OK(
          MPI_Reduce_scatter(data(mine), data(result), counts.data(), type, op, MPI_COMM_WORLD));
      expect(total, "Reduce_scatter", rank * (n / size), counts[rank]);
      clear();
      EXPECT_OK(
          MPI_Reduce_scatter_block(data(mine), data(result), n / size, type, op, MPI_COMM_WORLD));
      expect(total, "Reduce_scatter_block", rank * (n / size), n / size);
    }
    std::vector<T> folded(n);
    for (int i = 0; i < n; ++i) {
      result[i] = value_of<T>(99, i);
      folded[i] = fold(mine[i], result[i]);
    }
    EXPECT_OK(MPI_Reduce_local(data(mine), data(result), n, type, op));
    expect(folded, "Reduce_local");
  }
}

template <class T>
T as(auto value) {
  return static_cast<T>(value);
}

template <class T>
void arithmetic(MPI_Datatype type, const char* name) {
  check<T>(type, MPI_SUM, "MPI_SUM", name, [](T a, T b) { return as<T>(a + b); });
  check<T>(type, MPI_PROD, "MPI_PROD", name, [](T a, T b) { return as<T>(a * b); });
}
template <class T>
void ordered(MPI_Datatype type, const char* name) {
  check<T>(type, MPI_MAX, "MPI_MAX", name, [](T a, T b) { return a > b ? a : b; });
  check<T>(type, MPI_MIN, "MPI_MIN", name, [](T a, T b) { return a < b ? a : b; });
}
template <class T>
void logical(MPI_Datatype type, const char* name) {
  check<T>(type, MPI_LAND, "MPI_LAND", name, [](T a, T b) { return as<T>(a && b); });
  check<T>(type, MPI_LOR, "MPI_LOR", name, [](T a, T b) { return as<T>(a || b); });
  check<T>(type, MPI_LXOR, "MPI_LXOR", name, [](T a, T b) { return as<T>(!a != !b); });
}
template <class T>
void bits(MPI_Datatype type, const char* name) {
  check<T>(type, MPI_BAND, "MPI_BAND", name, [](T a, T b) { return as<T>(a & b); });
  check<T>(type, MPI_BOR, "MPI_BOR", name, [](T a, T b) { return as<T>(a | b); });
  check<T>(type, MPI_BXOR, "MPI_BXOR", name, [](T a, T b) { return as<T>(a ^ b); });
}
template <class T>
void integer(MPI_Datatype type, const char* name) {
  using U = std::make_unsigned_t<T>;
  // Signed types in the unsigned type, where wrapping is defined.
  check<T>(type, MPI_SUM, "MPI_SUM", name,
           [](T a, T b) { return as<T>(as<U>(as<U>(a) + as<U>(b))); });
  check<T>(type, MPI_PROD, "MPI_PROD", name, [](T a, T b) {
    return as<T>(as<U>(as<std::uint64_t>(as<U>(a)) * as<std::uint64_t>(as<U>(b))));
  });
  ordered<T>(type, name);
  bits<T>(type, name);
}
template <class T>
void floating(MPI_Datatype type, const char* name) {
  arithmetic<T>(type, name);
  ordered<T>(type, name);
}

template <class T>
struct Pair {
  T value;
  int index;
  bool operator!=(const Pair& other) const { return value != other.value || index != other.index; }
};

template <class T>
void pairs(MPI_Datatype type, const char* name) {
  for (int n : {1, 5, 300}) {
    std::vector<Pair<T>> mine(n), result(n), largest(n), smallest(n);
    for (auto* v : {&mine, &result}) memset(static_cast<void*>(v->data()), 0, n * sizeof(Pair<T>));
    auto of = [](int r, int i) { return Pair<T>{static_cast<T>(mix(r * 31 + i) % 3), r * 10 + i}; };
    for (int i = 0; i < n; ++i) {
      mine[i] = of(rank, i);
      largest[i] = smallest[i] = of(0, i);
      for (int r = 1; r < size; ++r) {  // of equals the smaller index, which is the earlier rank
        if (of(r, i).value > largest[i].value) largest[i] = of(r, i);
        if (of(r, i).value < smallest[i].value) smallest[i] = of(r, i);
      }
    }
    auto compare = [&](const std::vector<Pair<T>>& expected) {
      for (int i = 0; i < n; ++i)
        if (result[i] != expected[i]) {
          fprintf(stderr, "%s of %d, element %d\n", name, n, i);
          failed(__FILE__, __LINE__, "wrong pair");
          return;
        }
    };
    EXPECT_OK(MPI_Allreduce(mine.data(), result.data(), n, type, MPI_MAXLOC, MPI_COMM_WORLD));
    compare(largest);
    EXPECT_OK(MPI_Allreduce(mine.data(), result.data(), n, type, MPI_MINLOC, MPI_COMM_WORLD));
    compare(smallest);
    for (int root = 0; root < size; ++root) {
      EXPECT_OK(MPI_Reduce(mine.data(), result.data(), n, type, MPI_MAXLOC, root, MPI_COMM_WORLD));
      if (rank == root) compare(largest);
    }
  }
  int bytes = -1;
  MPI_Type_size(type, &bytes);
  EXPECT_EQ(bytes, sizeof(T) + sizeof(int));
}

// A NaN of any process makes the result a NaN, -0 is less than 0, and every process gets the same.
template <class T>
void unordered(MPI_Datatype type, MPI_Datatype pair_type) {
  enum { kZero, kMinusZero, kOne, kNan };
  auto kind_of = [](int from, int i) {
    // One process in turn has a NaN in every third element; zeros of both signs in another third.
    if (i % 3 == 0) return from == i / 3 % size ? kNan : kOne;
    if (i % 3 == 1) return from == i / 3 % size ? kMinusZero : kZero;
    return kOne;
  };
  for (int n : {1, 4, 300}) {
    std::vector<T> mine(n), result(n);
    std::vector<Pair<T>> my_pairs(n), found(n);
    for (auto* v : {&my_pairs, &found})
      memset(static_cast<void*>(v->data()), 0, n * sizeof(Pair<T>));
    for (int i = 0; i < n; ++i) {
      const int kind = kind_of(rank, i);
      mine[i] = kind == kNan ? std::numeric_limits<T>::quiet_NaN()
                             : T(kind == kOne    ? 1
                                 : kind == kZero ? 0.0
                                                 : -0.0);
      my_pairs[i] = {mine[i], rank};
    }
    for (MPI_Op op : {MPI_MAX, MPI_MIN}) {
      const bool is_max = op == MPI_MAX;
      EXPECT_OK(MPI_Allreduce(mine.data(), result.data(), n, type, op, MPI_COMM_WORLD));
      EXPECT_OK(MPI_Allreduce(my_pairs.data(), found.data(), n, pair_type,
                              is_max ? MPI_MAXLOC : MPI_MINLOC, MPI_COMM_WORLD));
      for (int i = 0; i < n; ++i) {
        if (i % 3 == 0) {
          EXPECT(std::isnan(result[i]) && std::isnan(found[i].value));
          EXPECT_EQ(found[i].index, i / 3 % size);
        } else {
          EXPECT(result[i] == T(i % 3 == 1 ? 0 : 1) && found[i].value == result[i]);
          EXPECT_EQ(found[i].index, 0);  // both zeros are equal there: the first process has it
        }
        if (i % 3 == 1) EXPECT_EQ(std::signbit(result[i]), !is_max || size == 1);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  integer<signed char>(MPI_SIGNED_CHAR, "SIGNED_CHAR");
  // Not in the standard, but in every library.
  integer<signed char>(MPI_CHAR, "CHAR");
  if (!kOpenMpi) integer<signed char>(MPI_CHARACTER, "CHARACTER");  // unsigned there
  logical<signed char>(MPI_CHAR, "CHAR");
  integer<unsigned char>(MPI_UNSIGNED_CHAR, "UNSIGNED_CHAR");
  integer<short>(MPI_SHORT, "SHORT");
  integer<unsigned short>(MPI_UNSIGNED_SHORT, "UNSIGNED_SHORT");
  integer<int>(MPI_INT, "INT");
  integer<unsigned>(MPI_UNSIGNED, "UNSIGNED");
  integer<long>(MPI_LONG, "LONG");
  integer<unsigned long>(MPI_UNSIGNED_LONG, "UNSIGNED_LONG");
  integer<long long>(MPI_LONG_LONG, "LONG_LONG");
  integer<unsigned long long>(MPI_UNSIGNED_LONG_LONG, "UNSIGNED_LONG_LONG");
  integer<std::int8_t>(MPI_INT8_T, "INT8_T");
  integer<std::int16_t>(MPI_INT16_T, "INT16_T");
  integer<std::int32_t>(MPI_INT32_T, "INT32_T");
  integer<std::int64_t>(MPI_INT64_T, "INT64_T");
  integer<std::uint8_t>(MPI_UINT8_T, "UINT8_T");
  integer<std::uint16_t>(MPI_UINT16_T, "UINT16_T");
  integer<std::uint32_t>(MPI_UINT32_T, "UINT32_T");
  integer<std::uint64_t>(MPI_UINT64_T, "UINT64_T");
  integer<MPI_Aint>(MPI_AINT, "AINT");
  integer<MPI_Offset>(MPI_OFFSET, "OFFSET");
  integer<MPI_Count>(MPI_COUNT, "COUNT");
  logical<MPI_Aint>(MPI_AINT, "AINT");
  logical<MPI_Count>(MPI_COUNT, "COUNT");
  logical<int>(MPI_INT, "INT");
  logical<short>(MPI_SHORT, "SHORT");
  logical<std::uint64_t>(MPI_UINT64_T, "UINT64_T");
  logical<unsigned char>(MPI_UNSIGNED_CHAR, "UNSIGNED_CHAR");
  logical<long>(MPI_LONG, "LONG");
  check<Flag>(MPI_C_BOOL, MPI_LAND, "MPI_LAND", "C_BOOL",
              [](Flag a, Flag b) { return Flag{a.on && b.on}; });
  check<Flag>(MPI_C_BOOL, MPI_LOR, "MPI_LOR", "C_BOOL",
              [](Flag a, Flag b) { return Flag{a.on || b.on}; });
  check<Flag>(MPI_C_BOOL, MPI_LXOR, "MPI_LXOR", "C_BOOL",
              [](Flag a, Flag b) { return Flag{a.on != b.on}; });
  floating<float>(MPI_FLOAT, "FLOAT");
  floating<double>(MPI_DOUBLE, "DOUBLE");
  floating<long double>(MPI_LONG_DOUBLE, "LONG_DOUBLE");
  arithmetic<std::complex<float>>(MPI_C_FLOAT_COMPLEX, "C_FLOAT_COMPLEX");
  arithmetic<std::complex<double>>(MPI_C_DOUBLE_COMPLEX, "C_DOUBLE_COMPLEX");
  arithmetic<std::complex<long double>>(MPI_C_LONG_DOUBLE_COMPLEX, "C_LONG_DOUBLE_COMPLEX");
  bits<unsigned char>(MPI_BYTE, "BYTE");
  pairs<float>(MPI_FLOAT_INT, "FLOAT_INT");
  pairs<double>(MPI_DOUBLE_INT, "DOUBLE_INT");
  pairs<long>(MPI_LONG_INT, "LONG_INT");
  pairs<int>(MPI_2INT, "2INT");
  pairs<short>(MPI_SHORT_INT, "SHORT_INT");
  pairs<long double>(MPI_LONG_DOUBLE_INT, "LONG_DOUBLE_INT");
  if (!kOpenMpi && !kMpich) {  // these leave it to the order of the operands
    unordered<float>(MPI_FLOAT, MPI_FLOAT_INT);
    unordered<double>(MPI_DOUBLE, MPI_DOUBLE_INT);
    unordered<long double>(MPI_LONG_DOUBLE, MPI_LONG_DOUBLE_INT);
  }
  return end();
}
