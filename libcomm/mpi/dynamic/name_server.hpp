#pragma once
// Publishing names: at the server that WEFT_NAME_SERVER names, or on the job's own board. Threads:
// any. exists: the name is published already; not_found: it is not published.
#include <mutex>
#include <string>
#include <string_view>

#include "weft/status.hpp"

namespace weft::mpi {

Status publish_name(std::string_view service, std::string_view port);
Status look_up_name(std::string_view service, std::string& port);
Status unpublish_name(std::string_view service);
void leave_name_server();

// Serialises all calls of the job's board while MPI runs.
inline std::mutex board_mutex;

}  // namespace weft::mpi
