#include "coll/switch/numbers.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "weft/bfloat16.hpp"

namespace weft::innet {
namespace {

template <class T>
inline constexpr bool kFloats =
    std::is_floating_point_v<T> || std::is_same_v<std::remove_cv_t<T>, Bfloat16>;

template <class T>
struct Wide {
  using type = std::conditional_t<std::is_integral_v<T>, T, float>;
};
template <>
struct Wide<double> {
  using type = double;
};

// Sums and products of integers wrap: they are computed in 64 bits and truncated.
template <class T, class F>
T arithmetic(T a, T b, F f) noexcept {
  if constexpr (std::is_same_v<T, Bfloat16>)
    return Bfloat16(f(float(a), float(b)));
  else if constexpr (std::is_floating_point_v<T>)
    return f(a, b);
  else if constexpr (sizeof(T) < 4)
    return static_cast<T>(f(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)));
  else
    return static_cast<T>(
        f(static_cast<std::make_unsigned_t<T>>(a), static_cast<std::make_unsigned_t<T>>(b)));
}
struct Sum {
  template <class T>
  static T of(T a, T b) noexcept {
    return arithmetic(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Prod {
  template <class T>
  static T of(T a, T b) noexcept {
    return arithmetic(a, b, [](auto x, auto y) { return x * y; });
  }
};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// With a NaN among the operands the result is a NaN, and -0 is less than 0, whatever the order:
// each of the two comparisons gives one operand, and where these are equal or not ordered, both.
struct Min {
  template <class T>
  static T of(T a, T b) noexcept {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      const float x = a, y = b;
      return Bfloat16(of(x, y));
    } else if constexpr (std::is_floating_point_v<T>) {
      using B = BitsOf<T>;
      const B all = std::bit_cast<B>(__builtin_isunordered(a, b) ? std::bit_cast<T>(~B{0}) : T(0));
      return std::bit_cast<T>(
          static_cast<B>(std::bit_cast<B>(b < a ? b : a) | std::bit_cast<B>(a < b ? a : b) | all));
    } else {
      return b < a ? b : a;
    }
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) noexcept {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      const float x = a, y = b;
      return Bfloat16(of(x, y));
    } else if constexpr (std::is_floating_point_v<T>) {
      using B = BitsOf<T>;
      const B all = std::bit_cast<B>(__builtin_isunordered(a, b) ? std::bit_cast<T>(~B{0}) : T(0));
      return std::bit_cast<T>(static_cast<B>(
          (std::bit_cast<B>(a < b ? b : a) & std::bit_cast<B>(b < a ? a : b)) | all));
    } else {
      return a < b ? b : a;
    }
  }
};
struct Land {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a != 0 && b != 0);
  }
};
struct Lor {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a != 0 || b != 0);
  }
};
struct Lxor {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>((a != 0) != (b != 0));
  }
};
struct Band {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a & b);
  }
};
struct Bor {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a | b);
  }
};
struct Bxor {
  template <class T>
  static T of(T a, T b) noexcept {
    return static_cast<T>(a ^ b);
  }
};

template <class T, class F>
void each(const std::byte* __restrict in, std::byte* __restrict inout, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, inout + i * sizeof(T), sizeof(T));
    std::memcpy(&y, in + i * sizeof(T), sizeof(T));
    x = F::of(x, y);
    std::memcpy(inout + i * sizeof(T), &x, sizeof(T));
  }
}

template <class T>
struct [[gnu::packed]] Pair {
  T value;
  std::int32_t index;
};

