#pragma once
// weft-info --check: whether this host, or several and what is between them, can run Weft well.
#include <string>
#include <vector>

#include "base/settings.hpp"

namespace weft::check {

// hosts: as weftrun's --hosts takes them; empty: this host alone; one: it and this host.
// environment: whether the settings could be read. Prints the report on standard output, as JSON if
// wanted, and returns the exit status: 0, or 1 with errors; 130 after ctrl-C.
int check(const Settings& settings, const Status& environment, std::vector<std::string> hosts,
          bool json);

}  // namespace weft::check
