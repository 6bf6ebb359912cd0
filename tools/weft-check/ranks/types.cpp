#include "tools/weft-check/ranks/types.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tools/weft-check/lock.hpp"

namespace weft::check {
namespace {

constexpr std::size_t kMostRuns = 512;
constexpr int kMostDepth = 32;
constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ull | 1;

// A sequence is the function x -> factor^number * x + hash; one behind the other compose.
std::uint64_t power(std::uint64_t number) {
  std::uint64_t result = 1;
  for (std::uint64_t square = kFactor; number != 0; number >>= 1, square *= square)
    if ((number & 1) != 0) result *= square;
  return result;
}

Signature of_basic(Basic basic, std::size_t bytes) {
  if (basic == 0) return {bytes, 0, 0, true};
  return {1, 0, basic, false};
}

// The hash of a sequence, also of equal elements: their sum is a geometric one.
std::uint64_t hash_of(const Signature& signature) {
  if (signature.basic == 0) return signature.hash;
  const std::uint64_t mixed = signature.basic * 0xbf58476d1ce4e5b9ull;
  std::uint64_t sum = 0, square_sum = mixed ^ mixed >> 29, square = kFactor;
  for (std::uint64_t number = signature.number; number != 0; number >>= 1) {
    if ((number & 1) != 0) sum = sum * square + square_sum;
    square_sum += square_sum * square;
    square *= square;
  }
  return sum;
}

struct Predefined {
  MPI_Datatype type;
  Kind kind;  // none: bytes of anything
  const char* name;
  Kind second = Kind::none;  // of a pair
  std::size_t second_bytes = 0;
};

constexpr Kind I = Kind::integer, N = Kind::natural, R = Kind::real, Z = Kind::complex,
               L = Kind::logical, C = Kind::character;

#define WEFT_TYPE(type, kind) \
  { type, kind, #type }
const Predefined kPredefined[] = {
    WEFT_TYPE(MPI_AINT, I),
    WEFT_TYPE(MPI_COUNT, I),
    WEFT_TYPE(MPI_OFFSET, I),
    WEFT_TYPE(MPI_PACKED, Kind::none),
    WEFT_TYPE(MPI_SHORT, I),
    WEFT_TYPE(MPI_INT, I),
    WEFT_TYPE(MPI_LONG, I),
    WEFT_TYPE(MPI_LONG_LONG, I),
    WEFT_TYPE(MPI_UNSIGNED_SHORT, N),
    WEFT_TYPE(MPI_UNSIGNED, N),
    WEFT_TYPE(MPI_UNSIGNED_LONG, N),
    WEFT_TYPE(MPI_UNSIGNED_LONG_LONG, N),
    WEFT_TYPE(MPI_FLOAT, R),
    WEFT_TYPE(MPI_C_FLOAT_COMPLEX, Z),
    WEFT_TYPE(MPI_CXX_FLOAT_COMPLEX, Z),
    WEFT_TYPE(MPI_DOUBLE, R),
    WEFT_TYPE(MPI_C_DOUBLE_COMPLEX, Z),
    WEFT_TYPE(MPI_CXX_DOUBLE_COMPLEX, Z),
    WEFT_TYPE(MPI_LOGICAL, L),
    WEFT_TYPE(MPI_INTEGER, I),
    WEFT_TYPE(MPI_REAL, R),
    WEFT_TYPE(MPI_COMPLEX, Z),
    WEFT_TYPE(MPI_DOUBLE_PRECISION, R),
    WEFT_TYPE(MPI_DOUBLE_COMPLEX, Z),
    WEFT_TYPE(MPI_CHARACTER, C),
    WEFT_TYPE(MPI_LONG_DOUBLE, R),
    WEFT_TYPE(MPI_C_LONG_DOUBLE_COMPLEX, Z),
    WEFT_TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, Z),
    {MPI_FLOAT_INT, R, "MPI_FLOAT_INT", I, sizeof(float)},
    {MPI_DOUBLE_INT, R, "MPI_DOUBLE_INT", I, sizeof(double)},
    {MPI_LONG_INT, I, "MPI_LONG_INT", I, sizeof(long)},
    {MPI_2INT, I, "MPI_2INT", I, sizeof(int)},
    {MPI_SHORT_INT, I, "MPI_SHORT_INT", I, sizeof(short)},
    {MPI_LONG_DOUBLE_INT, R, "MPI_LONG_DOUBLE_INT", I, sizeof(long double)},
    {MPI_2REAL, R, "MPI_2REAL", R, sizeof(float)},
    {MPI_2DOUBLE_PRECISION, R, "MPI_2DOUBLE_PRECISION", R, sizeof(double)},
    {MPI_2INTEGER, I, "MPI_2INTEGER", I, sizeof(int)},
    WEFT_TYPE(MPI_C_BOOL, L),
    WEFT_TYPE(MPI_CXX_BOOL, L),
    WEFT_TYPE(MPI_WCHAR, I),
    WEFT_TYPE(MPI_INT8_T, C),
    WEFT_TYPE(MPI_UINT8_T, C),
    WEFT_TYPE(MPI_CHAR, C),
    WEFT_TYPE(MPI_SIGNED_CHAR, C),
    WEFT_TYPE(MPI_UNSIGNED_CHAR, C),
    WEFT_TYPE(MPI_BYTE, Kind::none),
    WEFT_TYPE(MPI_INT16_T, I),
    WEFT_TYPE(MPI_UINT16_T, N),
    WEFT_TYPE(MPI_INT32_T, I),
    WEFT_TYPE(MPI_UINT32_T, N),
    WEFT_TYPE(MPI_INT64_T, I),
    WEFT_TYPE(MPI_UINT64_T, N),
    WEFT_TYPE(MPI_LOGICAL1, L),
    WEFT_TYPE(MPI_INTEGER1, C),
    WEFT_TYPE(MPI_LOGICAL2, L),
    WEFT_TYPE(MPI_INTEGER2, I),
    WEFT_TYPE(MPI_REAL2, R),
    WEFT_TYPE(MPI_LOGICAL4, L),
    WEFT_TYPE(MPI_INTEGER4, I),
    WEFT_TYPE(MPI_REAL4, R),
    WEFT_TYPE(MPI_COMPLEX4, Z),
    WEFT_TYPE(MPI_LOGICAL8, L),
    WEFT_TYPE(MPI_INTEGER8, I),
    WEFT_TYPE(MPI_REAL8, R),
    WEFT_TYPE(MPI_COMPLEX8, Z),
    WEFT_TYPE(MPI_LOGICAL16, L),
    WEFT_TYPE(MPI_INTEGER16, I),
    WEFT_TYPE(MPI_REAL16, R),
    WEFT_TYPE(MPI_COMPLEX16, Z),
    WEFT_TYPE(MPI_COMPLEX32, Z),
};
#undef WEFT_TYPE

constexpr std::size_t kNumHandles = 1024;  // predefined handles are below
struct Types {
  std::mutex mutex;
  std::shared_ptr<const Layout> predefined[kNumHandles];
  std::unordered_map<MPI_Datatype, std::shared_ptr<const Layout>> derived;
};
Types& types() {
  static Types& all = *new Types;
  return all;
}

void add_run(Layout& layout, const Run& run) {
  if (run.number == 0 || !layout.has_runs) return;
  if (!layout.runs.empty()) {
    Run& last = layout.runs.back();
    const auto bytes =
        static_cast<std::int64_t>(last.number * (last.basic == 0 ? 1 : bytes_of(last.basic)));
    if (last.basic == run.basic && last.offset + bytes == run.offset) {
      last.number += run.number;
      return;
    }
  }
  if (layout.runs.size() == kMostRuns) {
    layout.has_runs = false;
    layout.runs.clear();
    return;
  }
  layout.runs.push_back(run);
}

// Appends `count` elements of a type, the first at this offset.
void add_elements(Layout& layout, const Layout& old, std::int64_t offset, std::int64_t count) {
  if (count <= 0) return;
  layout.signature =
      joined(layout.signature, repeated(old.signature, static_cast<std::uint64_t>(count)));
  if (!old.has_runs) layout.has_runs = false;
  if (layout.has_runs && old.is_contiguous && old.runs.size() == 1) {
    add_run(layout, {offset + old.runs[0].offset,
                     old.runs[0].number * static_cast<std::uint64_t>(count), old.runs[0].basic});
    return;
  }
  for (std::int64_t i = 0; i < count && layout.has_runs; ++i)
    for (const Run& run : old.runs)
      add_run(layout, {offset + i * old.extent + run.offset, run.number, run.basic});
}

std::unique_ptr<Layout> describe(MPI_Datatype type, int depth);

struct Contents {
  int combiner = 0;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<MPI_Datatype> types;
  // How the arguments are read, whichever function made the type: first those of small or large
  // numbers in the order of the arguments.
  bool is_large = false;
  std::int64_t number(std::size_t i) const {
    return is_large ? (i < counts.size() ? counts[i] : 0) : (i < integers.size() ? integers[i] : 0);
  }
};

bool read_contents(MPI_Datatype type, Contents& out) {
  MPI_Count integers = 0, addresses = 0, counts = 0, datatypes = 0;
  if (PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &datatypes, &out.combiner) !=
          MPI_SUCCESS ||
      out.combiner == MPI_COMBINER_NAMED)
    return false;
  out.integers.resize(static_cast<std::size_t>(integers));
  out.addresses.resize(static_cast<std::size_t>(addresses));
  out.counts.resize(static_cast<std::size_t>(counts));
  out.types.resize(static_cast<std::size_t>(datatypes));
  out.is_large = counts > 0;
  return PMPI_Type_get_contents_c(type, integers, addresses, counts, datatypes, out.integers.data(),
                                  out.addresses.data(), out.counts.data(),
                                  out.types.data()) == MPI_SUCCESS;
}

// Appends what the constructor says; false: only the signature's hash is known, or nothing.
bool build(const Contents& contents, const std::vector<const Layout*>& old, Layout& layout) {
  if (old.empty() || old[0] == nullptr) return false;
  const Layout& first = *old[0];
  const auto n = [&](std::size_t i) { return contents.number(i); };
  const auto address = [&](std::size_t i) -> std::int64_t { return contents.is_large ? n(i) : 0; };
  switch (contents.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      add_elements(layout, first, 0, 1);
      return true;
    case MPI_COMBINER_CONTIGUOUS:
      add_elements(layout, first, 0, n(0));
      return true;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: {
      const bool is_bytes = contents.combiner == MPI_COMBINER_HVECTOR;
      const std::int64_t stride =
          is_bytes ? (contents.is_large ? address(2) : contents.addresses[0]) : n(2) * first.extent;
      const std::int64_t count = n(0);
      if (count > static_cast<std::int64_t>(kMostRuns) && n(1) * first.extent != stride) {
        layout.has_runs = false;
        layout.runs.clear();
        layout.signature = repeated(
            first.signature, static_cast<std::uint64_t>(std::max<std::int64_t>(count * n(1), 0)));
        return true;
      }
      for (std::int64_t i = 0; i < count; ++i) add_elements(layout, first, i * stride, n(1));
      return true;
    }
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED: {
      const auto count = static_cast<std::size_t>(n(0));
      const bool is_bytes = contents.combiner == MPI_COMBINER_HINDEXED;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t at = !is_bytes           ? n(1 + count + i) * first.extent
                                : contents.is_large ? n(1 + count + i)
                                                    : contents.addresses[i];
        add_elements(layout, first, at, n(1 + i));
      }
      return true;
    }
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: {
      const auto count = static_cast<std::size_t>(n(0));
      const bool is_bytes = contents.combiner == MPI_COMBINER_HINDEXED_BLOCK;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t at = !is_bytes           ? n(2 + i) * first.extent
                                : contents.is_large ? n(2 + i)
                                                    : contents.addresses[i];
        add_elements(layout, first, at, n(1));
      }
      return true;
    }
    case MPI_COMBINER_STRUCT: {
      const auto count = static_cast<std::size_t>(n(0));
      for (std::size_t i = 0; i < count && i < old.size(); ++i) {
        if (old[i] == nullptr) return false;
        const std::int64_t at = contents.is_large ? n(1 + count + i) : contents.addresses[i];
        add_elements(layout, *old[i], at, n(1 + i));
      }
      return true;
    }
    default:
      break;
  }
  // Subarrays, distributed arrays: of their old type as many as they have bytes.
  layout.has_runs = false;
  layout.runs.clear();
  if (first.bytes > 0)
    layout.signature =
        repeated(first.signature, static_cast<std::uint64_t>(layout.bytes / first.bytes));
  return first.bytes > 0;
}

