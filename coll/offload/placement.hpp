#pragma once
// The assignment of processes to leaders and of leaders to switches: pure functions of a list of
// locations, with the same result on every leader. Any thread.
#include <span>
#include <string>
#include <vector>

#include "coll/switch/packet.hpp"

namespace weft::offload {

// Node: one leader per node. Socket: one for the processes of each socket.
enum class Mode : std::uint8_t { off, node, socket };

// The location of a process.
struct Location {
  std::int32_t node = 0;
  std::int32_t socket = 0;
  innet::Address tor;  // the top-of-rack switch of its node
};

// The processes of each leader, in rank order; the first one leads. Groups are in the order of
// their leaders.
std::vector<std::vector<int>> lead(const std::vector<Location>& locations, Mode mode);

// The mode that is wanted; but Node mode for Socket mode where more leaders would hang on a switch
// than it has children.
Mode mode_that_fits(const std::vector<Location>& locations, Mode wanted);

// The switch of a text "ADDRESS:PORT", "[IPV6]:PORT" or "NAME:PORT", whose name is asked for:
// of its addresses the first with a route, of IPv4 before those of IPv6. Returns nothing, with the
// problem in `error`, if it is none of these, or there is no such name.
std::optional<innet::Address> find_switch(const std::string& text, std::string& error);
// The first address that this host has a route to; none: the first.
innet::Address first_with_route(std::span<const innet::Address> addresses);

// Returns true if the setting that names the switch is the path of a placement file.
inline bool is_placement(std::string_view name) { return name.find('/') != name.npos; }
// Reads a placement file for `size` ranks. Lines: `RANK[-RANK] NODE SOCKET SWITCH:PORT`; empty
// lines and comments from # on are skipped. Every rank must appear once, or `error` gives the
// problem.
bool read_placement(std::string_view text, int size, std::vector<Location>& locations,
                    std::string& error);

}  // namespace weft::offload
