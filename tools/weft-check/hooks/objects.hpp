#pragma once
// Calls that make and free objects.
#include "tools/weft-check/hooks/arguments.hpp"
#include "tools/weft-check/ranks/collectives.hpp"
#include "tools/weft-check/ranks/comms.hpp"
#include "tools/weft-check/ranks/types.hpp"
#include "tools/weft-check/state/handles.hpp"
#include "tools/weft-check/state/requests.hpp"

namespace weft::check {

// Functions with a communicator as a result that all members of another one take part in.
constexpr bool is_made_by_all(std::string_view name) {
  return is_one_of(name, "Comm_dup", "Comm_dup_with_info", "Comm_split", "Comm_split_type",
                   "Comm_create", "Cart_create", "Cart_sub", "Graph_create", "Dist_graph_create",
                   "Dist_graph_create_adjacent", "Intercomm_merge");
}
constexpr bool is_idup(std::string_view name) {
  return is_one_of(name, "Comm_idup", "Comm_idup_with_info");
}
// Results that need not be freed, or are no new objects.
constexpr bool gives_old_object(std::string_view name) {
  return is_one_of(name, "Comm_get_parent", "Type_commit", "Type_match_size", "Type_get_contents",
                   "File_get_view", "Comm_get_errhandler", "Win_get_errhandler",
                   "File_get_errhandler", "Session_get_errhandler", "Type_create_f90_real",
                   "Type_create_f90_integer", "Type_create_f90_complex", "Type_get_value_index",
                   "Group_translate_ranks");
}
constexpr bool frees(std::string_view name) {
  return is_one_of(name, "Comm_free", "Comm_disconnect", "Type_free", "Win_free", "Group_free",
                   "File_close", "Op_free", "Info_free", "Errhandler_free");
}

inline std::uint32_t hash_of_group(MPI_Group group) {
  int size = 0;
  MPI_Group world = MPI_GROUP_NULL;
  if (PMPI_Group_size(group, &size) != MPI_SUCCESS ||
      PMPI_Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
    return 1;
  std::uint32_t hash = mixed(1, static_cast<std::uint32_t>(size));
  for (int i = 0; i < size; ++i) {
    int rank = 0;
    PMPI_Group_translate_ranks(group, 1, &i, world, &rank);
    hash = mixed(hash, static_cast<std::uint32_t>(rank));
  }
  PMPI_Group_free(&world);
  return hash;
}

template <Object object, class Handle, class... A>
void add_made(A... a) {
  if constexpr (kHas<Handle*, A...>)
    if (Handle* made = first_of<Handle*>(a...)) add_handle(object, *made);
}

template <std::size_t function, class... A>
void add_objects(A... a) {
  constexpr std::string_view kName = kPlain<function>;
  if constexpr (gives_old_object(kName) || is_idup(kName)) return;
  add_made<Object::communicator, MPI_Comm>(a...);
  add_made<Object::datatype, MPI_Datatype>(a...);
  if constexpr (kHas<MPI_Datatype*, A...>)
    if (MPI_Datatype* made = first_of<MPI_Datatype*>(a...)) add_type(*made);
  add_made<Object::window, MPI_Win>(a...);
  add_made<Object::group, MPI_Group>(a...);
  add_made<Object::file, MPI_File>(a...);
  if constexpr (kName == "Op_create") add_made<Object::op, MPI_Op>(a...);
  if constexpr (kName.starts_with("Info_") || kName.ends_with("_get_info"))
    add_made<Object::info, MPI_Info>(a...);
  if constexpr (kName.ends_with("_create_errhandler"))
    add_made<Object::error_handler, MPI_Errhandler>(a...);
}

// Numbers a new communicator that is not made by all members of one.
template <std::size_t function, class... A>
void add_other_comm(A... a) {
  constexpr std::string_view kName = kPlain<function>;
  if constexpr (kName == "Comm_create_group") {
    const std::uint32_t how =
        mixed(hash_of_group(argument<1>(a...)), static_cast<std::uint32_t>(argument<2>(a...)));
    add_comm(argument<0>(a...), *argument<3>(a...), mixed(how, times_made(how)));
  } else if constexpr (kName == "Intercomm_create") {
    // Both sides see the same two groups.
    add_comm_with(0, *argument<5>(a...));
    if (Comm* const made = comm_of(*argument<5>(a...))) {
      std::uint32_t sides[2] = {1, 1};
      for (const int rank : made->locals)
        sides[0] = mixed(sides[0], static_cast<std::uint32_t>(rank));
      for (const int rank : made->world)
        sides[1] = mixed(sides[1], static_cast<std::uint32_t>(rank));
      const std::uint32_t how =
          mixed(sides[0] ^ sides[1], static_cast<std::uint32_t>(argument<4>(a...)));
      made->number = mixed(how, times_made(how));
    }
  } else if (MPI_Comm* made = first_of<MPI_Comm*>(a...)) {
    add_comm_with(0, *made);
  }
}

template <std::size_t function, class... A>
int call_object(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  if constexpr (frees(kName)) {
    auto* handle = argument<0>(a...);
    const auto old = handle != nullptr ? *handle : nullptr;
    // Before the call: a handle that is free may be another thread's at once.
    if constexpr (std::is_same_v<decltype(old), const MPI_Comm>) {
      remove_handle(Object::communicator, old);
      const int code = own(a...);
      if (code == MPI_SUCCESS) forget_comm(old);
      return code;
    }
    if constexpr (std::is_same_v<decltype(old), const MPI_Datatype>) {
      remove_handle(Object::datatype, old);
      forget_type(old);
    }
    if constexpr (std::is_same_v<decltype(old), const MPI_Group>) remove_handle(Object::group, old);
    if constexpr (std::is_same_v<decltype(old), const MPI_File>) remove_handle(Object::file, old);
    if constexpr (std::is_same_v<decltype(old), const MPI_Op>) remove_handle(Object::op, old);
    if constexpr (std::is_same_v<decltype(old), const MPI_Info>) remove_handle(Object::info, old);
    if constexpr (std::is_same_v<decltype(old), const MPI_Errhandler>)
      remove_handle(Object::error_handler, old);
    return own(a...);
  } else if constexpr (is_idup(kName)) {
    const std::uint32_t number = next_number(argument<0>(a...), 0);
    const int code = own(a...);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm* const made = first_of<MPI_Comm*>(a...);
    Operation operation;
    operation.at_end = [number, made] {
      add_comm_with(number, *made);
      add_handle(Object::communicator, *made);
    };
    add_request(first_of<MPI_Request*>(a...), std::move(operation));
    return code;
  } else {
    constexpr bool kCounts = (is_made_by_all(kName) && kName != "Intercomm_merge") ||
                             kName == "File_open" || kName.starts_with("Win_create") ||
                             kName.starts_with("Win_allocate");
    if constexpr (kCounts && kHas<MPI_Comm, A...>)
      note_collective(comm_of(first_of<MPI_Comm>(a...)), {});
    std::uint32_t number = 0;
    if constexpr (is_made_by_all(kName)) number = next_number(argument<0>(a...), 0);
    const int code = own(a...);
    if (code != MPI_SUCCESS) {
      if constexpr (kCounts) note_failed_collective(comm_of(first_of<MPI_Comm>(a...)));
      return code;
    }
    if constexpr (kHas<MPI_Comm*, A...>) {
      if constexpr (is_made_by_all(kName))
        add_comm_with(number, *first_of<MPI_Comm*>(a...));
      else if constexpr (!gives_old_object(kName))
        add_other_comm<function>(a...);
    }
    add_objects<function>(a...);
    if constexpr (kName == "Comm_set_name") rename_comm(argument<0>(a...));
    return code;
  }
}

}  // namespace weft::check