bool fill_sizes(MPI_Datatype type, Layout& layout) {
  MPI_Count bytes = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
  if (PMPI_Type_size_c(type, &bytes) != MPI_SUCCESS ||
      PMPI_Type_get_extent_c(type, &lb, &extent) != MPI_SUCCESS ||
      PMPI_Type_get_true_extent_c(type, &true_lb, &true_extent) != MPI_SUCCESS)
    return false;
  layout.bytes = bytes;
  layout.extent = extent;
  layout.true_lb = true_lb;
  layout.true_extent = true_extent;
  return true;
}

std::unique_ptr<Layout> describe(MPI_Datatype type, int depth) {
  auto layout = std::make_unique<Layout>();
  if (depth == kMostDepth || !fill_sizes(type, *layout)) return nullptr;
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Type_get_name(type, name, &length);
  layout->has_runs = layout->is_derived = true;
  Contents contents;
  std::vector<std::unique_ptr<Layout>> made;
  std::vector<const Layout*> old;
  bool is_known = read_contents(type, contents);
  if (is_known) {
    for (const MPI_Datatype part : contents.types) {
      const auto number = reinterpret_cast<std::uintptr_t>(part);
      if (number < kNumHandles) {
        old.push_back(types().predefined[number].get());
      } else {
        made.push_back(describe(part, depth + 1));
        old.push_back(made.back().get());
      }
    }
    is_known = build(contents, old, *layout);
    for (MPI_Datatype part : contents.types)
      if (reinterpret_cast<std::uintptr_t>(part) >= kNumHandles) PMPI_Type_free(&part);
  }
  if (!is_known) {
    layout->has_runs = false;
    layout->runs.clear();
    layout->signature = {static_cast<std::uint64_t>(layout->bytes), 0, 0, true};
  }
  layout->name = length > 0 ? name : fmt::format("a datatype of {}", text_of(layout->signature));
  layout->is_contiguous = layout->has_runs && layout->true_lb == 0 &&
                          layout->true_extent == layout->bytes && layout->extent == layout->bytes;
  std::int64_t end = 0;
  for (const Run& run : layout->runs) {
    if (run.offset != end) layout->is_contiguous = false;
    end += static_cast<std::int64_t>(run.number * (run.basic == 0 ? 1 : bytes_of(run.basic)));
  }
  return layout;
}

