#pragma once
// Registry: the fabrics that Weft knows, a row each, in the order of choice. Nodes and jobs take
// their endpoints from here, so a new fabric is a new row. Elsewhere only "shm" is a name in the
// code: a job's memory inside a host (lanes/mapped) goes by it in WEFT_FABRIC, without a row.
//
// Tests: tests/lanes/remote_test.cpp (jobs), tests/node/node_test.cpp (Nodes).
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
  // Opens an endpoint, or returns why this machine has none. Null: the fabric is not in this build.
  Status (*make)(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);
  // For weft-info: its devices and their use on this machine; null: nothing to print.
  std::string (*describe)(const Settings& settings);
  // The farthest peers that it reaches. Ranks of one job and host need no fabric (lanes/mapped).
  enum { process, host, network } reach;
  std::size_t peer_descriptors = 0;  // that links between two ranks may take in each of them
  bool by_device = false;  // WEFT_DEVICE may name several, each with an endpoint of its own
};
// The last row is "loopback": only tests have one, and set it (tests/support/loopback).
inline constexpr std::size_t kNumFabrics = 5;
std::span<const Row, kNumFabrics> rows();
const Row* find_row(std::string_view name);  // null: no such row
// For tests: how "loopback" is made from here on. Before the first endpoint; not thread-safe.
void set_loopback(std::unique_ptr<Endpoint> (*make)());

// check_setting: bad_setting if WEFT_FABRIC names a fabric that no row has, or leaves one out that
// WEFT_OFI_PROVIDER is for. is_allowed: true if it
// names this one.
Status check_setting(const Settings& settings);
bool is_allowed(const Settings& settings, std::string_view name);

// Whether the fabric must be there, as WEFT_DEVICE names a device of it.
bool is_demanded(const Row& row, const Settings& settings);
// Tells, once in a process, that a fabric that is here is not used. Not of one that is not here at
// all (not_found).
void tell_unused(const Row& row, int rank, const Status& why);

// For a Node: an endpoint of each fabric in the list (as WEFT_FABRIC) that this machine has, in its
// order. bad_setting: none of them, or a device that WEFT_DEVICE names is not usable.
Status make_endpoints(std::string_view fabrics, const Settings& settings,
                      std::vector<std::unique_ptr<Endpoint>>& endpoints);

}  // namespace weft::fabric
