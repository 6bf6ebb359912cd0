#pragma once
// What weft-info --check finds between two hosts: names, routes, connections, packets, and bytes
// over every pair of ends. Pairs of other hosts may be checked at the same time.
#include "tools/weft-info/check/host.hpp"
#include "tools/weft-info/check/report.hpp"

namespace weft::check {

void check_pair(Host& a, Host& b, Report& report);

}  // namespace weft::check