void describe_predefined(Types& all) {
  for (const Predefined& predefined : kPredefined) {
    auto layout = std::make_unique<Layout>();
    if (!fill_sizes(predefined.type, *layout) || layout->bytes <= 0) continue;
    layout->name = predefined.name;
    layout->has_runs = true;
    const auto bytes = static_cast<std::size_t>(layout->bytes);
    if (predefined.second == Kind::none) {
      const Basic basic =
          predefined.kind == Kind::none ? Basic{0} : basic_of(predefined.kind, bytes);
      layout->signature = of_basic(basic, bytes);
      layout->runs = {{0, basic == 0 ? bytes : 1, basic}};
      layout->is_contiguous = true;
    } else {
      const std::size_t first = predefined.second_bytes;
      const std::size_t second = predefined.second == Kind::real ? first : sizeof(int);
      const Basic basics[] = {basic_of(predefined.kind, first),
                              basic_of(predefined.second, second)};
      layout->signature = joined(of_basic(basics[0], first), of_basic(basics[1], second));
      const std::size_t at = (first + second - 1) / second * second;  // as in a structure of C
      layout->runs = {{0, 1, basics[0]}, {static_cast<std::int64_t>(at), 1, basics[1]}};
      layout->is_contiguous = layout->extent == layout->bytes;
    }
    all.predefined[reinterpret_cast<std::uintptr_t>(predefined.type)] = std::move(layout);
  }
}

}  // namespace

