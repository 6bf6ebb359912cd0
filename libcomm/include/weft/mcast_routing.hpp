#pragma once
// Multicast routing for switches with few table entries (MR4LMS): fabric, groups, trees, router.
//
// Used by weft-mcroute and by programs that decide which groups get trees in hardware. Nothing here
// is shared between threads: one Router belongs to one thread; a Topology may be read by many.
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/export.hpp"
#include "weft/status.hpp"

namespace weft::mcast {

inline constexpr uint32_t kNone = UINT32_MAX;

// One cable end of a switch that leads to another switch.
struct Arc {
  uint32_t to = kNone;       // the switch at the other end
  uint32_t reverse = kNone;  // index of the same cable seen from there
  uint16_t port = 0;         // the port here
};

// The peer port of a switch's port; both kNone if it is not connected.
struct Port {
  uint32_t node = kNone;
  uint16_t port = 0;
};

struct Node {
  bool is_switch = false;
  bool is_router = false;
  uint64_t guid = 0;
  std::string id;           // as in the file, e.g. S-0002c903
  std::string description;  // the part after '#', e.g. "node-017 HCA-1"
  std::vector<Port> ports;  // index 0 is the node itself and unconnected
  std::vector<uint64_t> port_guids;
};

// A port that can be member of a group: of a CA or router, or port 0 of a switch.
struct Endpoint {
  uint32_t node = kNone;
  uint16_t port = 0;
  uint32_t on_switch = kNone;  // dense switch number
  uint16_t switch_port = 0;    // port of that switch; 0 for the switch itself
  uint64_t guid = 0;
};

// A fabric. `nodes` is filled first; finish() checks it and derives the rest.
class Topology {
 public:
  std::vector<Node> nodes;

  // Checks both ends of every link, GUIDs and port numbers, and derives the members below.
  // bad_argument with the node and reason. Call once after the last change of `nodes`.
  Status finish();

  uint32_t num_switches() const { return static_cast<uint32_t>(switch_nodes.size()); }
  std::vector<uint32_t> switch_nodes;  // dense switch number -> index in nodes
  std::vector<uint32_t> arc_begin;     // arcs of switch s: [arc_begin[s], arc_begin[s + 1])
  std::vector<Arc> arcs;               // ascending port within a switch
  std::vector<uint32_t> arc_from;      // the switch an arc leaves
  std::vector<Endpoint> endpoints;     // CA ports in file order, then the switches
  std::vector<uint32_t> part_of;       // per switch: equal for switches that reach each other
  uint32_t num_hosts = 0;              // how many of the endpoints are no switches

  // The endpoint of a port GUID; the first endpoint of a node, by its id, its description or that
  // one's first word, if no other node shares it. kNone if there is none.
  uint32_t find_guid(uint64_t guid) const;
  uint32_t find_name(const std::string& name) const;

 private:
  std::unordered_map<uint64_t, uint32_t> by_guid_;
  std::unordered_map<std::string, uint32_t> by_name_;
};

// Reads the output of ibnetdiscover, or ibsim's net file. `name` is for messages, which have the
// form "name:line: reason". corrupt if the text is wrong; *topology is then unusable.
Status read_topology(std::istream& in, const std::string& name, Topology* topology);
void write_topology(const Topology& topology, std::ostream& out);

// kinds: fat-tree {k}, pruned-fat-tree {leaves, hosts per leaf, spines, cables from leaf to
// spine}, supernodes {supernodes, leaves, hosts per leaf, middle switches, directors, paths},
// torus {x, y, z, hosts}, dragonfly {a, p, h}, random {switches, hosts, fabric ports,
// seed}.
Status make_topology(const std::string& kind, const std::vector<uint32_t>& sizes,
                     Topology* topology);

// A group of one member, as IPoIB makes them, needs no tree and no entry.
struct Group {
  std::string id;
  std::vector<uint32_t> members;  // endpoints
  uint16_t pkey = 0;              // of its partition; 0: not said
};

// Reads what `saquery -m` or `saquery MCMR` prints, where ids are MGIDs; or one group a line: its
// id, then port GUIDs in hexadecimal or names, one at least, and pkey=NUMBER, if it has one.
// corrupt, "name:line: reason".
Status read_groups(std::istream& in, const std::string& name, const Topology& topology,
                   std::vector<Group>* groups);
void write_groups(const Topology& topology, const std::vector<Group>& groups, std::ostream& out);

// Groups and members that come and go.
struct TraceEvent {
  enum class Kind : uint8_t { create, remove, join, leave };
  Kind kind = Kind::create;
  uint32_t group = 0;       // index in the groups that read_trace() was given
  uint32_t member = kNone;  // endpoint that joins or leaves
  int line = 0;
};
// Reads lines of "create ID", "delete ID", "join ID MEMBER..." and "leave ID MEMBER...": a group is
// created with the members that it has in `groups`. Every event is possible after those before it.
// corrupt, "name:line: reason".
Status read_trace(std::istream& in, const std::string& name, const Topology& topology,
                  const std::vector<Group>& groups, std::vector<TraceEvent>* events);

// Processes on a grid, the first side fastest, `per_host` of them on a host; every line along every
// dimension is a group. Lines inside one host make no group.
Status make_grid_groups(const Topology& topology, const std::vector<uint32_t>& dims,
                        uint32_t per_host, std::vector<Group>* groups);
Status make_random_groups(const Topology& topology, uint32_t count, uint32_t size, uint64_t seed,
                          std::vector<Group>* groups);

// One tree, used by one group or more, at one table entry.
struct Tree {
  uint32_t color = kNone;
  uint32_t root = kNone;
  std::vector<uint32_t> switches;
  std::vector<uint32_t> links;    // one arc per cable, either direction
  std::vector<uint32_t> members;  // endpoints, ascending, each once
  std::vector<uint32_t> groups;   // numbers given by the caller
};

// Forwarding tables: per switch node GUID, entry -> ascending ports.
using Tables = std::unordered_map<uint64_t, std::unordered_map<uint32_t, std::vector<uint16_t>>>;

struct RouterOptions {
  uint32_t colors = kNone;     // table entries a switch may use; kNone: no limit
  bool keep_old_trees = true;  // false: merged trees are destroyed and built anew
  uint32_t refine_roots = 32;  // trees compared per group; 1 is the paper's greedy choice
  uint32_t extra_height = 4;   // hops a tree may be higher than the least to get an entry at all
  bool as_paper = false;       // the paper's algorithm alone; see router.cpp
};

// MR4LMS. Reads `topology`, which must outlive it.
class Router {
 public:
  Router(const Topology& topology, RouterOptions options);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // Routes a group under a number that is free. bad_argument: no members, or the number is in use;
  // not_found: its members cannot reach each other. On error nothing has changed.
  Status add_group(uint32_t number, const Group& group);
  Status remove_group(uint32_t number);
  // A member comes or goes: its branch is added to the group's tree, or cut off; entries of other
  // trees stay as they are, unless there is no way but by another entry, where the group is routed
  // anew. Groups of one tree keep it together. bad_argument: no such member, or it is there
  // already; not_found: no such group or member of it, or the others cannot reach it. On error
  // nothing has changed.
  Status join_group(uint32_t number, uint32_t member);
  Status leave_group(uint32_t number, uint32_t member);

