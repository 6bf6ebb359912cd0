#include "tools/weft-check/state/handles.hpp"

#include <fmt/core.h>

#include <map>
#include <mutex>
#include <string_view>

#include "tools/weft-check/report.hpp"

namespace weft::check {
namespace {

constexpr std::uintptr_t kLastPredefined = 1023;

struct Names {
  const char *object, *free;
};
constexpr Names kNames[] = {
    {"communicator", "MPI_Comm_free"}, {"datatype", "MPI_Type_free"},
    {"window", "MPI_Win_free"},        {"group", "MPI_Group_free"},
    {"file", "MPI_File_close"},        {"op", "MPI_Op_free"},
    {"info", "MPI_Info_free"},         {"error handler", "MPI_Errhandler_free"},
    {"message", "MPI_Mrecv"}};

struct Handles {
  std::mutex mutex;
  std::map<std::pair<Object, const void*>, Call> all;
};
Handles& handles() {
  static Handles& all = *new Handles;
  return all;
}

bool is_predefined(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle) <= kLastPredefined;
}

}  // namespace

void add_handle(Object object, const void* handle) {
  if (is_predefined(handle)) return;
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  all.all[{object, handle}] = current_call;
}

void remove_handle(Object object, const void* handle) {
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  all.all.erase({object, handle});
}

void report_handles() {
  Handles& all = handles();
  std::map<std::pair<Object, const void*>, Call> left;
  {
    const std::lock_guard lock(all.mutex);
    left.swap(all.all);
  }
  std::map<std::pair<Object, const void*>, std::pair<Call, int>> by_place;
  for (const auto& [key, call] : left) {
    auto& [first, number] = by_place[{key.first, call.caller}];
    first = call;
    ++number;
  }
  for (const auto& [key, place] : by_place) {
    const Names& names = kNames[static_cast<std::size_t>(key.first)];
    report(place.first, "leak",
           fmt::format("{} made here {} never freed: {} is missing before MPI_Finalize",
                       place.second == 1
                           ? fmt::format("{} {}",
                                         std::string_view("aeio").find(names.object[0]) ==
                                                 std::string_view::npos
                                             ? "a"
                                             : "an",
                                         names.object)
                           : fmt::format("{} {}s", place.second, names.object),
                       place.second == 1 ? "was" : "were", names.free));
  }
}

}  // namespace weft::check
