#pragma once
// Computes the changes to a fabric's multicast tables that install the wanted trees and keep
// foreign entries. Reading and writing the tables is the caller's part.
//
// A table is written in blocks: 32 entries (block number) by 16 ports (position). Blocks are shared
// with others, so each is read, changed in our entries only, and written back.
#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

inline constexpr uint32_t kBlockEntries = 32, kBlockPorts = 16;

using PortSet = std::bitset<256>;
using Rows = std::map<uint32_t, PortSet>;           // entry -> ports
using Block = std::array<uint16_t, kBlockEntries>;  // bit p of row e: port 16 * position + p

// Part of the table of one switch of a topology.
struct BlockPlace {
  uint32_t node;  // index in the topology's nodes
  uint32_t block;
  uint32_t position;
  bool operator<(const BlockPlace& other) const {
    return std::tie(node, block, position) < std::tie(other.node, other.block, other.position);
  }
};
using Blocks = std::map<BlockPlace, Block>;

// The tables of the file as rows per node, each entry first_entry further up. bad_argument, naming
// the switch, if there is none of that GUID, it has no such port, or entries run out of MLIDs.
Status rows_of(const Topology& topology, const Tables& tables, uint32_t first_entry,
               std::map<uint32_t, Rows>* rows);

// The blocks that must be read to install `wanted` in place of `previous`.
std::vector<BlockPlace> places_of(const Topology& topology, const std::map<uint32_t, Rows>& wanted,
                                  const std::map<uint32_t, Rows>& previous);

struct EntryChange {
  uint32_t node;
  uint32_t entry;
  PortSet from, to;
  bool foreign = false;  // of another manager
};

struct InstallPlan {
  std::vector<EntryChange> changes;  // every entry that has to change, those of others too
  std::vector<EntryChange> kept;     // of `previous`, no longer wanted, but changed by others since
  // Blocks to write, in this order: first without the entries that change, so that no packet sees
  // a mixture of the old and the new tree, then with them.
  Blocks cleared, final;
  std::map<BlockPlace, uint32_t> changed;  // which rows of a block change: a bit each
  size_t num_foreign = 0;
};

// `now` holds every place that places_of() named. An entry is ours to change if it is empty or just
// as `previous` has it.
InstallPlan plan_install(const std::map<uint32_t, Rows>& wanted,
                         const std::map<uint32_t, Rows>& previous, const Blocks& now);

std::string text_of(const PortSet& ports);  // "1 5 36", or "empty"

// Differences between the fabric and the expected one, one a line: at most `limit`, then a line
// with the number of others. Nodes are compared by GUID, cables by both their ends.
std::vector<std::string> fabric_differences(const Topology& expected, const Topology& found,
                                            size_t limit);

}  // namespace weft::mcast
