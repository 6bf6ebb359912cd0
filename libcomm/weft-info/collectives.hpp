#pragma once
// What weft-info --collectives prints.
#include <string>

#include "base/settings.hpp"

namespace weft {

// The rules, in order.
std::string collectives_text();

// Which algorithm each collective takes between so many processes on so many hosts, with the
// settings at hand. hosts: null if the command line ends before it. The exit status.
int print_collectives(const Settings& settings, const char* processes, const char* hosts);

}  // namespace weft