std::string name_of(Basic basic) {
  const std::size_t bytes = bytes_of(basic);
  switch (kind_of(basic)) {
    case Kind::none:
      return "bytes";
    case Kind::integer:
      return bytes == 4   ? "int"
             : bytes == 8 ? "long"
             : bytes == 2 ? "short"
                          : fmt::format("integer of {} bytes", bytes);
    case Kind::natural:
      return bytes == 4   ? "unsigned"
             : bytes == 8 ? "unsigned long"
             : bytes == 2 ? "unsigned short"
                          : fmt::format("unsigned of {} bytes", bytes);
    case Kind::real:
      return bytes == 4 ? "float" : bytes == 8 ? "double" : fmt::format("real of {} bytes", bytes);
    case Kind::complex:
      return fmt::format("complex of {} bytes", bytes);
    case Kind::logical:
      return fmt::format("logical of {} bytes", bytes);
    case Kind::character:
      return "char";
    case Kind::pointer:
      return "pointer";
  }
  return "?";
}

Signature joined(const Signature& first, const Signature& second) {
  if (first.number == 0) return second;
  if (second.number == 0) return first;
  Signature both;
  both.number = first.number + second.number;
  both.has_any = first.has_any || second.has_any;
  both.basic = first.basic == second.basic ? first.basic : Basic{0};
  if (both.basic == 0) both.hash = hash_of(first) * power(second.number) + hash_of(second);
  return both;
}

