#pragma once
// Errors: the mapping from codes of Weft to error classes of MPI, the names of the classes, and the
// handlers that programs attach to communicators. errors.cpp alone ends the process.
#include <atomic>
#include <string>
#include <string_view>

#include "mpi/core/call.hpp"
#include "mpi/core/handle_table.hpp"
#include "weft/status.hpp"

namespace weft::mpi {

struct ErrorHandler {
  enum class Action { fatal, abort, give_back, call };
  Action action;
  Kind object;               // what it may be attached to: comm, win, file or session
  void (*function)();        // the program's function, for Action::call
  std::atomic<int> uses{1};  // by the program and by communicators
  MPI_Errhandler handle;
  // How often the program got the handle and has not freed it. At zero the handle finds nothing
  // until MPI_Comm_get_errhandler gives it out once more.
  std::atomic<int> given{1};
};

// Returns the handler behind a handle, or null. Predefined handlers fit every kind of object.
ErrorHandler* find_errhandler(MPI_Errhandler handle);
ErrorHandler* default_errhandler();
// That of MPI_COMM_WORLD, MPI_COMM_SELF and the parent's intercommunicator at first, and of errors
// without a communicator while there is none (MPI 5.0, 9.3.1): WEFT_INITIAL_ERRHANDLER. A wrong
// value is reported by MPI_Init.
ErrorHandler* initial_errhandler();
// The predefined handler with a name as MPI_INFO_ENV has it ("mpi_errors_return"); null: none.
ErrorHandler* find_errhandler(std::string_view name);
std::string_view name_of(const ErrorHandler* predefined);
ErrorHandler* retain(ErrorHandler* handler);
// Returns the handler's handle to the program, which is to free it.
MPI_Errhandler give(ErrorHandler* handler);
void release(ErrorHandler* handler);
MPI_Errhandler make_errhandler(Kind object, void (*function)());

// Returns the error class of a code of Weft.
int error_class_of_failure(Code code) noexcept;
inline int error_class(Code code) noexcept {
  return code == Code::ok ? MPI_SUCCESS : error_class_of_failure(code);
}
// The same for an operation on a communicator (null: none): what a revocation has ended is lost.
int error_class_of_failure(Code code, const Comm* comm) noexcept;
inline int error_class(Code code, const Comm* comm) noexcept {
  return code == Code::ok ? MPI_SUCCESS : error_class_of_failure(code, comm);
}

// Called before a loss is reported: handles what has come from other processes, as the communicator
// may be revoked.
[[gnu::cold]] void hear_of_revocations();

// Raises the status that an operation of Weft ended with; ok gives MPI_SUCCESS.
[[gnu::cold]] int raise_status(Comm* comm, const Status& status, const char* function);

// Runs a handler as MPI_*_call_errhandler does; returns the code if the handler returns.
int call_errhandler(Comm* comm, ErrorHandler* handler, int code, const char* function,
                    std::string_view text);

// Ends the job: writes one line to standard error, notifies the launcher, and exits the process.
[[noreturn]] void end_job(int exit_code, const std::string& message);

// The highest code in use; the value of MPI_LASTUSEDCODE.
int last_used_code();
std::string error_text(int code);

}  // namespace weft::mpi
