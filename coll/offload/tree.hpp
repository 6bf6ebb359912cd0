#pragma once
// The tree of switches of a group, and the order in which it adds: pure functions of what the
// leaders' switches have answered, with the same result on every leader. Any thread.
#include <string>
#include <vector>

#include "coll/switch/packet.hpp"

namespace weft::offload {

// The result of a leader's query.
struct Report {
  innet::Address tor;
  bool answers = false;
  innet::Capabilities can;
};

// The order of sums: one step after the other a leader's vector, or what it has summed up already,
// is added to another's, until the first leader's is the sum of all.
struct SumStep {
  int from = 0, to = 0;
  bool operator==(const SumStep&) const = default;
};
using SumOrder = std::vector<SumStep>;
// Of leaders under these switches, where one more or none is above: sums within each from left to
// right, then the switches from left to right. The hosts' own algorithm keeps it too.
SumOrder order_of_sums(const std::vector<innet::Address>& tors);

// The tree of a group: one entry for each leader.
struct Tree {
  std::string refusal;  // why there is no tree; empty: there is one
  std::uint32_t elements = 0, operations = 0;
  std::uint16_t payload_bytes = 0;
  std::vector<innet::Branch> branches;
  std::vector<std::uint8_t> children;
  // The switches of each level from the leaders up, and the one at the top.
  std::vector<int> levels;
  innet::Address top;
  SumOrder order;
};
// Builds the tree from the switches' common capabilities: under one switch, under the spine with
// the most room that all can reach, else under spines that one switch above them joins. The caller
// sets the branches' job, window and lease.
Tree grow(const std::vector<Report>& leaders, bool ordered);

}  // namespace weft::offload
