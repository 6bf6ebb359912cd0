#pragma once
// The part of this process's environment that a process on another host gets.
#include <string>
#include <utility>
#include <vector>

namespace weft::weftrun {

// Everything but variables that describe this host or this login: HOSTNAME, SSH_*, DISPLAY, XDG_*,
// ...
std::vector<std::pair<std::string, std::string>> portable_environment(char* const* environment);

}  // namespace weft::weftrun
