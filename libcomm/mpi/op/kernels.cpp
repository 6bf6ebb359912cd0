// The predefined operations: for each operation and basic type one loop that the compiler can
// vectorise. Pairs are packed (a double and an int are 12 bytes), as reductions see them.
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mpi/op/half.hpp"
#include "mpi/op/op.hpp"

namespace weft::mpi {
namespace {

template <class T>
struct [[gnu::packed]] PackedPair {
  T value;
  int index;
};
template <class T>
struct [[gnu::packed]] SamePair {
  T value;
  T index;
};

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Prod {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a * b);
  }
};
// Processes may reduce the same two operands in either order, and all must get the same bits: with
// a NaN among floating-point operands the result is a NaN, and -0 is less than 0. Each of the two
// comparisons gives one of the operands, or both if these are equal or not ordered.
template <class T>
struct Bits {
  using type = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
};
template <class T>
typename Bits<T>::type bits(T value) {
  return std::bit_cast<typename Bits<T>::type>(value);
}
// Returns all bits for an operand that becomes a NaN, whatever it is joined with.
template <class T>
typename Bits<T>::type bits_if_unordered(T a, T b) {
  // Selected as T: compilers have no vectors of integers selected by comparing doubles.
  return bits(__builtin_isunordered(a, b) ? std::bit_cast<T>(~typename Bits<T>::type{0}) : T(0));
}
template <class T>
inline constexpr bool kHasBits = std::is_same_v<T, float> || std::is_same_v<T, double>;

struct Min {
  template <class T>
  static T of(T a, T b) {
    if constexpr (kHasBits<T>)
      return std::bit_cast<T>(bits(b < a ? b : a) | bits(a < b ? a : b) | bits_if_unordered(a, b));
    else if constexpr (std::is_same_v<T, long double>)
      return a < b || std::isnan(a) || (a == b && std::signbit(a)) ? a : b;
    else
      return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    if constexpr (kHasBits<T>)
      return std::bit_cast<T>((bits(a < b ? b : a) & bits(b < a ? a : b)) |
                              bits_if_unordered(a, b));
    else if constexpr (std::is_same_v<T, long double>)
      return a > b || std::isnan(a) || (a == b && std::signbit(b)) ? a : b;
    else
      return a < b ? b : a;
  }
};
struct Band {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Bor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Bxor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Land {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a != 0 && b != 0);
  }
};
struct Lor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a != 0 || b != 0);
  }
};
struct Lxor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((a != 0) != (b != 0));
  }
};

// Signed overflow wraps, as programs expect of sums of hashes.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<std::int8_t> {
  using type = std::uint8_t;
};
template <>
struct Wrapping<std::int16_t> {
  using type = std::uint16_t;
};
template <>
struct Wrapping<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::int64_t> {
  using type = std::uint64_t;
};
template <>
struct Wrapping<__int128> {
  using type = unsigned __int128;
};

// Buffers may be at any address: packed data are not aligned.
template <class T, class F>
[[gnu::always_inline]] inline void apply_each(const void* in, void* inout, std::size_t count) {
  const auto* __restrict a = static_cast<const char*>(in);
  auto* __restrict b = static_cast<char*>(inout);
  for (std::size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    y = F::of(x, y);
    std::memcpy(b + i * sizeof(T), &y, sizeof(T));
  }
}
template <class T, class F>
void apply_as_built(const void* in, void* inout, std::size_t count, void*) {
  apply_each<T, F>(in, inout, count);
}
#ifdef __x86_64__
// Uses vectors of twice the length that every x86-64 has. Results are the same: nothing is fused.
template <class T, class F>
[[gnu::target("avx2")]] void apply_avx2(const void* in, void* inout, std::size_t count, void*) {
  apply_each<T, F>(in, inout, count);
}
const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif
template <class T, class F>
Kernel apply() noexcept {
#ifdef __x86_64__
  if (has_avx2) return apply_avx2<T, F>;
#endif
  return apply_as_built<T, F>;
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

// Returns the smaller (larger) value, and with equal values the smaller index. A NaN comes before
// all others.
template <class P, bool kMax>
void locate(const void* in, void* inout, std::size_t count, void*) {
  const auto* a = static_cast<const P*>(in);
  auto* b = static_cast<P*>(inout);
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = a[i].value, y = b[i].value;
    const bool is_equal = x == y || (is_nan(x) && is_nan(y));
    const bool is_better = (kMax ? x > y : x < y) || (is_nan(x) && !is_nan(y));
    if (is_better || (is_equal && a[i].index < b[i].index)) b[i] = a[i];
  }
}

