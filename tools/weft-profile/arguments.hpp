#pragma once
// What stands where among the arguments of MPI's functions: found by type and order, at compile
// time. Pure functions.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "mpi.h"

namespace weft::profile {

constexpr bool is_one_of(std::string_view name, const auto& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}
// Strips _c: MPI_Send_c moves the same data as MPI_Send.
constexpr std::string_view plain(std::string_view name) {
  name.remove_prefix(4);
  if (name.ends_with("_c")) name.remove_suffix(2);
  return name;
}

// Returns the first argument of that type, or `none`.
template <class Wanted>
Wanted first_of(Wanted none) {
  return none;
}
template <class Wanted, class First, class... Others>
Wanted first_of(Wanted none, First first, Others... others) {
  if constexpr (std::is_same_v<First, Wanted>)
    return first;
  else
    return first_of<Wanted>(none, others...);
}

struct Data {
  std::uint64_t bytes = 0;
  int next = MPI_PROC_NULL;  // the number behind the datatype
};

// Finds the data described by a count and a datatype that stand side by side.
inline Data data_in() { return {}; }
template <class First, class... Others>
Data data_in(First first, Others... others);
template <class Second, class... Others>
Data data_behind(MPI_Count count, Second second, Others... others) {
  if constexpr (std::is_same_v<Second, MPI_Datatype>) {
    MPI_Count size = 0;
    Data data;
    // Null where there is nobody at the other end.
    if (count > 0 && second != MPI_DATATYPE_NULL &&
        PMPI_Type_size_c(second, &size) == MPI_SUCCESS && size > 0)
      data.bytes = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
    data.next = first_of<int>(MPI_PROC_NULL, others...);
    return data;
  } else {
    return data_in(second, others...);
  }
}
template <class First, class... Others>
Data data_in(First first, Others... others) {
  if constexpr ((std::is_same_v<First, int> ||
                 std::is_same_v<First, MPI_Count>)&&sizeof...(Others) > 0)
    return data_behind(first, others...);
  else
    return data_in(others...);
}

// The number of the int arguments, and the arguments themselves.
template <class... Arguments>
struct Ints {
  explicit Ints(Arguments... arguments) { (add(arguments), ...); }
  void add(auto argument) {
    if constexpr (std::is_same_v<decltype(argument), int>) all[num++] = argument;
  }
  // From the end: ranks and tags are the last ones.
  int last(std::size_t i) const { return num > i ? all[num - 1 - i] : MPI_PROC_NULL; }
  std::size_t num = 0;
  int all[sizeof...(Arguments) + 1] = {};
};

}  // namespace weft::profile
