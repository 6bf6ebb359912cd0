// Fabrics and groups by pattern.
#include <algorithm>
#include <random>
#include <set>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

// Adds nodes and cables, giving each node its next free port.
class Builder {
 public:
  explicit Builder(Topology* topology) : topology_(topology) { *topology = Topology(); }
  uint32_t add(bool is_switch, const std::string& name, uint32_t ports) {
    const uint32_t n = static_cast<uint32_t>(topology_->nodes.size());
    Node node;
    node.is_switch = is_switch;
    // ibsim makes a port's GUID the node's plus the port number: leave room for 255 of them.
    node.guid = 0x200000 + 0x100ull * n;
    node.id = node.description = name;
    node.ports.resize(ports + 1);
    topology_->nodes.push_back(std::move(node));
    next_.push_back(1);
    return n;
  }
  void cable(uint32_t a, uint32_t b) {
    const uint16_t pa = next_[a]++, pb = next_[b]++;
    topology_->nodes[a].ports.at(pa) = {b, pb};
    topology_->nodes[b].ports.at(pb) = {a, pa};
  }
  void hosts(uint32_t on, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      cable(add(false, "H-" + std::to_string(hosts_++), 1), on);
    }
  }

 private:
  Topology* topology_;
  std::vector<uint16_t> next_;
  uint32_t hosts_ = 0;
};

std::string numbered(const char* prefix, uint32_t n) { return prefix + std::to_string(n); }

void fat_tree(Builder& build, uint32_t k) {
  const uint32_t half = k / 2;
  std::vector<uint32_t> leaves, middles, tops;
  for (uint32_t i = 0; i < k * half; ++i) leaves.push_back(build.add(true, numbered("S-L", i), k));
  for (uint32_t i = 0; i < k * half; ++i) middles.push_back(build.add(true, numbered("S-M", i), k));
  for (uint32_t i = 0; i < half * half; ++i) tops.push_back(build.add(true, numbered("S-T", i), k));
  for (const uint32_t leaf : leaves) build.hosts(leaf, half);
  for (uint32_t pod = 0; pod < k; ++pod) {
    for (uint32_t l = 0; l < half; ++l) {
      for (uint32_t m = 0; m < half; ++m)
        build.cable(leaves[pod * half + l], middles[pod * half + m]);
    }
    for (uint32_t m = 0; m < half; ++m) {
      for (uint32_t t = 0; t < half; ++t) build.cable(middles[pod * half + m], tops[m * half + t]);
    }
  }
}

void two_level(Builder& build, uint32_t leaves, uint32_t hosts, uint32_t spines, uint32_t cables) {
  std::vector<uint32_t> leaf, spine;
  for (uint32_t i = 0; i < leaves; ++i) {
    leaf.push_back(build.add(true, numbered("S-L", i), hosts + spines * cables));
  }
  for (uint32_t i = 0; i < spines; ++i) {
    spine.push_back(build.add(true, numbered("S-T", i), leaves * cables));
  }
  for (const uint32_t l : leaf) build.hosts(l, hosts);
  for (const uint32_t l : leaf) {
    for (const uint32_t s : spine) {
      for (uint32_t c = 0; c < cables; ++c) build.cable(l, s);
    }
  }
}

// The Sunway machines, as far as they are known (docs/use/mr4lms.md): supernodes that are two-level
// trees without pruning, joined by director switches which are two-level trees themselves. A
// director takes `paths` of a supernode's middle switches, so that many paths lead from a leaf to
// each of its spines; its line chips are divided among those paths. All chips have 36 ports.
struct Supernodes {
  uint32_t count, leaves, hosts, middles, directors, paths;
  static constexpr uint32_t kChip = 36, kLineDown = kChip / 2, kSpines = 9;
  uint32_t lines_per_path() const { return (count + kLineDown - 1) / kLineDown; }
  bool fits() const {
    return hosts <= kChip && middles <= kChip && leaves <= kChip && paths <= middles &&
           hosts + middles <= kChip && directors * paths % middles == 0 &&
           leaves + directors * paths / middles <= kChip && paths * lines_per_path() <= kChip / 2;
  }
};

