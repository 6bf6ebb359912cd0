#pragma once
// weft-mcroute install: writes tables into the fabric of this host.
#include <cstdint>
#include <string>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

struct InstallOptions {
  std::string topology, tables;
  std::string previous;  // what an earlier install wrote; empty: nothing
  std::string device;    // empty: the first that is up
  std::string first_mlid = "0xc000";
  std::string key = "0";
  int port = 0, timeout_ms = 200;
  bool dry_run = false, replace_foreign = false;
};

// Reads and checks the files and the fabric, writes the tables and reads them back. Prints the
// changes. A failure before the first write changes nothing; after one later, the writes are undone
// as far as the fabric responds, and the message says so. unsupported: built without libibmad.
Status install(const InstallOptions& options);

}  // namespace weft::mcast
