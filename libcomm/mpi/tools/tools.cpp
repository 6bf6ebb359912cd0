// Starting and ending the tool interface; its texts and enumerations.
#include "mpi/tools/tools.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "mpi/core/info.hpp"

namespace weft::mpi::tools {

Immortal<Shared> shared;

namespace {

// By name. They stay when the interface ends, so that a tool may keep the handles.
Immortal<std::map<std::string, MPI_T_enum>> enumerations;

}  // namespace

MPI_T_enum make_enumeration(std::string_view name, std::vector<std::string> items) {
  MPI_T_enum& handle = (*enumerations)[std::string(name)];
  if (handle == MPI_T_ENUM_NULL)
    handle = add<MPI_T_enum>(std::make_unique<Enumeration>(name, std::move(items)));
  return handle;
}

void give_text(std::string_view text, char* to, int* length) noexcept {
  if (length == nullptr) return;
  if (to != nullptr && *length > 0) {
    const std::size_t copied = std::min(text.size(), static_cast<std::size_t>(*length) - 1);
    std::memcpy(to, text.data(), copied);
    to[copied] = '\0';
  }
  *length = static_cast<int>(text.size()) + 1;
}

void give_info(const Info* from, MPI_Info* to) {
  if (to != nullptr) *to = make_info(from);
}

std::vector<std::string> choices_of(const SettingRow& row) {
  std::vector<std::string> choices;
  std::string_view rest = row.meaning.substr(0, row.meaning.find(':'));
  for (;;) {
    const std::size_t end = rest.find('|');
    choices.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) return choices;
    rest.remove_prefix(end + 1);
  }
}

MPI_T_enum enumeration_of(const SettingRow& row) {
  if (row.unit == Unit::flag) return make_enumeration("flag", {"off", "on"});
  if (row.unit == Unit::choice) return make_enumeration(row.name, choices_of(row));
  return MPI_T_ENUM_NULL;
}

}  // namespace weft::mpi::tools

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(T_init_thread)(int, int* provided) {
  const std::lock_guard lock(tools::shared->mutex);
  ++tools::shared->num_users;
  tools::give(provided, MPI_THREAD_MULTIPLE);
  return MPI_SUCCESS;
}

MPI_FUNCTION(T_finalize)(void) {
  return tools::run([] {
    if (--tools::shared->num_users > 0) return MPI_SUCCESS;
    tools::clear_pvars();
    tools::clear_events();
    tools::shared->objects.for_each([](tools::Handle handle, const tools::Object* object) {
      if (object->type != tools::Object::Type::enumeration) tools::drop(handle);
    });
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_enum_get_info)(MPI_T_enum handle, int* num, char* name, int* name_len) {
  return tools::run([&] {
    const auto* enumeration = tools::find<tools::Enumeration>(handle);
    if (enumeration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    tools::give(num, enumeration->items.size());
    tools::give_text(enumeration->name, name, name_len);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_enum_get_item)
(MPI_T_enum handle, int index, int* value, char* name, int* name_len) {
  return tools::run([&] {
    const auto* enumeration = tools::find<tools::Enumeration>(handle);
    if (enumeration == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (index < 0 || static_cast<std::size_t>(index) >= enumeration->items.size())
      return MPI_T_ERR_INVALID_INDEX;
    tools::give(value, index);
    tools::give_text(enumeration->items[static_cast<std::size_t>(index)], name, name_len);
    return MPI_SUCCESS;
  });
}
