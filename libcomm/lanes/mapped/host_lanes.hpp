#pragma once
// Lanes inside a host. Rings and doorbells lie in one mapped arena per process; memory from
// allocate() is a memfd that peers map; any other memory is reached with process_vm_readv and
// process_vm_writev. Nothing has a name in a file system.
//
// Tests: tests/lanes/host_lanes_test.cpp.
#include <memory>
#include <string>

#include "job/members.hpp"
#include "lanes/lanes.hpp"

namespace weft {

// Publishes this process's arena on the job's board. Collective: contains a fence.
Status make_host_lanes(Members& job, std::unique_ptr<HostLanes>& lanes);

// For weft-info: the kinds of access between processes of one host on this machine.
std::string host_lanes_text();

}  // namespace weft
