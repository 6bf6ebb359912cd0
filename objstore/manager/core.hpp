#pragma once
// ManagerCore: the store, the settings, the Node and the status that all parts of a manager use.
//
// Locks. A manager has two. turn_mutex_ of Manager guards the parts: only the thread that has the
// turn calls them. `mutex` here guards the fields below it and Inbox's commands, which other
// threads reach too; it is the last lock of all, taken with or without the server's.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "objstore/shared/layout.hpp"
#include "objstore/store/server.hpp"
#include "weft/node.hpp"

namespace weft::objstore {

struct ManagerSettings {
  std::vector<std::string> listen, peers;
  std::string secret, name, fabrics;
  std::string directory = "embedded";               // or redis://HOST[:PORT][/PREFIX]
  std::uint64_t threshold_bytes = 32 << 10;         // data and metadata; from it on one-sided
  std::map<std::string, std::uint64_t> thresholds;  // of fabrics that have one of their own
  std::uint32_t lease_ms = 10000;
  bool registers_objects = false;  // registers each while it is read, not all memory for good
  bool verifies = false;           // what comes from other hosts, by its checksum
  std::uint32_t spin_us = 50;      // how long it polls for more before it sleeps
  std::string protocol = "node";   // or socket: objects go over TCP, to compare with
  std::size_t most_pushed = kMostPushed;  // to so many hosts at once
};

struct ManagerCounters {
  std::uint64_t fetched = 0, fetched_bytes = 0, fetched_one_sided = 0, fetched_of_several = 0,
                given = 0, given_bytes = 0;
  std::uint64_t retried = 0, wrong = 0, leases_ended = 0, refused = 0;
  std::uint64_t pushed = 0, pushed_here = 0;  // to others, host by host; and by others
  std::uint64_t second = 0;                   // dropped, as another host had put the same id before
};

// The sizes of an object, and the marks by which copies are compared.
struct ObjectSizes {
  std::uint64_t data_bytes = 0;
  std::uint32_t metadata_bytes = 0;
  std::uint64_t stamp = 0;
  std::uint64_t checksum = 0;  // 0: none
  bool operator==(const ObjectSizes&) const = default;
};

struct ManagerCore {
  ManagerCore(Server& of_store, const ManagerSettings& of_user)
      : server(of_store), settings(of_user) {}

  Server& server;
  const ManagerSettings settings;
  std::unique_ptr<Node> node;  // from Manager::open() to the end of run(); under turn_mutex_
  std::uint64_t self = 0;      // the Node's generation; written by open()
  std::atomic<bool> is_over{false};

  std::mutex mutex;
  ManagerCounters counters;
  std::string directory_status;  // JSON
  // Name and fabric of each peer that is a store.
  std::map<std::uint64_t, std::pair<std::string, std::string>> peer_names;
};

}  // namespace weft::objstore