void supernodes(Builder& build, const Supernodes& n) {
  std::vector<uint32_t> leaf, middle, line, spine;
  const uint32_t lines = n.lines_per_path();
  for (uint32_t i = 0; i < n.count * n.leaves; ++i) {
    leaf.push_back(build.add(true, numbered("S-L", i), n.kChip));
  }
  for (uint32_t i = 0; i < n.count * n.middles; ++i) {
    middle.push_back(build.add(true, numbered("S-M", i), n.kChip));
  }
  for (uint32_t i = 0; i < n.directors * n.paths * lines; ++i) {
    line.push_back(build.add(true, numbered("S-D", i), n.kChip));
  }
  for (uint32_t i = 0; i < n.directors * n.kSpines; ++i) {
    spine.push_back(build.add(true, numbered("S-T", i), n.kChip));
  }
  for (const uint32_t l : leaf) build.hosts(l, n.hosts);
  for (uint32_t s = 0; s < n.count; ++s) {
    for (uint32_t l = 0; l < n.leaves; ++l) {
      for (uint32_t m = 0; m < n.middles; ++m) {
        build.cable(leaf[s * n.leaves + l], middle[s * n.middles + m]);
      }
    }
    for (uint32_t d = 0; d < n.directors; ++d) {
      for (uint32_t k = 0; k < n.paths; ++k) {
        build.cable(middle[s * n.middles + (d * n.paths + k) % n.middles],
                    line[(d * n.paths + k) * lines + s / n.kLineDown]);
      }
    }
  }
  for (uint32_t i = 0; i < line.size(); ++i) {
    const uint32_t d = i / (n.paths * lines);
    for (uint32_t t = 0; t < n.kSpines; ++t) {
      for (uint32_t c = 0; c < n.kLineDown / n.kSpines; ++c) {
        build.cable(line[i], spine[d * n.kSpines + t]);
      }
    }
  }
}

void torus(Builder& build, uint32_t x, uint32_t y, uint32_t z, uint32_t hosts) {
  for (uint32_t i = 0; i < x * y * z; ++i) build.add(true, numbered("S-", i), hosts + 6);
  for (uint32_t i = 0; i < x * y * z; ++i) build.hosts(i, hosts);
  const auto at = [&](uint32_t a, uint32_t b, uint32_t c) { return (c * y + b) * x + a; };
  for (uint32_t c = 0; c < z; ++c) {
    for (uint32_t b = 0; b < y; ++b) {
      for (uint32_t a = 0; a < x; ++a) {
        // A ring of two has one cable, a ring of one has none.
        if (x > 2 || a + 1 < x) build.cable(at(a, b, c), at((a + 1) % x, b, c));
        if (y > 2 || b + 1 < y) build.cable(at(a, b, c), at(a, (b + 1) % y, c));
        if (z > 2 || c + 1 < z) build.cable(at(a, b, c), at(a, b, (c + 1) % z));
      }
    }
  }
}

// a switches in each of a*h+1 groups, p hosts and h global cables a switch.
void dragonfly(Builder& build, uint32_t a, uint32_t p, uint32_t h) {
  const uint32_t groups = a * h + 1;
  for (uint32_t i = 0; i < groups * a; ++i) build.add(true, numbered("S-", i), p + h + a - 1);
  for (uint32_t i = 0; i < groups * a; ++i) build.hosts(i, p);
  for (uint32_t g = 0; g < groups; ++g) {
    for (uint32_t i = 0; i < a; ++i) {
      for (uint32_t j = i + 1; j < a; ++j) build.cable(g * a + i, g * a + j);
    }
  }
  // The cable between groups g < o leaves g by its (o-1)th global port and enters o by its gth.
  for (uint32_t g = 0; g < groups; ++g) {
    for (uint32_t o = g + 1; o < groups; ++o) build.cable(g * a + (o - 1) / h, o * a + g / h);
  }
}

void random_network(Builder& build, uint32_t switches, uint32_t hosts, uint32_t ports,
                    uint32_t seed) {
  for (uint32_t i = 0; i < switches; ++i) build.add(true, numbered("S-", i), hosts + ports);
  for (uint32_t i = 0; i < switches; ++i) build.hosts(i, hosts);
  std::mt19937 rng(seed);
  std::vector<uint32_t> stubs;
  for (uint32_t i = 0; i < switches * ports; ++i) stubs.push_back(i / ports);
  // mt19937's numbers are the same everywhere, std::shuffle's use of them is not.
  for (size_t i = stubs.size(); i > 1; --i) std::swap(stubs[i - 1], stubs[rng() % i]);
  for (size_t i = 0; i + 1 < stubs.size(); i += 2) {
    // A cable from a switch to itself is undone by trading ends with a later pair.
    for (size_t j = i + 2; j < stubs.size() && stubs[i] == stubs[i + 1]; ++j) {
      std::swap(stubs[i + 1], stubs[j]);
    }
    if (stubs[i] != stubs[i + 1]) build.cable(stubs[i], stubs[i + 1]);
  }
}

}  // namespace