  // Takes load off the busiest cables by building trees over them again, if groups had to share
  // trees or entries ran short. For many groups routed at once: it rewrites entries of present
  // groups. It builds at most as many trees as there are groups, and calls `progress`, if given,
  // with the number built.
  void spread(const std::function<void(size_t built, size_t most)>& progress = {});

  // Takes over the trees that tables hold for these groups, whose numbers are their places, as far
  // as the fabric still has all their cables and the groups no new members; the others are for
  // add_group(). Ports of members that have left are cut off. Returns which groups were kept. Call
  // it before any group is added.
  std::vector<bool> keep(const Tables& previous, const std::vector<Group>& groups);

  // The trees in use.
  std::vector<Tree> trees() const;
  // Table entries written since the last call, each (switch << 32 | color), ascending.
  std::vector<uint64_t> take_changes();

 private:
  struct Impl;
  Impl* impl_;
};

// OpenSM's MINIHOP-MC: one entry per group, group i at entry i.
Status route_minhop(const Topology& topology, const std::vector<Group>& groups,
                    std::vector<Tree>* trees);
// OpenSM's SSSP-MC (its engine sssp). The root is chosen as for MINIHOP-MC, but by the hops of this
// engine's own paths. OpenSM gives up and uses minhop on fabrics where path length times the square
// of the number of ports with an address reaches 2^31; this does not.
Status route_opensm_sssp(const Topology& topology, const std::vector<Group>& groups,
                         std::vector<Tree>* trees);
// SSSP-MC as the MR4LMS paper words it: link weight = groups on the link. Root: of the switches
// with the smallest maximum distance to a member, the one on the fewest trees (least_loaded), or
// the first.
Status route_paper_sssp(const Topology& topology, const std::vector<Group>& groups,
                        bool least_loaded, std::vector<Tree>* trees);

// Table entry e is that of MLID kFirstMlid + e.
inline constexpr uint32_t kFirstMlid = 0xc000, kLastMlid = 0xfffe;

Tables make_tables(const Topology& topology, const std::vector<Tree>& trees);
void write_mcfdbs(const Topology& topology, const Tables& tables, std::ostream& out);
void write_dump_fts(const Topology& topology, const Tables& tables, std::ostream& out);
// Reads either form, as written above or by the tools themselves. corrupt, "name:line: reason".
Status read_tables(std::istream& in, const std::string& name, Tables* tables);

// The groups that the trees serve, and the entry of each, as verify_tables() wants them. groups[i]
// has the number i in the trees.
struct Served {
  std::vector<Group> groups;
  std::vector<uint32_t> entry_of;
};
Served served_groups(const std::vector<Group>& groups, const std::vector<Tree>& trees);

// Forwards a packet from every member of every group of several through the tables. entry_of[i] is
// group i's entry; if entry_of is empty, some entry must serve each group. max_colors kNone: no
// limit.
Status verify_tables(const Topology& topology, const std::vector<Group>& groups,
                     const std::vector<uint32_t>& entry_of, const Tables& tables,
                     uint32_t max_colors);

struct Figures {
  uint32_t colors = 0, trees = 0, max_tfi = 0, max_height = 0, max_efi = 0, max_host_efi = 0;
  double mean_tfi = 0, mean_efi = 0, mean_height = 0;  // heights are weighted by groups
};
Figures measure(const Topology& topology, const std::vector<Tree>& trees);
// Groups on each arc's cable (both directions together), and the most on a cable of the tree.
std::vector<uint32_t> cable_loads(const Topology& topology, const std::vector<Tree>& trees);
uint32_t tree_efi(const Tree& tree, const std::vector<uint32_t>& loads);

// Hops from a tree's root to the farthest of its switches. Keeps its memory between trees.
class HeightMeter {
 public:
  explicit HeightMeter(const Topology& topology);
  uint32_t height(const Tree& tree);
  // Makes a switch in the middle of the tree's longest path the root.
  void centre(Tree* tree);

 private:
  uint32_t farthest(const Tree& tree, uint32_t root, uint32_t* hops);
  const Topology& topology_;
  std::vector<uint32_t> first_, depth_, parent_, next_, queue_;
};

}  // namespace weft::mcast