Signature repeated(const Signature& signature, std::uint64_t times) {
  if (times == 1) return signature;
  if (signature.basic != 0 || signature.has_any)
    return {signature.number * times, 0, signature.basic, signature.has_any};
  Signature result, square = signature;
  for (; times != 0; times >>= 1) {
    if ((times & 1) != 0) result = joined(result, square);
    square = joined(square, square);
  }
  return result;
}

// Of a type that was made where this library does not look: it fits all.
std::shared_ptr<const Layout> unknown_layout() {
  static const auto& unknown = *new std::shared_ptr<const Layout>([] {
    auto layout = std::make_shared<Layout>();
    layout->signature.has_any = true;
    layout->is_contiguous = layout->is_derived = true;
    layout->name = "a datatype";
    return layout;
  }());
  return unknown;
}

const Layout* layout_of(MPI_Datatype type) {
  Types& all = types();
  const auto number = reinterpret_cast<std::uintptr_t>(type);
  if (number < kNumHandles) {
    static const bool is_described = (describe_predefined(all), true);
    return is_described ? all.predefined[number].get() : nullptr;
  }
  if (all.predefined[reinterpret_cast<std::uintptr_t>(MPI_INT)] == nullptr) layout_of(MPI_INT);
  const Lock lock(all.mutex);
  const auto at = all.derived.find(type);
  if (at == all.derived.end()) return unknown_layout().get();
  if (at->second == nullptr) at->second = describe(type, 0);
  return at->second.get();
}

void add_type(MPI_Datatype type) {
  Types& all = types();
  if (reinterpret_cast<std::uintptr_t>(type) < kNumHandles) return;
  const Lock lock(all.mutex);
  all.derived[type] = nullptr;
}

std::shared_ptr<const Layout> keep_layout(MPI_Datatype type) {
  if (layout_of(type) == nullptr) return nullptr;
  Types& all = types();
  const auto number = reinterpret_cast<std::uintptr_t>(type);
  if (number < kNumHandles) return all.predefined[number];
  const Lock lock(all.mutex);
  const auto at = all.derived.find(type);
  return at == all.derived.end() ? unknown_layout() : at->second;
}

void forget_type(MPI_Datatype type) {
  Types& all = types();
  const Lock lock(all.mutex);
  all.derived.erase(type);
}

Signature signature_of(const Layout& layout, std::uint64_t count) {
  return repeated(layout.signature, count);
}

bool prefix_of(const Layout& layout, std::uint64_t count, std::uint64_t number, Signature& out) {
  const Signature& one = layout.signature;
  if (one.has_any || one.number == 0 || number > one.number * count) return false;
  if (one.basic != 0) {
    out = repeated(of_basic(one.basic, 0), number);
    return true;
  }
  out = repeated(one, number / one.number);
  std::uint64_t rest = number % one.number;
  if (rest == 0) return true;
  if (!layout.has_runs) return false;
  for (const Run& run : layout.runs) {
    const std::uint64_t taken = std::min(rest, run.number);
    out = joined(out, repeated(of_basic(run.basic, 1), taken));
    rest -= taken;
    if (rest == 0) return true;
  }
  return false;
}

std::string text_of(std::uint64_t count, const Layout& layout) {
  return fmt::format("{} x {}", count, layout.name);
}

std::string text_of(const Signature& signature) {
  if (signature.has_any) return fmt::format("{} bytes or more", signature.number);
  if (signature.basic != 0)
    return fmt::format("{} x {}", signature.number, name_of(signature.basic));
  return fmt::format("{} elements of different types", signature.number);
}

}  // namespace weft::check
