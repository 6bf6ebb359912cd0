#pragma once
// Who leads whom, and which switch computes for whom: pure functions of a placement list, which
// every leader works out alike. Any thread.
#include <string>
#include <vector>

#include "coll/switch/packet.hpp"

namespace weft::offload {

// Node: one leader a node. Socket: one for the processes of each socket.
enum class Mode : std::uint8_t { off, node, socket };

// Where a process is.
struct Location {
  std::int32_t node = 0;
  std::int32_t socket = 0;
  innet::Address tor;  // the switch its node hangs on
};

// The processes that one leader speaks for, in rank order; the first one leads. Groups are in the
// order of their leaders.
std::vector<std::vector<int>> lead(const std::vector<Location>& locations, Mode mode);

// True if what names the switch is the path of such a file.
inline bool is_placement(std::string_view name) { return name.find('/') != name.npos; }
// A file's placement for `size` ranks. Lines: `RANK[-RANK] NODE SOCKET ADDRESS:PORT`; empty ones
// and what follows # are left out. Every rank once, or `error` says what is wrong.
bool read_placement(std::string_view text, int size, std::vector<Location>& locations,
                    std::string& error);

// What a leader knows after its query.
struct Report {
  innet::Address tor;
  bool answers = false;
  innet::Capabilities can;
};

// How a group's tree looks: one entry for each leader.
struct Tree {
  std::string refusal;  // why there is none; empty: there is one
  std::uint32_t elements = 0, operations = 0;
  std::uint16_t payload_bytes = 0;
  std::vector<innet::Branch> branches;
  std::vector<std::uint8_t> children;
  int num_tors = 0;
  innet::Address spine;  // port 0: the group is complete at its one switch
};
// The switches that all can use, and the spine with the most room for groups. The branches' job,
// window and lease are the caller's to fill in.
Tree grow(const std::vector<Report>& leaders, bool ordered);

// The order in which ordered mode adds the leaders' contributions: sums within each entry from left
// to right, then the entries from left to right. The hosts' own algorithm keeps it too.
std::vector<std::vector<int>> order_of_sums(const std::vector<innet::Address>& tors);

// The paper's regular case: S nodes of N sockets of P processes, ranks one after the other.
namespace regular {
std::vector<int> mrr(int sockets, int processes);                 // (1)
std::vector<int> nmrr(int sockets, int nodes, int processes);     // (2)
int mrr_of(int nmrr_index, int sockets);                          // (3), indices from 1
std::vector<int> nmrr_of(int mrr_index, int sockets, int nodes);  // (4), indices from 1
int ring_next(int index, int sockets, int nodes_under_tor);       // (5) and (6), indices from 1
}  // namespace regular

}  // namespace weft::offload
