#pragma once
// The text of weft-info --collectives.
#include <string>

#include "base/settings.hpp"
#include "weft/status.hpp"

namespace weft {

// The rules, in order.
std::string collectives_text();

// The algorithm that each collective takes between so many processes on so many hosts, with the
// current settings. bad_argument: the numbers are impossible.
Status chosen_text(const Settings& settings, int num_processes, int num_hosts, std::string& text);

}  // namespace weft
