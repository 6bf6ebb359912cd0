#pragma once
// Session: what an MPI_Session names (MPI 5.0 section 11.3). Its process sets are mpi://WORLD, all
// processes of the job, and mpi://SELF. The library runs for as long as there is a session or the
// world model. All processes of the job start it: that is when they meet.
#include <mutex>
#include <string_view>

#include "mpi/core/call.hpp"
#include "mpi/core/errors.hpp"
#include "mpi/core/info.hpp"

namespace weft::mpi {

struct Session {
  ~Session();

  MPI_Session handle = MPI_SESSION_NULL;
  std::mutex mutex;
  ErrorHandler* errhandler = nullptr;  // under the mutex
  int thread_level = MPI_THREAD_SINGLE;
  InfoPtr info;  // the hints it was made with
};

// The number of a process set: 0 for mpi://WORLD, 1 for mpi://SELF, -1 for a name that is none.
int find_process_set(std::string_view name);

// As raise(), on the session's error handler.
[[nodiscard, gnu::cold]] int raise_on(Session& session, int code, const char* function,
                                      std::string_view text = {});

}  // namespace weft::mpi