Status make_topology(const std::string& kind, const std::vector<uint32_t>& n, Topology* topology) {
  const auto need = [&](size_t count) {
    return n.size() == count && std::find(n.begin(), n.end(), 0u) == n.end();
  };
  const Status sizes(Code::bad_argument, kind + ": wrong number of sizes, or a size of 0");
  const Status ports(Code::bad_argument, kind + ": a switch would have more than 254 ports");
  for (const uint32_t size : n) {
    if (size > 1000000) return {Code::bad_argument, kind + ": a size above 1000000"};
  }
  Builder build(topology);
  if (kind == "fat-tree") {
    if (!need(1)) return sizes;
    if (n[0] % 2 != 0) return {Code::bad_argument, "fat-tree: the number of ports must be even"};
    if (n[0] > 254) return ports;
    fat_tree(build, n[0]);
  } else if (kind == "pruned-fat-tree") {
    if (!need(4)) return sizes;
    if (n[1] + n[2] * n[3] > 254 || n[0] * n[3] > 254) return ports;
    two_level(build, n[0], n[1], n[2], n[3]);
  } else if (kind == "supernodes") {
    if (!need(6)) return sizes;
    const Supernodes machine{n[0], n[1], n[2], n[3], n[4], n[5]};
    if (!machine.fits()) return {Code::bad_argument, "supernodes: needs chips of over 36 ports"};
    supernodes(build, machine);
  } else if (kind == "torus") {
    if (!need(4)) return sizes;
    if (n[3] + 6 > 254) return ports;
    torus(build, n[0], n[1], n[2], n[3]);
  } else if (kind == "dragonfly") {
    if (!need(3)) return sizes;
    if (n[0] + n[1] + n[2] > 255) return ports;
    dragonfly(build, n[0], n[1], n[2]);
  } else if (kind == "random") {
    if (!need(4)) return sizes;
    if (n[1] + n[2] > 254) return ports;
    random_network(build, n[0], n[1], n[2], n[3]);
  } else {
    return {Code::bad_argument, "unknown kind of topology: " + kind};
  }
  return topology->finish();
}

Status make_grid_groups(const Topology& topology, const std::vector<uint32_t>& dims,
                        uint32_t per_host, std::vector<Group>* groups) {
  groups->clear();
  uint64_t total = 1;
  for (const uint32_t d : dims) {
    if (d == 0 || d > 1u << 20) return {Code::bad_argument, "a grid's sides are 1 to 1048576"};
    total *= d;
    if (total > 1u << 28) return {Code::bad_argument, "the grid has too many processes"};
  }
  if (per_host == 0) return {Code::bad_argument, "processes per host: at least 1"};
  if (total > uint64_t{topology.num_hosts} * per_host) {
    return {Code::bad_argument, "the grid has " + std::to_string(total) +
                                    " processes, the fabric " +
                                    std::to_string(uint64_t{topology.num_hosts} * per_host)};
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    uint64_t stride = 1;
    for (size_t i = 0; i < d; ++i) stride *= dims[i];
    for (uint64_t start = 0; start < total; ++start) {
      if (start / stride % dims[d] != 0) continue;
      Group group;
      for (uint32_t i = 0; i < dims[d]; ++i) {
        const uint32_t host = static_cast<uint32_t>((start + i * stride) / per_host);
        if (group.members.empty() || group.members.back() != host) group.members.push_back(host);
      }
      if (group.members.size() < 2) continue;
      group.id = std::to_string(groups->size());
      groups->push_back(std::move(group));
    }
  }
  return Code::ok;
}

Status make_random_groups(const Topology& topology, uint32_t count, uint32_t size, uint64_t seed,
                          std::vector<Group>* groups) {
  groups->clear();
  if (size < 2 || size > topology.num_hosts) {
    return {Code::bad_argument, "a group has 2 members or more, and no more than there are hosts"};
  }
  std::mt19937_64 rng(seed);
  for (uint32_t g = 0; g < count; ++g) {
    std::set<uint32_t> chosen;
    while (chosen.size() < size) chosen.insert(static_cast<uint32_t>(rng() % topology.num_hosts));
    groups->push_back({std::to_string(g), {chosen.begin(), chosen.end()}});
  }
  return Code::ok;
}

}  // namespace weft::mcast
