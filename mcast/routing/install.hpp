#pragma once
// weft-mcroute install: writes tables into the fabric that this machine is part of.
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

// Reads and checks the files and the fabric, writes, reads back. Says on standard output what it
// has done, or would do. On any failure before the first write nothing has been written; on one
// after it, what was written has been undone as far as the fabric answers, and the message says so.
// unsupported: this build cannot.
Status install(const InstallOptions& options);

}  // namespace weft::mcast
