#include "mcast/routing/fabric_port.hpp"

#include <infiniband/umad.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft::mcast {

namespace {

constexpr int kAttempts = 3;
constexpr int kLinkUp = 5;  // PortInfo's PortPhysicalState

std::string route_text(const ib_portid_t& route) {
  std::string text = "0";
  for (int i = 1; i <= route.drpath.cnt; ++i) {
    text += ',';
    text += std::to_string(route.drpath.p[i]);
  }
  return text;
}

unsigned block_modifier(uint32_t block, uint32_t position) { return block | position << 28; }

}  // namespace

Status FabricPort::open(const Options& options) {
  madrpc_show_errors(0);
  if (umad_init() < 0) return {Code::not_found, "no InfiniBand management on this machine"};
  int classes[] = {IB_SMI_CLASS, IB_SMI_DIRECT_CLASS};
  std::string device = options.device;
  errno = 0;
  mad_.reset(mad_rpc_open_port(device.empty() ? nullptr : device.data(), options.port, classes, 2));
  if (mad_ == nullptr) {
    return {Code::not_found, "no InfiniBand port can be used" +
                                 (device.empty() ? std::string() : " on " + device) + ": " +
                                 std::strerror(errno ? errno : ENODEV)};
  }
  timeout_ms_ = options.timeout_ms;
  mad_rpc_set_timeout(mad_.get(), timeout_ms_);
  mad_rpc_set_retries(mad_.get(), kAttempts);
  smp_mkey_set(mad_.get(), options.key);
  return Code::ok;
}

Status FabricPort::failed(const char* what, const ib_portid_t& route, unsigned attribute,
                          int status) const {
  char text[160];
  if (status != 0) {
    std::snprintf(text, sizeof text, "attribute %#x at route ", attribute);
    return {Code::not_permitted, std::string(what) + " " + text + route_text(route) +
                                     ": the node answers with status " + std::to_string(status)};
  }
  std::snprintf(text, sizeof text, "attribute %#x at route ", attribute);
  return {Code::timed_out, std::string(what) + " " + text + route_text(route) + ": no answer to " +
                               std::to_string(kAttempts) + " packets of " +
                               std::to_string(timeout_ms_) + " ms"};
}

Status FabricPort::query(const ib_portid_t& route, unsigned attribute, unsigned modifier,
                         uint8_t* data) {
  ib_portid_t to = route;
  int status = 0;
  std::memset(data, 0, IB_SMP_DATA_SIZE);
  if (smp_query_status_via(data, &to, attribute, modifier, 0, &status, mad_.get()) == nullptr ||
      status != 0) {
    return failed("reading", route, attribute, status);
  }
  return Code::ok;
}

// The node at the end of the route, added to the topology if it is new, and the port the route
// enters it by.
Status FabricPort::node_at(const ib_portid_t& route, Topology* topology, uint32_t* node,
                           uint16_t* port) {
  uint8_t info[IB_SMP_DATA_SIZE];
  const Status status = query(route, IB_ATTR_NODE_INFO, 0, info);
  if (!status.ok()) return status;
  const uint64_t guid = mad_get_field64(info, 0, IB_NODE_GUID_F);
  *port = static_cast<uint16_t>(mad_get_field(info, 0, IB_NODE_LOCAL_PORT_F));
  const auto [at, fresh] = nodes_.emplace(guid, topology->nodes.size());
  *node = at->second;
  if (fresh) {
    const uint32_t type = mad_get_field(info, 0, IB_NODE_TYPE_F);
    Node made;
    made.is_switch = type == IB_NODE_SWITCH;
    made.is_router = type == IB_NODE_ROUTER;
    made.guid = guid;
    char text[32];
    std::snprintf(text, sizeof text, "%c-%016llx", made.is_switch ? 'S' : 'H',
                  static_cast<unsigned long long>(guid));
    made.id = made.description = text;
    made.ports.resize(mad_get_field(info, 0, IB_NODE_NPORTS_F) + 1);
    made.port_guids.resize(made.ports.size());
    topology->nodes.push_back(std::move(made));
    routes_[guid] = route;
  }
  if (*port >= topology->nodes[*node].ports.size()) {
    return {Code::corrupt, "the node at route " + route_text(route) + " says it has no port " +
                               std::to_string(*port)};
  }
  // Each port of a host has a GUID of its own; the node reports that of the port that was queried.
  topology->nodes[*node].port_guids[*port] = mad_get_field64(info, 0, IB_NODE_PORT_GUID_F);
  return Code::ok;
}

