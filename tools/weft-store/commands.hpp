#pragma once
// What weft-store does for the shell, as a client of a store that runs.
#include <functional>
#include <string>

#include "tools/cli/cli.hpp"
#include "weft/status.hpp"

namespace weft::objstore {

// The command that was given is put into `command`; its result is the exit status.
void add_commands(cli::Command& app, const std::string& socket, std::function<int()>& command);
// Tells the user; 1.
int fail(const Status& status);

}  // namespace weft::objstore
