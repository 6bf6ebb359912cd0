#pragma once
// The arguments of a call by place, and functions by name.
#include <cstddef>
#include <iterator>
#include <string_view>
#include <tuple>
#include <type_traits>

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

namespace weft::check {

// Functions in the order of functions.inc.
inline constexpr const char* kFunctionNames[] = {
#define WEFT_CHECKED(name) #name,
#include "functions.inc"
#undef WEFT_CHECKED
};

// Without MPI_ and _c: MPI_Send_c does the same as MPI_Send.
constexpr std::string_view plain(std::string_view name) {
  name.remove_prefix(name.find('_') + 1);
  if (name.ends_with("_c") && name != "Comm_c") name.remove_suffix(2);
  return name;
}
template <std::size_t function>
inline constexpr std::string_view kPlain = plain(kFunctionNames[function]);

template <class... Names>
constexpr bool is_one_of(std::string_view name, Names... names) {
  return ((name == names) || ...);
}

template <std::size_t i, class... Arguments>
decltype(auto) argument(Arguments&... arguments) {
  return std::get<i>(std::tie(arguments...));
}

// The first argument of that type, or null.
template <class Wanted>
Wanted first_of() {
  return Wanted{};
}
template <class Wanted, class First, class... Others>
Wanted first_of(First first, Others... others) {
  if constexpr (std::is_same_v<First, Wanted>)
    return first;
  else
    return first_of<Wanted>(others...);
}
template <class Wanted, class... Arguments>
inline constexpr bool kHas = (std::is_same_v<Wanted, Arguments> || ...);

// A call that the library makes, with the arguments as they are then.
template <class... Arguments>
using Own = int (*)(Arguments...);

}  // namespace weft::check
