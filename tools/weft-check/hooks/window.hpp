#pragma once
// Windows: their accesses and their synchronisation.
#include "tools/weft-check/hooks/objects.hpp"
#include "tools/weft-check/program/variables.hpp"
#include "tools/weft-check/ranks/accesses.hpp"
#include "tools/weft-check/ranks/channel.hpp"
#include "tools/weft-check/state/windows.hpp"

namespace weft::check {

constexpr bool is_put(std::string_view name) {
  return is_one_of(name, "Put", "Rput", "Accumulate", "Raccumulate");
}
constexpr bool is_get(std::string_view name) { return is_one_of(name, "Get", "Rget"); }
constexpr bool is_atomic(std::string_view name) {
  return is_one_of(name, "Get_accumulate", "Rget_accumulate", "Fetch_and_op", "Compare_and_swap");
}
constexpr bool is_window_sync(std::string_view name) {
  return is_one_of(name, "Win_fence", "Win_lock", "Win_lock_all", "Win_unlock", "Win_unlock_all",
                   "Win_flush", "Win_flush_all", "Win_flush_local", "Win_flush_local_all",
                   "Win_start", "Win_complete");
}
constexpr bool makes_window(std::string_view name) {
  return is_one_of(name, "Win_create", "Win_allocate", "Win_allocate_shared", "Win_create_dynamic");
}

// Tells the target of the access: target_disp, target_count and the type there. Requests of
// accesses are complete before a synchronisation, and nothing is told of these.
inline void tell_access(MPI_Win window, int target, MPI_Aint displacement, MPI_Count count,
                        MPI_Datatype type, AccessKind kind) {
  const Layout* layout = layout_of(type);
  if (layout == nullptr || !layout->is_contiguous || count <= 0 || displacement < 0) return;
  note_access(time_of_access(window, target), displacement,
              static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(layout->bytes),
              layout->signature.basic, kind);
}

template <std::size_t function, class... A>
int call_atomic(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  const MPI_Win window = first_of<MPI_Win>(a...);
  const int code = own(a...);
  if (code != MPI_SUCCESS) return code;
  if constexpr (kName == "Get_accumulate")
    tell_access(window, argument<6>(a...), argument<7>(a...), argument<8>(a...), argument<9>(a...),
                argument<10>(a...) == MPI_NO_OP ? AccessKind::atomic_read : AccessKind::atomic);
  if constexpr (kName == "Fetch_and_op")
    tell_access(window, argument<3>(a...), argument<4>(a...), 1, argument<2>(a...),
                argument<5>(a...) == MPI_NO_OP ? AccessKind::atomic_read : AccessKind::atomic);
  if constexpr (kName == "Compare_and_swap")
    tell_access(window, argument<4>(a...), argument<5>(a...), 1, argument<3>(a...),
                AccessKind::atomic);
  return code;
}

template <std::size_t function, class... A>
int call_access(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  constexpr bool kGets = is_get(kName);
  constexpr bool kHasRequest = kHas<MPI_Request*, A...>;
  const MPI_Win window = first_of<MPI_Win>(a...);
  if (!has_room(window) || argument<3>(a...) < 0) {
    const int code = own(a...);
    if constexpr (kHasRequest)
      if (code == MPI_SUCCESS) add_request(first_of<MPI_Request*>(a...), {});
    return code;
  }
  const MPI_Count count = argument<1>(a...);
  const Layout* layout = layout_of(argument<2>(a...));
  WindowAccess access;
  access.target = argument<3>(a...);
  access.call = current_call;
  const Access how = kGets ? Access::writes : Access::reads;
  if (layout != nullptr && count > 0 && access.target >= 0) {
    const auto number = static_cast<std::uint64_t>(count);
    check_variable(memory_of(argument<0>(a...), number, *layout, how), "its origin buffer");
    Memory memory = lasting_memory(argument<0>(a...), number, argument<2>(a...), how);
    access.uses.push_back(begin_use(memory));
    if constexpr (kGets) {
      if (const Layout* target = layout_of(argument<6>(a...));
          target != nullptr && target->is_contiguous && argument<5>(a...) > 0 &&
          argument<5>(a...) * target->bytes == count * layout->bytes)
        argument<0>(a...) = redirect(access, argument<0>(a...), number, *layout);
    }
  }
  const int code = own(a...);
  if (code != MPI_SUCCESS) {
    access.destination = nullptr;
    finish_access(access);
    return code;
  }
  if constexpr (!kHasRequest)
    tell_access(window, argument<3>(a...), argument<4>(a...), argument<5>(a...), argument<6>(a...),
                kGets            ? AccessKind::read
                : kName == "Put" ? AccessKind::write
                                 : AccessKind::atomic);
  const auto shared = std::make_shared<WindowAccess>(std::move(access));
  add_access(window, shared);
  if constexpr (kHasRequest) {
    Operation operation;
    operation.at_end = [window, shared] { forget_access(window, shared); };
    add_request(first_of<MPI_Request*>(a...), std::move(operation));
  }
  return code;
}

template <std::size_t function, class... A>
int call_window_sync(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  const MPI_Win window = first_of<MPI_Win>(a...);
  constexpr Sync kSync = kName == "Win_fence"              ? Sync::fence
                         : kName.starts_with("Win_lock")   ? Sync::lock
                         : kName.starts_with("Win_unlock") ? Sync::unlock
                         : kName == "Win_start"            ? Sync::start
                         : kName == "Win_complete"         ? Sync::complete
                                                           : Sync::flush;
  if constexpr (kSync != Sync::lock && kSync != Sync::start) check_before_sync(window);
  int target = kAllTargets, assertion = 0;
  if constexpr (is_one_of(kName, "Win_unlock", "Win_flush", "Win_flush_local"))
    target = argument<0>(a...);
  if constexpr (kName == "Win_fence") assertion = argument<0>(a...);
  const int code = own(a...);
  if (code == MPI_SUCCESS) note_sync(window, kSync, target, assertion);
  poll_notes_at(current_call.caller);
  return code;
}

template <std::size_t function, class... A>
int call_window_made(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  if constexpr (kName == "Win_create") {
    static const Layout* const bytes = layout_of(MPI_BYTE);
    if (argument<0>(a...) != nullptr && argument<1>(a...) > 0)
      check_variable(memory_of(argument<0>(a...), static_cast<std::uint64_t>(argument<1>(a...)),
                               *bytes, Access::writes),
                     "its memory");
  }
  const MPI_Comm comm = first_of<MPI_Comm>(a...);
  const std::uint32_t number = next_number(comm, 0);
  const int code = call_object<function>(own, a...);
  if (code != MPI_SUCCESS) return code;
  const MPI_Win made = *first_of<MPI_Win*>(a...);
  std::int64_t unit = 1;
  if constexpr (kName == "Win_create") {
    add_window(made, argument<0>(a...), argument<1>(a...), true, comm_of(comm), number);
    note_exposed(made, argument<0>(a...), argument<1>(a...));
    unit = argument<2>(a...);
  } else {
    add_window(made, nullptr, 0, false, comm_of(comm), number);
    if constexpr (kName != "Win_create_dynamic") unit = argument<1>(a...);
    if constexpr (kName == "Win_allocate")
      note_exposed(made, *static_cast<void**>(argument<4>(a...)), argument<0>(a...));
  }
  note_window(number, unit);
  return code;
}

template <class... A>
int call_window_free(Own<A...> own, A... a) {
  MPI_Win* window = argument<0>(a...);
  if (window != nullptr && *window != MPI_WIN_NULL) {
    check_before_sync(*window);
    const MPI_Win old = *window;
    const int code = own(a...);
    if (code == MPI_SUCCESS) {
      end_window(old);
      remove_handle(Object::window, old);
    }
    return code;
  }
  return own(a...);
}

}  // namespace weft::check
