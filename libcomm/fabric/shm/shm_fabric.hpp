#pragma once
// The fabric inside a host. Rings and doorbells lie in one mapped arena per process; memory from
// allocate() is a memfd that peers map; any other memory is reached with process_vm_readv and
// process_vm_writev. Nothing has a name in a file system.
#include <memory>
#include <string>

#include "fabric/fabric.hpp"
#include "job/members.hpp"

namespace weft {

// Publishes this process's arena on the job's board. Collective: contains a fence.
Status make_shm_fabric(Members& job, std::unique_ptr<Fabric>& fabric);

// For weft-info: what this fabric can do on this machine.
std::string shm_text();

}  // namespace weft
