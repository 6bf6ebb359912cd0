#pragma once
// The commands of weft-store for the shell, as a client of a running store.
#include <functional>
#include <string>

#include "tools/cli/cli.hpp"
#include "weft/status.hpp"

namespace weft::objstore {

// The command that was given is put into `command`; its result is the exit status.
void add_commands(cli::Command& app, const std::string& socket, std::function<int()>& command);
// Reports the error to the user; returns 1.
int fail(const Status& status);

}  // namespace weft::objstore
