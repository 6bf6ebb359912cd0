// Control variables: the rows of the settings table. They may be written until the library starts,
// which reads them then; afterwards only one that still has an effect may be written, WEFT_LOG.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "base/log.hpp"
#include "mpi/tools/tools.hpp"

extern char** environ;

namespace weft::mpi::tools {
namespace {

// Room for a text, with its end: longer ones can only come from the environment.
constexpr std::size_t kTextBytes = 1024;

struct Cvar : Object {
  static constexpr Type kType = Type::cvar;
  Cvar(const SettingRow& the_row, std::size_t the_count)
      : Object(kType), row(the_row), count(the_count) {}
  const SettingRow& row;
  const std::size_t count;  // the number of elements; for texts bytes
};

struct Written {
  // By row; the values that MPI_T_cvar_write set before the library started.
  std::array<std::optional<std::string>, kNumSettings> texts;
  std::optional<Settings> opened;  // those that the library has started with
};
Immortal<Written> written;  // under the interface's mutex

bool is_text(const SettingRow& row) {
  return row.unit == Unit::text || row.unit == Unit::picks || row.unit == Unit::lengths;
}
bool is_enumeration(const SettingRow& row) {
  return row.unit == Unit::choice || row.unit == Unit::flag;
}

MPI_Datatype type_of(const SettingRow& row) {
  return is_text(row) ? MPI_CHAR : is_enumeration(row) ? MPI_INT : MPI_COUNT;
}

// True for settings that no MPI program reads: they are weftrun's, or of jobs and exchanges that a
// program opens itself (weft/job.hpp), which read the environment.
bool is_never_read(Setting id) {
  constexpr Setting kOthers[] = {Setting::launch, Setting::lane_memory_bytes,
                                 Setting::exchange_staging_bytes, Setting::verbs_qps};
  return std::find(std::begin(kOthers), std::end(kOthers), id) != std::end(kOthers);
}

// The scope of the other settings: some must be equal in all processes, as they decide together by
// them.
int scope_of(const SettingRow& row) {
  if (is_never_read(row.id)) return MPI_T_SCOPE_READONLY;
  const bool is_common = row.id >= Setting::coll_algorithms || row.id == Setting::fabric;
  return is_common ? MPI_T_SCOPE_ALL_EQ : MPI_T_SCOPE_LOCAL;
}

int verbosity_of(const SettingRow& row) {
  return row.audience == Audience::user ? MPI_T_VERBOSITY_USER_BASIC : MPI_T_VERBOSITY_TUNER_ALL;
}

// Returns the values in effect now. A bad variable in the environment is reported by MPI_Init;
// until then the defaults hold.
Settings current() {
  if (written->opened) return *written->opened;
  Settings settings;
  (void)Settings::from_environment(environ, settings);
  for (const SettingRow& row : setting_rows())
    if (const auto& text = written->texts[static_cast<std::size_t>(row.id)])
      (void)settings.set(row.name, *text);
  return settings;
}

// Returns the setting's text for a program's value; nothing if the value is not valid.
std::optional<std::string> text_of(const Cvar& cvar, const void* value) {
  if (is_text(cvar.row)) {
    const auto* text = static_cast<const char*>(value);
    const std::size_t length = strnlen(text, kTextBytes);
    if (length == kTextBytes) return std::nullopt;
    return std::string(text, length);
  }
  if (!is_enumeration(cvar.row)) {
    MPI_Count number;
    std::memcpy(&number, value, sizeof number);
    return std::to_string(number);
  }
  int item;
  std::memcpy(&item, value, sizeof item);
  const std::vector<std::string> items =
      cvar.row.unit == Unit::flag ? std::vector<std::string>{"0", "1"} : choices_of(cvar.row);
  if (item < 0 || static_cast<std::size_t>(item) >= items.size()) return std::nullopt;
  return items[static_cast<std::size_t>(item)];
}

void set_log_level(const Settings& settings) {
  // The setting's choices are in the order of the levels.
  log::set_level(static_cast<LogLevel>(settings.number(Setting::log)));
}

int write_value(const Cvar& cvar, const void* value) {
  if (is_never_read(cvar.row.id)) return MPI_T_ERR_CVAR_SET_NEVER;
  const bool is_log = cvar.row.id == Setting::log;
  if (written->opened && !is_log) return MPI_T_ERR_CVAR_SET_NEVER;
  const std::optional<std::string> text = text_of(cvar, value);
  Settings settings = current();
  if (!text || !settings.set(cvar.row.name, *text)) return MPI_T_ERR_INVALID;
  if (is_log) set_log_level(settings);
  if (written->opened)
    written->opened = std::move(settings);
  else
    written->texts[static_cast<std::size_t>(cvar.row.id)] = text;
  return MPI_SUCCESS;
}

void read_value(const Cvar& cvar, void* value) {
  const Settings settings = current();
  if (is_text(cvar.row)) {
    const std::string& text = settings.text(cvar.row.id);
    const std::size_t length = std::min(text.size(), cvar.count - 1);
    std::memcpy(value, text.data(), length);
    static_cast<char*>(value)[length] = '\0';
  } else if (is_enumeration(cvar.row)) {
    const int item = static_cast<int>(settings.number(cvar.row.id));
    std::memcpy(value, &item, sizeof item);
  } else {
    const MPI_Count number = settings.number(cvar.row.id);
    std::memcpy(value, &number, sizeof number);
  }
}

const SettingRow* cvar_at(int index) {
  return index >= 0 && index < kNumSettings ? &setting_rows()[static_cast<std::size_t>(index)]
                                            : nullptr;
}

constexpr std::string_view kNamePrefix = "WEFT_";

}  // namespace

void apply_settings(Settings& settings) {
  const std::lock_guard lock(shared->mutex);
  for (const SettingRow& row : setting_rows())
    if (const auto& text = written->texts[static_cast<std::size_t>(row.id)])
      (void)settings.set(row.name, *text);  // it was valid when it was written
  written->opened = settings;
}

}  // namespace weft::mpi::tools

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(T_cvar_get_num)(int* num) {
  return tools::run([&] {
    if (num == nullptr) return MPI_T_ERR_INVALID;
    *num = kNumSettings;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_cvar_get_info)
(int index, char* name, int* name_len, int* verbosity, MPI_Datatype* datatype, MPI_T_enum* enumtype,
 char* desc, int* desc_len, int* bind, int* scope) {
  return tools::run([&] {
    const SettingRow* row = tools::cvar_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    const MPI_T_enum items = tools::enumeration_of(*row);
    const std::string whole = std::string(tools::kNamePrefix).append(row->name);
    tools::give_text(whole, name, name_len);
    tools::give_text(row->meaning, desc, desc_len);
    tools::give(verbosity, tools::verbosity_of(*row));
    if (datatype != nullptr) *datatype = tools::type_of(*row);
    if (enumtype != nullptr) *enumtype = items;
    tools::give(bind, MPI_T_BIND_NO_OBJECT);
    tools::give(scope, tools::scope_of(*row));
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_cvar_get_index)(const char* name, int* index) {
  return tools::run([&] {
    if (name == nullptr || index == nullptr) return MPI_T_ERR_INVALID;
    std::string_view wanted = name;
    if (!wanted.starts_with(tools::kNamePrefix)) return MPI_T_ERR_INVALID_NAME;
    wanted.remove_prefix(tools::kNamePrefix.size());
    for (const SettingRow& row : setting_rows())
      if (row.name == wanted) {
        *index = static_cast<int>(row.id);
        return MPI_SUCCESS;
      }
    return MPI_T_ERR_INVALID_NAME;
  });
}

MPI_FUNCTION(T_cvar_handle_alloc)(int index, void*, MPI_T_cvar_handle* handle, int* count) {
  return tools::run([&] {
    const SettingRow* row = tools::cvar_at(index);
    if (row == nullptr) return MPI_T_ERR_INVALID_INDEX;
    if (handle == nullptr || count == nullptr) return MPI_T_ERR_INVALID;
    const std::size_t elements =
        tools::is_text(*row)
            ? std::max(tools::kTextBytes, tools::current().text(row->id).size() + 1)
            : 1;
    const auto made = tools::add<MPI_T_cvar_handle>(std::make_unique<tools::Cvar>(*row, elements));
    if (made == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
    *handle = made;
    *count = static_cast<int>(elements);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_cvar_handle_free)(MPI_T_cvar_handle* handle) {
  return tools::run([&] {
    if (handle == nullptr) return MPI_T_ERR_INVALID;
    if (tools::find<tools::Cvar>(*handle) == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    tools::drop(*handle);
    *handle = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_cvar_read)(MPI_T_cvar_handle handle, void* buf) {
  return tools::run([&] {
    const auto* cvar = tools::find<tools::Cvar>(handle);
    if (cvar == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (buf == nullptr) return MPI_T_ERR_INVALID;
    tools::read_value(*cvar, buf);
    return MPI_SUCCESS;
  });
}

MPI_FUNCTION(T_cvar_write)(MPI_T_cvar_handle handle, const void* buf) {
  return tools::run([&] {
    const auto* cvar = tools::find<tools::Cvar>(handle);
    if (cvar == nullptr) return MPI_T_ERR_INVALID_HANDLE;
    if (buf == nullptr) return MPI_T_ERR_INVALID;
    return tools::write_value(*cvar, buf);
  });
}
