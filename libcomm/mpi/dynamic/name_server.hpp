#pragma once
// Where names are published: at the server that WEFT_NAME_SERVER names, or the job's own board. Any
// thread. exists: it is published already; not_found: it is not.
#include <mutex>
#include <string>
#include <string_view>

#include "weft/status.hpp"

namespace weft::mpi {

Status publish_name(std::string_view service, std::string_view port);
Status look_up_name(std::string_view service, std::string& port);
Status unpublish_name(std::string_view service);
void leave_name_server();

// For all calls of the job's board while MPI runs.
inline std::mutex board_mutex;

}  // namespace weft::mpi
