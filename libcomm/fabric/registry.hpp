#pragma once
// Registry: the fabrics of this build, a row each, in the order of choice. Nodes and jobs take
// their endpoints from here; nothing above knows a fabric by its name.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"

namespace weft::fabric {

struct Row {
  std::string_view name;  // in WEFT_FABRIC
  // Opens it, or says why this machine does not have it. Null: it is not in this build.
  Status (*make)(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);
  // For weft-info: what it can do on this machine; null: nothing to tell.
  std::string (*describe)(const Settings& settings);
  // How far it reaches. Ranks of one job and host need no fabric (lanes/mapped).
  enum { process, host, network } reach;
  std::size_t peer_descriptors = 0;  // that links between two ranks may take in each of them
  bool by_device = false;  // WEFT_DEVICE may name several, each with an endpoint of its own
};
// The last one is "loopback", which is not in the product: tests bring it (tests/support/loopback).
inline constexpr std::size_t kNumFabrics = 4;
std::span<const Row, kNumFabrics> rows();
const Row* find_row(std::string_view name);  // null: there is none
// For tests: how "loopback" is made from here on. Before the first endpoint; not thread-safe.
void set_loopback(std::unique_ptr<Endpoint> (*make)());

// WEFT_FABRIC: whether it names this fabric. bad_setting for a name that is none.
Status check_setting(const Settings& settings);
bool is_allowed(const Settings& settings, std::string_view name);

// For a Node: an endpoint of each fabric in the list (as WEFT_FABRIC) that this machine has, in its
// order. bad_setting: none of them.
Status make_endpoints(std::string_view fabrics, const Settings& settings,
                      std::vector<std::unique_ptr<Endpoint>>& endpoints);

}  // namespace weft::fabric
