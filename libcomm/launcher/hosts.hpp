#pragma once
// Which hosts a job runs on, which ranks each of them gets, and at which addresses this machine can
// be reached from them.
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

// "h1,h2:4,[fe80::1]:2": names or addresses, each with a number of slots if one was given.
Status parse_hosts(std::string_view text, std::vector<HostEntry>& hosts);
// One host a line: "name", "name:4" or "name slots=4"; # begins a comment.
Status read_host_file(const std::string& path, std::vector<HostEntry>& hosts);

// The ranks of each host. Without any number of slots every host gets an equal share, in blocks;
// with them hosts are filled in order (no number counts as 1), and bad_argument if there are too
// few, unless `oversubscribe`, which goes around again. `in_turn`: each rank goes to the next host
// that has a slot left.
Status place_ranks(const std::vector<HostEntry>& hosts, int num_ranks, bool oversubscribe,
                   bool in_turn, std::vector<std::vector<int>>& ranks);
// The number of ranks when the user gave none: all slots.
int count_slots(const std::vector<HostEntry>& hosts);

// This machine's own name, or a name of its loopback.
bool is_this_machine(const std::string& name);

// The addresses (no ports) at which `host` may reach this machine, most likely first: the one that
// leads to it, if its name is known here, then those of all interfaces that are up.
std::vector<std::string> addresses_towards(const std::string& host);
// An address as it is, or that of the interface with this name. Empty if there is none.
std::string address_of(const std::string& address_or_interface);

}  // namespace weft::weftrun
