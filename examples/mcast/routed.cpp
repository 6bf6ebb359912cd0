// mcast_routed: from a program's groups to entries in switches, and back.
//
// Native groups of this process, whose members stand for hosts of a simulated InfiniBand fabric (a
// fat tree of 20 switches and 16 hosts), register with weft-mcroute's library when they open: it
// lays a tree for each, and says which entries of which switches change. A packet of the group's
// root is then forwarded by these tables, and the copies that each switch makes are counted. A
// member that leaves and a group that closes give their entries back. On a real fabric
// `weft-mcroute install` writes the same tables; the groups' own datagrams stay on the loopback
// here.
#include <fmt/core.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "weft/mcast_routing.hpp"
#include "weft/multicast.hpp"

namespace {

using weft::mcast::Tables;
using weft::mcast::Topology;

void check(const weft::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "mcast_routed: {}\n", status.text());
  std::exit(1);
}

// Forwards a packet of `from` by entry `color`; prints the copies at each switch, and returns the
// hosts that got it.
std::set<std::uint32_t> forward(const Topology& topology, const Tables& tables, std::uint32_t color,
                                std::uint32_t from) {
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::uint32_t> hosts;  // by switch and port
  for (std::uint32_t host = 0; host < topology.num_hosts; ++host)
    hosts[{topology.endpoints[host].on_switch, topology.endpoints[host].switch_port}] = host;
  std::set<std::uint32_t> reached;
  struct Arrival {
    std::uint32_t on_switch;
    std::uint16_t port;
  };
  std::deque<Arrival> arrivals{
      {topology.endpoints[from].on_switch, topology.endpoints[from].switch_port}};
  while (!arrivals.empty()) {
    const Arrival arrival = arrivals.front();
    arrivals.pop_front();
    const auto& node = topology.nodes[topology.switch_nodes[arrival.on_switch]];
    int copies = 0;
    const auto table = tables.find(node.guid);
    if (table == tables.end() || !table->second.contains(color)) continue;
    for (const std::uint16_t port : table->second.at(color)) {
      if (port == arrival.port) continue;
      ++copies;
      if (const auto host = hosts.find({arrival.on_switch, port}); host != hosts.end())
        reached.insert(host->second);
      for (std::uint32_t arc = topology.arc_begin[arrival.on_switch];
           arc < topology.arc_begin[arrival.on_switch + 1]; ++arc)
        if (topology.arcs[arc].port == port)
          arrivals.push_back(
              {topology.arcs[arc].to, topology.arcs[topology.arcs[arc].reverse].port});
    }
    fmt::print("    {}: 1 packet in, {} out\n", node.id, copies);
  }
  return reached;
}

class Fabric {
 public:
  Fabric() : router_((check(make_topology("fat-tree", {4}, &topology_)), topology_), {}) {}

  void open(std::uint32_t number, const std::vector<std::uint32_t>& hosts) {
    check(router_.add_group(number, {fmt::format("group {}", number), hosts, 0}));
    show(number, "opens", {hosts.begin(), hosts.end()}, hosts.front());
  }
  void leave(std::uint32_t number, std::set<std::uint32_t> hosts, std::uint32_t root,
             std::uint32_t host) {
    check(router_.leave_group(number, host));
    hosts.erase(host);
    show(number, "loses a member", hosts, root);
  }
  void close(std::uint32_t number) {
    check(router_.remove_group(number));
    fmt::print("group {} closes: {} entries change\n", number, router_.take_changes().size());
  }
  std::size_t num_trees() const { return router_.trees().size(); }

 private:
  void show(std::uint32_t number, const char* what, std::set<std::uint32_t> hosts,
            std::uint32_t root) {
    const auto trees = router_.trees();
    for (const auto& tree : trees) {
      if (tree.groups != std::vector{number}) continue;
      fmt::print("group {} {}: MLID {:#x}, {} entries change, {} switches hold one\n", number, what,
                 weft::mcast::kFirstMlid + tree.color, router_.take_changes().size(),
                 tree.switches.size());
      hosts.erase(root);
      if (forward(topology_, make_tables(topology_, trees), tree.color, root) == hosts) return;
    }
    fmt::print(stderr, "mcast_routed: group {}'s packet does not reach its members\n", number);
    std::exit(1);
  }

  Topology topology_;
  weft::mcast::Router router_;
};

// A native group whose members are all in this process.
class Members {
 public:
  Members(std::uint32_t id, std::size_t count) : buffers_(count) {
    weft::GroupSettings settings{.id = id, .algorithm = "native"};
    for (std::size_t i = 0; i < count; ++i) {
      hosts_.push_back(std::make_unique<weft::Multicast>(
          weft::NodeSettings{.name = fmt::format("host {}", i), .secret = "routed"}));
      check(hosts_[i]->node().listen("127.0.0.1:0"));
      check(hosts_[i]->node().address(settings.members.emplace_back()));
    }
    for (std::size_t i = 0; i < count; ++i) {
      settings.self = static_cast<int>(i);
      groups_.push_back(std::make_unique<weft::Group>(
          *hosts_[i], settings, weft::GroupEvents{.on_incoming = [this, i](std::uint64_t bytes) {
            buffers_[i].resize(bytes);
            return static_cast<void*>(buffers_[i].data());
          }}));
    }
    for (const auto& group : groups_) check(group->ready());
  }
  void send_and_close(const std::vector<char>& data) {
    check(groups_[0]->send(data.data(), data.size()));
    for (const auto& group : groups_) check(group->close());
    fmt::print("{} bytes to {} members, by {}\n", data.size(), groups_.size() - 1,
               groups_[0]->native().ok() ? "copies on the loopback" : groups_[0]->native().text());
    for (std::size_t i = 1; i < buffers_.size(); ++i)
      if (buffers_[i] != data) check({weft::Code::corrupt, "a member has other bytes"});
  }

 private:
  std::vector<std::vector<char>> buffers_;
  std::vector<std::unique_ptr<weft::Multicast>> hosts_;
  std::vector<std::unique_ptr<weft::Group>> groups_;
};

}  // namespace

int main() {
  try {
    Fabric fabric;
    Members first(1, 4), second(2, 3);
    fabric.open(1, {0, 3, 7, 12});
    fabric.open(2, {1, 2, 15});
    first.send_and_close(std::vector<char>(1 << 20, 'a'));
    second.send_and_close(std::vector<char>(300'000, 'b'));
    fabric.leave(1, {0, 3, 7, 12}, 0, 12);
    fabric.close(1);
    fabric.close(2);
    if (fabric.num_trees() > 0) check({weft::Code::corrupt, "entries are left"});
    return 0;
  } catch (const weft::Error& error) {
    fmt::print(stderr, "mcast_routed: {}\n", error.what());
    return 1;
  }
}
