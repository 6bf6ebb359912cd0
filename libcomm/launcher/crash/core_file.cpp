#include "launcher/crash/core_file.hpp"

#include <fmt/core.h>
#include <limits.h>
#include <unistd.h>

#include <fstream>

#include "base/os/host_name.hpp"

namespace weft::weftrun {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string core_file_of(const CoreNames& names) {
  const std::string& pattern = names.pattern;
  if (pattern.starts_with('|')) return "a pipe to " + pattern.substr(1, pattern.find(' ') - 1);
  std::string name;
  bool has_process = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case '%':
        name += '%';
        break;
      case 'p':
        has_process = true;
        name += std::to_string(names.process);
        break;
      case 'e':
        name += names.program;
        break;
      case 'h':
        name += names.host;
        break;
      default:
        name += '*';
    }
  }
  if (names.adds_process && !has_process) name += fmt::format(".{}", names.process);
  return name.starts_with('/') ? name : names.folder + "/" + name;
}

std::string core_file_of(pid_t process) {
  CoreNames names;
  names.pattern = first_line("/proc/sys/kernel/core_pattern");
  names.adds_process = first_line("/proc/sys/kernel/core_uses_pid") == "1";
  names.process = process;
  names.program = first_line(fmt::format("/proc/{}/comm", process));
  names.host = host_name();
  char folder[PATH_MAX];
  const ssize_t length =
      readlink(fmt::format("/proc/{}/cwd", process).c_str(), folder, sizeof folder);
  if (length > 0) names.folder.assign(folder, static_cast<std::size_t>(length));
  return core_file_of(names);
}

}  // namespace weft::weftrun
