#include "mpi/core/info.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string_view>

#include "mpi/core/call.hpp"
#include "mpi/core/errors.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

Immortal<HandleTable<MPI_Info, Info, Kind::info>> infos;

// The words of this process's command line.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

void describe_start(Info& info) {
  const std::vector<std::string> words = command_line();
  if (!words.empty()) info.set("command", words[0]);
  std::string arguments;
  for (std::size_t i = 1; i < words.size(); ++i)
    arguments += (arguments.empty() ? "" : " ") + words[i];
  if (!arguments.empty()) info.set("argv", arguments);
  if (is_running()) info.set("maxprocs", std::to_string(engine->size()));
  utsname machine{};
  if (uname(&machine) == 0) {
    info.set("host", machine.nodename);
    info.set("arch", machine.machine);
  }
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) != nullptr) info.set("wdir", folder);
  info.set("mpi_initial_errhandler", std::string(name_of(initial_errhandler())));
  // Programs may have longer ones, but no more is ever given out of an info object.
  for (auto& pair : info.pairs)
    pair.second.resize(std::min<std::size_t>(pair.second.size(), MPI_MAX_INFO_VAL - 1));
}

// What MPI_INFO_ENV has: the keys of MPI 5.0, 11.2.1, that are known here. The number of processes
// is known only while the library runs.
Info& environment_info() {
  static Info* const running = new Info;
  static Info* const outside = new Info;
  static std::once_flag once[2];
  const bool runs = is_running();
  Info& info = runs ? *running : *outside;
  std::call_once(once[runs], [&info] { describe_start(info); });
  return info;
}

// Checks a key: MPI_SUCCESS or the error class.
int check_key(const char* key) {
  if (key == nullptr || key[0] == 0 || std::strlen(key) >= MPI_MAX_INFO_KEY)
    return MPI_ERR_INFO_KEY;
  return MPI_SUCCESS;
}

void copy_out(const std::string& from, char* to, std::size_t room) {
  const std::size_t length = std::min(from.size(), room - 1);
  std::memcpy(to, from.data(), length);
  to[length] = 0;
}

int give(const Info* from, MPI_Info* out, const char* function) {
  if (out == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "the result is null");
  *out = make_info(from);
  return MPI_SUCCESS;
}

}  // namespace

const std::string* Info::find(const std::string& key) const {
  for (const auto& pair : pairs)
    if (pair.first == key) return &pair.second;
  return nullptr;
}

void Info::set(const std::string& key, const std::string& value) {
  for (auto& pair : pairs) {
    if (pair.first == key) {
      pair.second = value;
      return;
    }
  }
  pairs.emplace_back(key, value);
}

Info* find_info(MPI_Info handle) {
  if (handle == MPI_INFO_ENV) return &environment_info();
  return infos->find(handle);
}

InfoPtr copy_of(const Info* info) {
  if (info == nullptr) return nullptr;
  auto copy = std::make_shared<Info>();
  copy->pairs = info->pairs;
  return copy;
}

MPI_Info make_info(const Info* from) {
  auto info = std::make_unique<Info>();
  if (from != nullptr) info->pairs = from->pairs;
  const MPI_Info handle = infos->insert(info.get());
  if (handle != nullptr) static_cast<void>(info.release());
  return handle;
}

