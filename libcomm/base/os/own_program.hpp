#pragma once
// The path of the program that this process executes. Any thread.
#include <filesystem>
#include <initializer_list>
#include <string>
#include <system_error>

namespace weft {

// Empty where /proc is not mounted.
inline std::string own_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

// The first of these paths, relative to the folder of the own program, that exists: of what is
// installed beside a command, or lies in the build folder. Empty: none does.
inline std::string beside_own_program(std::initializer_list<const char*> paths) {
  const auto folder = std::filesystem::path(own_program()).parent_path();
  std::error_code error;
  for (const char* path : paths)
    if (auto found = std::filesystem::canonical(folder / path, error); !error)
      return found.string();
  return {};
}

}  // namespace weft
