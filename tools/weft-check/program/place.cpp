#include "tools/weft-check/program/place.hpp"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string_view>

#include "tools/weft-check/program/debug_info.hpp"

namespace weft::check {
namespace {

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string file_of(const link_map& map) {
  if (map.l_name != nullptr && map.l_name[0] != '\0') return std::string(last_part(map.l_name));
  static const std::string program = [] {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length <= 0 ? std::string()
                       : std::string(last_part({path, static_cast<std::size_t>(length)}));
  }();
  return program;
}

const link_map* module_of(const void* address, const char*& symbol) {
  Dl_info info{};
  link_map* map = nullptr;
  if (address == nullptr ||
      dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return nullptr;
  symbol = info.dli_sname;
  return map;
}

std::uint32_t hash_of(const std::string& text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash == 0 ? 1 : hash;
}

}  // namespace

std::string place_of(const void* caller) {
  if (caller == nullptr) return "";
  const void* inside = static_cast<const char*>(caller) - 1;
  const char* symbol = nullptr;
  const link_map* map = module_of(inside, symbol);
  if (map == nullptr) return "";
  const Line line = line_of(inside);
  const std::string function = !line.function.empty() ? line.function
                               : symbol != nullptr    ? symbol
                                                      : "";
  if (!line.file.empty())
    return fmt::format("{} ({}:{})", function, last_part(line.file), line.line);
  const auto offset = reinterpret_cast<std::uintptr_t>(inside) - map->l_addr;
  if (function.empty()) return fmt::format("{}+{:#x}", file_of(*map), offset);
  return fmt::format("{} ({})", function, file_of(*map));
}

SentPlace sent_place(const void* caller) noexcept {
  // Programs call from few places again and again.
  struct Known {
    const void* caller = nullptr;
    SentPlace place;
  };
  static thread_local Known known[64];
  Known& entry = known[reinterpret_cast<std::uintptr_t>(caller) / 4 % 64];
  if (entry.caller == caller) return entry.place;
  const char* symbol = nullptr;
  const link_map* map = module_of(caller, symbol);
  SentPlace place;
  if (map != nullptr)
    place = {hash_of(file_of(*map)),
             static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(caller) - map->l_addr)};
  entry = {caller, place};
  return place;
}

std::string text_of(const SentPlace& place) {
  struct Search {
    SentPlace place;
    std::string text;
  } search{place, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* object) {
        Search& found = *static_cast<Search*>(object);
        link_map map{};
        map.l_addr = info->dlpi_addr;
        map.l_name = const_cast<char*>(info->dlpi_name);
        if (hash_of(file_of(map)) != found.place.module) return 0;
        found.text = place_of(reinterpret_cast<const void*>(info->dlpi_addr + found.place.offset));
        return 1;
      },
      &search);
  return search.text;
}

}  // namespace weft::check