void clear_infos() {
  infos->for_each([](MPI_Info handle, Info*) { delete infos->erase(handle); });
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

// Info objects may be used before MPI_Init and after MPI_Finalize (MPI-4.0), so these functions may
// be called then.

MPI_CONVERSIONS(Info, MPI_Info, infos)

MPI_FUNCTION(Info_create)(MPI_Info* info) { return give(nullptr, info, __func__); }
MPI_FUNCTION(Info_create_env)(int, char**, MPI_Info* info) {
  return give(&environment_info(), info, __func__);
}
MPI_FUNCTION(Info_dup)(MPI_Info info, MPI_Info* newinfo) {
  Info* object = find_info(info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  std::lock_guard lock(object->mutex);
  return give(object, newinfo, __func__);
}

MPI_FUNCTION(Info_free)(MPI_Info* info) {
  if (info == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "info is null");
  Info* object = infos->erase(*info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  delete object;
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Info_set)(MPI_Info info, const char* key, const char* value) {
  Info* object = find_info(info);
  if (object == nullptr || info == MPI_INFO_ENV) return raise(nullptr, MPI_ERR_INFO, __func__);
  if (check_key(key) != MPI_SUCCESS) return raise(nullptr, MPI_ERR_INFO_KEY, __func__);
  if (value == nullptr || std::strlen(value) >= MPI_MAX_INFO_VAL)
    return raise(nullptr, MPI_ERR_INFO_VALUE, __func__);
  std::lock_guard lock(object->mutex);
  object->set(key, value);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Info_delete)(MPI_Info info, const char* key) {
  Info* object = find_info(info);
  if (object == nullptr || info == MPI_INFO_ENV) return raise(nullptr, MPI_ERR_INFO, __func__);
  if (check_key(key) != MPI_SUCCESS) return raise(nullptr, MPI_ERR_INFO_KEY, __func__);
  {
    std::lock_guard lock(object->mutex);
    for (auto pair = object->pairs.begin(); pair != object->pairs.end(); ++pair) {
      if (pair->first == key) {
        object->pairs.erase(pair);
        return MPI_SUCCESS;
      }
    }
  }
  return raise(nullptr, MPI_ERR_INFO_NOKEY, __func__);
}

MPI_FUNCTION(Info_get)(MPI_Info info, const char* key, int valuelen, char* value, int* flag) {
  Info* object = find_info(info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  if (check_key(key) != MPI_SUCCESS) return raise(nullptr, MPI_ERR_INFO_KEY, __func__);
  if (value == nullptr || flag == nullptr || valuelen < 0)
    return raise(nullptr, MPI_ERR_ARG, __func__);
  std::lock_guard lock(object->mutex);
  const std::string* found = object->find(key);
  *flag = found != nullptr;
  // valuelen does not count the terminating zero here.
  if (found != nullptr) copy_out(*found, value, static_cast<std::size_t>(valuelen) + 1);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Info_get_string)(MPI_Info info, const char* key, int* buflen, char* value, int* flag) {
  Info* object = find_info(info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  if (check_key(key) != MPI_SUCCESS) return raise(nullptr, MPI_ERR_INFO_KEY, __func__);
  if (buflen == nullptr || flag == nullptr || *buflen < 0 || (*buflen > 0 && value == nullptr))
    return raise(nullptr, MPI_ERR_ARG, __func__);
  std::lock_guard lock(object->mutex);
  const std::string* found = object->find(key);
  *flag = found != nullptr;
  if (found == nullptr) return MPI_SUCCESS;
  if (*buflen > 0) copy_out(*found, value, static_cast<std::size_t>(*buflen));
  *buflen = static_cast<int>(found->size()) + 1;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Info_get_valuelen)(MPI_Info info, const char* key, int* valuelen, int* flag) {
  Info* object = find_info(info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  if (check_key(key) != MPI_SUCCESS) return raise(nullptr, MPI_ERR_INFO_KEY, __func__);
  if (valuelen == nullptr || flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__);
  std::lock_guard lock(object->mutex);
  const std::string* found = object->find(key);
  *flag = found != nullptr;
  if (found != nullptr) *valuelen = static_cast<int>(found->size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Info_get_nkeys)(MPI_Info info, int* nkeys) {
  Info* object = find_info(info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  if (nkeys == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "nkeys is null");
  std::lock_guard lock(object->mutex);
  *nkeys = static_cast<int>(object->pairs.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Info_get_nthkey)(MPI_Info info, int n, char* key) {
  Info* object = find_info(info);
  if (object == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  {
    std::lock_guard lock(object->mutex);
    if (key != nullptr && n >= 0 && n < static_cast<int>(object->pairs.size())) {
      copy_out(object->pairs[static_cast<std::size_t>(n)].first, key, MPI_MAX_INFO_KEY);
      return MPI_SUCCESS;
    }
  }
  return raise(nullptr, MPI_ERR_ARG, __func__, "no key of that number");
}
