#pragma once
// The member: weft-info on a host that is checked (--serve-check), which `weft-info --check
// HOST...` starts there by weftrun. It prints what it knows of its host, and then answers questions
// until its standard input ends. Questions and answers are lines of JSON:
//
//   (first)                              -> {weft, host, findings, interfaces, ports, ends}
//   {do: "time"}                         -> {ns}
//   {do: "resolve", name}                -> {addresses}
//   {do: "route", to, from}              -> {interface, source, gateway}
//   {do: "listen", address}              -> {ports: [TCP], datagrams: port}
//   {do: "connect", address, ports}      -> {attempts: [{port, error, us}]}
//   {do: "largest", address, port, most} -> {bytes}
//   {do: "measure", end, address, ms}    -> {latency_us, out_gbit, in_gbit}
//
// Instead of any: {error}. Addresses of ends are hexadecimal.
#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "tools/weft-info/check/report.hpp"
#include "tools/weft-info/check/traffic.hpp"

namespace weft::check {

// What is found on this host alone, as the first line above, and an open end for each place.
Json inspect_host(const Settings& settings, const Status& environment,
                  std::vector<std::unique_ptr<End>>& ends);

// Returns the exit status.
int serve(const Settings& settings, const Status& environment);

}  // namespace weft::check
