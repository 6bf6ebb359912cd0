#pragma once
// The assignment of processes to leaders and of leaders to switches: pure functions of a list of
// locations, with the same result on every leader. Any thread.
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

// The switch of a text "ADDRESS:PORT", "[IPV6]:PORT" or "NAME:PORT", whose name is asked for; of
// its addresses an IPv4 one is taken if there is one. Returns nothing, with the problem in `error`,
// if it is none of these, or there is no such name.
std::optional<innet::Address> find_switch(const std::string& text, std::string& error);

// Returns true if the setting that names the switch is the path of a placement file.
inline bool is_placement(std::string_view name) { return name.find('/') != name.npos; }
// Reads a placement file for `size` ranks. Lines: `RANK[-RANK] NODE SOCKET SWITCH:PORT`; empty
// lines and comments from # on are skipped. Every rank must appear once, or `error` gives the
// problem.
bool read_placement(std::string_view text, int size, std::vector<Location>& locations,
                    std::string& error);

// The result of a leader's query.
struct Report {
  innet::Address tor;
  bool answers = false;
  innet::Capabilities can;
};

// The tree of a group: one entry for each leader.
struct Tree {
  std::string refusal;  // why there is no tree; empty: there is one
  std::uint32_t elements = 0, operations = 0;
  std::uint16_t payload_bytes = 0;
  std::vector<innet::Branch> branches;
  std::vector<std::uint8_t> children;
  int num_tors = 0;
  innet::Address spine;  // port 0: the group is complete at its one switch
};
// Builds the tree from the switches' common capabilities, and the spine with the most room for
// groups. The caller sets the branches' job, window and lease.
Tree grow(const std::vector<Report>& leaders, bool ordered);

// The order in which ordered mode adds the leaders' contributions: sums within each entry from left
// to right, then the entries from left to right. The hosts' own algorithm keeps it too.
std::vector<std::vector<int>> order_of_sums(const std::vector<innet::Address>& tors);

}  // namespace weft::offload