template <class T>
Kernel arithmetic(unsigned code) noexcept {
  using W = typename Wrapping<T>::type;
  switch (code) {
    case 0x01:
      return apply<W, Sum>();
    case 0x02:
      return apply<T, Min>();
    case 0x03:
      return apply<T, Max>();
    case 0x04:
      return apply<W, Prod>();
    default:
      return nullptr;
  }
}
template <class T>
Kernel complex_arithmetic(unsigned code) noexcept {
  return code == 0x01 ? apply<T, Sum>() : code == 0x04 ? apply<T, Prod>() : nullptr;
}
template <class T>
Kernel bitwise(unsigned code) noexcept {
  switch (code) {
    case 0x08:
      return apply<T, Band>();
    case 0x09:
      return apply<T, Bor>();
    case 0x0a:
      return apply<T, Bxor>();
    default:
      return nullptr;
  }
}
template <class T>
Kernel logical(unsigned code) noexcept {
  switch (code) {
    case 0x10:
      return apply<T, Land>();
    case 0x11:
      return apply<T, Lor>();
    case 0x12:
      return apply<T, Lxor>();
    default:
      return nullptr;
  }
}
template <class P>
Kernel location(unsigned code) noexcept {
  return code == 0x18 ? locate<P, false> : code == 0x19 ? locate<P, true> : nullptr;
}

template <class T>
Kernel integer(unsigned code, BasicClass kind) noexcept {
  Kernel found = nullptr;
  if (kind == BasicClass::integer || kind == BasicClass::multi) found = arithmetic<T>(code);
  if (found == nullptr && kind != BasicClass::logical) found = bitwise<T>(code);
  // The standard has no logical operations on MPI_AINT and its like; other libraries do, and
  // programs use them.
  if (found == nullptr && kind != BasicClass::byte) found = logical<T>(code);
  return found;
}

}  // namespace

Kernel find_kernel(unsigned code, Basic basic, BasicClass kind) noexcept {
  switch (basic) {
    case Basic::i8:
      return integer<std::int8_t>(code, kind);
    case Basic::u8:
      return integer<std::uint8_t>(code, kind);
    case Basic::i16:
      return integer<std::int16_t>(code, kind);
    case Basic::u16:
      return integer<std::uint16_t>(code, kind);
    case Basic::i32:
      return integer<std::int32_t>(code, kind);
    case Basic::u32:
      return integer<std::uint32_t>(code, kind);
    case Basic::i64:
      return integer<std::int64_t>(code, kind);
    case Basic::u64:
      return integer<std::uint64_t>(code, kind);
    case Basic::i128:
      return integer<__int128>(code, kind);
    case Basic::f16:
      return arithmetic<Half>(code);
    case Basic::f32:
      return arithmetic<float>(code);
    case Basic::f64:
      return arithmetic<double>(code);
    case Basic::f80:
      return arithmetic<long double>(code);
    case Basic::f128:
      return arithmetic<__float128>(code);
    case Basic::c16:
      return complex_arithmetic<ComplexHalf>(code);
    case Basic::c32:
      return complex_arithmetic<std::complex<float>>(code);
    case Basic::c64:
      return complex_arithmetic<std::complex<double>>(code);
    case Basic::c80:
      return complex_arithmetic<std::complex<long double>>(code);
    case Basic::c128:
      return complex_arithmetic<std::complex<__float128>>(code);
    case Basic::float_int:
      return location<PackedPair<float>>(code);
    case Basic::double_int:
      return location<PackedPair<double>>(code);
    case Basic::long_int:
      return location<PackedPair<long>>(code);
    case Basic::two_int:
      return location<PackedPair<int>>(code);
    case Basic::short_int:
      return location<PackedPair<short>>(code);
    case Basic::f80_int:
      return location<PackedPair<long double>>(code);
    case Basic::two_real:
      return location<SamePair<float>>(code);
    case Basic::two_double:
      return location<SamePair<double>>(code);
    default:
      return nullptr;
  }
}

}  // namespace weft::mpi