Status FabricPort::discover(Topology* topology) {
  *topology = Topology();
  nodes_.clear();
  routes_.clear();
  uint32_t node = 0;
  uint16_t port = 0;
  Status status = node_at(ib_portid_t{}, topology, &node, &port);
  if (!status.ok()) return status;
  const auto explore = [&](uint32_t from, uint16_t by) -> Status {
    // Skip a cable that was found from its other end.
    if (topology->nodes[from].ports[by].node != kNone) return Code::ok;
    ib_portid_t route = routes_[topology->nodes[from].guid];
    uint8_t info[IB_SMP_DATA_SIZE];
    Status asked = query(route, IB_ATTR_PORT_INFO, by, info);
    if (!asked.ok()) return asked;
    if (mad_get_field(info, 0, IB_PORT_PHYS_STATE_F) != kLinkUp) return Code::ok;
    if (route.drpath.cnt + 1 >= IB_SUBNET_PATH_HOPS_MAX) {
      return {Code::unsupported, "a route of more than 62 hops: " + route_text(route)};
    }
    route.drpath.p[++route.drpath.cnt] = static_cast<uint8_t>(by);
    uint32_t to = 0;
    uint16_t entered = 0;
    asked = node_at(route, topology, &to, &entered);
    if (!asked.ok()) return asked;
    topology->nodes[from].ports[by] = {to, entered};
    topology->nodes[to].ports[entered] = {from, by};
    return Code::ok;
  };
  // Nodes are appended as they are found. The only cable of a host is the one it was found by,
  // except at the host where the walk starts.
  for (uint32_t n = 0; n < topology->nodes.size(); ++n) {
    const bool is_switch = topology->nodes[n].is_switch;
    if (!is_switch && n > 0) continue;
    const size_t last = is_switch ? topology->nodes[n].ports.size() - 1 : port;
    for (size_t p = is_switch ? 1 : port; p <= last; ++p) {
      status = explore(n, static_cast<uint16_t>(p));
      if (!status.ok()) return status;
    }
  }
  return topology->finish();
}

Status FabricPort::limits(uint64_t guid, TableLimits* limits) {
  uint8_t info[IB_SMP_DATA_SIZE];
  const Status status = query(routes_.at(guid), IB_ATTR_SWITCH_INFO, 0, info);
  if (!status.ok()) return status;
  limits->entries = mad_get_field(info, 0, IB_SW_MCAST_FDB_CAP_F);
  limits->top = mad_get_field(info, 0, IB_SW_MCAST_FDB_TOP_F);
  return Code::ok;
}

Status FabricPort::read_block(uint64_t guid, uint32_t block, uint32_t position, Block* rows) {
  uint8_t data[IB_SMP_DATA_SIZE];
  const Status status =
      query(routes_.at(guid), IB_ATTR_MULTICASTFORWTBL, block_modifier(block, position), data);
  for (uint32_t e = 0; e < kBlockEntries; ++e) {
    (*rows)[e] = static_cast<uint16_t>(data[2 * e] << 8 | data[2 * e + 1]);
  }
  return status;
}

Status FabricPort::write_block(uint64_t guid, uint32_t block, uint32_t position,
                               const Block& rows) {
  uint8_t data[IB_SMP_DATA_SIZE];
  for (uint32_t e = 0; e < kBlockEntries; ++e) {
    data[2 * e] = static_cast<uint8_t>(rows[e] >> 8);
    data[2 * e + 1] = static_cast<uint8_t>(rows[e]);
  }
  ib_portid_t to = routes_.at(guid);
  int status = 0;
  if (smp_set_status_via(data, &to, IB_ATTR_MULTICASTFORWTBL, block_modifier(block, position), 0,
                         &status, mad_.get()) == nullptr ||
      status != 0) {
    return failed("writing", to, IB_ATTR_MULTICASTFORWTBL, status);
  }
  return Code::ok;
}

}  // namespace weft::mcast