template <class T>
bool is_nan(T value) noexcept {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

// The larger (smaller) value, with equal values the smaller index; a NaN takes precedence over all
// others.
template <class T, bool kMax>
void locate(const std::byte* __restrict in, std::byte* __restrict inout,
            std::size_t count) noexcept {
  using P = Pair<T>;
  for (std::size_t i = 0; i < count; ++i) {
    P mine, other;
    std::memcpy(&mine, inout + i * sizeof(P), sizeof(P));
    std::memcpy(&other, in + i * sizeof(P), sizeof(P));
    const T x = other.value, y = mine.value;
    const bool is_equal = x == y || (is_nan(x) && is_nan(y));
    const bool is_better = (kMax ? x > y : x < y) || (is_nan(x) && !is_nan(y));
    if (is_better || (is_equal && other.index < mine.index))
      std::memcpy(inout + i * sizeof(P), &other, sizeof(P));
  }
}

void reduce_fixed(const std::byte* __restrict in, std::byte* __restrict inout,
                  std::size_t count) noexcept {
  if (count == 0) return;
  each<std::int32_t, Max>(in, inout, 1);
  each<std::int32_t, Sum>(in + 4, inout + 4, count - 1);
}

template <class T>
ReduceFunction numeric(Operation operation) noexcept {
  switch (operation) {
    case Operation::max:
      return each<T, Max>;
    case Operation::min:
      return each<T, Min>;
    case Operation::sum:
      return each<T, Sum>;
    case Operation::prod:
      return each<T, Prod>;
    default:
      break;
  }
  if constexpr (!kFloats<T>) switch (operation) {
      case Operation::land:
        return each<T, Land>;
      case Operation::band:
        return each<T, Band>;
      case Operation::lor:
        return each<T, Lor>;
      case Operation::bor:
        return each<T, Bor>;
      case Operation::lxor:
        return each<T, Lxor>;
      case Operation::bxor:
        return each<T, Bxor>;
      default:
        break;
    }
  return nullptr;
}
template <class T>
ReduceFunction location(Operation operation) noexcept {
  return operation == Operation::minloc   ? locate<T, false>
         : operation == Operation::maxloc ? locate<T, true>
                                          : ReduceFunction{nullptr};
}

}  // namespace

std::size_t element_bytes(Element element) noexcept {
  static constexpr std::size_t kBytes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 2, 8, 12, 12, 8, 6, 4};
  static_assert(std::size(kBytes) == kNumElements);
  return element < Element::kEnd ? kBytes[static_cast<std::size_t>(element)] : 0;
}

std::string_view name(Element element) noexcept {
  static constexpr std::string_view kNames[] = {
      "none",      "i8",         "u8",       "i16",     "u16",       "i32",
      "u32",       "i64",        "u64",      "f32",     "f64",       "bf16",
      "float_int", "double_int", "long_int", "two_int", "short_int", "fixed"};
  static_assert(std::size(kNames) == kNumElements);
  return element < Element::kEnd ? kNames[static_cast<std::size_t>(element)] : "?";
}

std::string_view name(Operation operation) noexcept {
  static constexpr std::string_view kNames[] = {"none", "max",    "min",   "sum", "prod",
                                                "land", "band",   "lor",   "bor", "lxor",
                                                "bxor", "minloc", "maxloc"};
  static_assert(std::size(kNames) == kNumOperations);
  return operation < Operation::kEnd ? kNames[static_cast<std::size_t>(operation)] : "?";
}

ReduceFunction find_reduce(Element element, Operation operation) noexcept {
  switch (element) {
    case Element::i8:
      return numeric<std::int8_t>(operation);
    case Element::u8:
      return numeric<std::uint8_t>(operation);
    case Element::i16:
      return numeric<std::int16_t>(operation);
    case Element::u16:
      return numeric<std::uint16_t>(operation);
    case Element::i32:
      return numeric<std::int32_t>(operation);
    case Element::u32:
      return numeric<std::uint32_t>(operation);
    case Element::i64:
      return numeric<std::int64_t>(operation);
    case Element::u64:
      return numeric<std::uint64_t>(operation);
    case Element::f32:
      return numeric<float>(operation);
    case Element::f64:
      return numeric<double>(operation);
    case Element::bf16:
      return numeric<Bfloat16>(operation);
    case Element::float_int:
      return location<float>(operation);
    case Element::double_int:
      return location<double>(operation);
    case Element::long_int:
      return location<std::int64_t>(operation);
    case Element::two_int:
      return location<std::int32_t>(operation);
    case Element::short_int:
      return location<std::int16_t>(operation);
    case Element::fixed:
      return operation == Operation::sum ? reduce_fixed : ReduceFunction{nullptr};
    case Element::none:
    case Element::kEnd:
      break;
  }
  return nullptr;
}

bool is_floating(Element element) noexcept {
  return element == Element::f32 || element == Element::f64 || element == Element::bf16 ||
         element == Element::float_int || element == Element::double_int;
}

bool depends_on_order(Element element, Operation operation) noexcept {
  return (element == Element::f32 || element == Element::f64 || element == Element::bf16) &&
         (operation == Operation::sum || operation == Operation::prod);
}

}  // namespace weft::innet
