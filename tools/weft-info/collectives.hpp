#pragma once
// What weft-info --collectives prints.
#include <string>

#include "base/settings.hpp"
#include "weft/status.hpp"

namespace weft {

// The rules, in order.
std::string collectives_text();

// Which algorithm each collective takes between so many processes on so many hosts, with the
// settings at hand. bad_argument: there can be no such numbers.
Status chosen_text(const Settings& settings, int num_processes, int num_hosts, std::string& text);

}  // namespace weft
