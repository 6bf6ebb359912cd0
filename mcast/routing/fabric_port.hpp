#pragma once
// A port of a real fabric: discovers its nodes and reads and writes multicast tables, by management
// packets (SMPs) that carry their route with them, so that no subnet manager is needed. One thread.
#include <infiniband/mad.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mcast/routing/install_plan.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

// A switch's multicast table, as the switch describes it.
struct TableLimits {
  uint32_t entries = 0;  // size
  uint32_t top = 0;      // last MLID that it uses (MulticastFDBTop); 0: no limit
};

class FabricPort {
 public:
  struct Options {
    std::string device;    // empty: the first that is up
    int port = 0;          // 0: the first that is up
    int timeout_ms = 200;  // for one packet, which is sent up to 3 times
    uint64_t key = 0;      // M_Key of the fabric's switches
  };

  // not_found, with the reason, if there is no such port.
  Status open(const Options& options);

  // Discovers the whole fabric. timed_out, with the port, if a node that has a cable does not
  // answer. Descriptions are not queried.
  Status discover(Topology* topology);

  // After discover(). A switch is named by its GUID.
  Status limits(uint64_t guid, TableLimits* limits);
  Status read_block(uint64_t guid, uint32_t block, uint32_t position, Block* rows);
  Status write_block(uint64_t guid, uint32_t block, uint32_t position, const Block& rows);

 private:
  struct CloseMad {
    void operator()(ibmad_port* port) const { mad_rpc_close_port(port); }
  };

  Status query(const ib_portid_t& route, unsigned attribute, unsigned modifier, uint8_t* data);
  Status failed(const char* what, const ib_portid_t& route, unsigned attribute, int status) const;
  Status node_at(const ib_portid_t& route, Topology* topology, uint32_t* node, uint16_t* port);

  std::unique_ptr<ibmad_port, CloseMad> mad_;
  int timeout_ms_ = 0;
  std::unordered_map<uint64_t, ib_portid_t> routes_;  // node GUID -> its directed route
  std::unordered_map<uint64_t, uint32_t> nodes_;      // node GUID -> index in the topology
};

}  // namespace weft::mcast
