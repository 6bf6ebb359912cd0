// MPI_Init and MPI_Finalize: starting and ending the library, for the world model and for sessions.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <new>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/core/blocked.hpp"
#include "mpi/core/request.hpp"
#include "mpi/dynamic/dynamic.hpp"
#include "mpi/dynamic/name_server.hpp"
#include "mpi/file/file.hpp"
#include "mpi/ft/control.hpp"
#include "mpi/p2p/transfer.hpp"
#include "mpi/tools/tools.hpp"
#include "mpi/window/window.hpp"

extern char** environ;

namespace weft::mpi {

Immortal<Process> process;

namespace {

std::mutex start_mutex;

[[noreturn]] void fail_start(const Status& status) {
  end_job(MPI_ERR_OTHER, fmt::format("MPI_Init failed: {}", status.text()));
}

void open_job() {
  Settings settings;
  if (Status status = Settings::from_environment(environ, settings); !status) fail_start(status);
  tools::apply_settings(settings);
  for (const auto& [name, level] :
       {std::pair("error", LogLevel::error), std::pair("warn", LogLevel::warn),
        std::pair("info", LogLevel::info), std::pair("debug", LogLevel::debug)})
    if (settings.text(Setting::log) == name) log::set_level(level);
  if (Status status = Members::open(settings, process->job); !status) fail_start(status);
  process->app_number = process->job->board().app_number();
  if (Status status = tagged::Engine::create(*process->job, process->engine); !status)
    fail_start(status);
  engine = process->engine.get();
  tools::attach(*engine);
}

}  // namespace

namespace {

// The number of sessions that have not ended; guarded by start_mutex.
int num_sessions = 0;
// True once there has been a session: the library then keeps its state until the process exits, as
// another session may come.
bool has_had_sessions = false;

// Starts the library, with this thread level if nothing of it runs yet.
void enter(int thread_level) {
  if (engine == nullptr) {
    open_job();
    process->thread_level = thread_level;
    process->main_thread = std::this_thread::get_id();
    process->pid = getpid();
    const bool has_thread = process->job->settings().text(Setting::progress) == "thread";
    threads_may_call = thread_level == MPI_THREAD_MULTIPLE || has_thread;
    engine->set_threaded(multi_threaded());
    create_predefined_comms();
    engine->set_wait_observer(&note_long_wait);
    create_shared_requests();
    if (has_thread) {
      if (Status status = ProgressThread::start(process->progress); !status) fail_start(status);
      progress_thread = process->progress.get();
    }
  }
  phase = Phase::running;
}

// True while the process exits: nothing uses the library afterwards.
bool is_exiting = false;

bool is_forked() { return getpid() != process->pid; }

// Ends the library for good.
void end_library() {
  wait_for_buffers();
  progress_thread = nullptr;
  process->progress.reset();
  // Use messages: a process that gets this barrier's end from a switch could leave before one to
  // which it has to pass it on.
  job_comm->team->close_offload();
  // No process leaves while others may still need it to move their messages. If a process is lost,
  // those that live meet all the same.
  if (Status status = coll::barrier(*job_comm->team); !status) {
    log_line(LogLevel::info, engine->rank(), "MPI_Finalize: {}", status.text());
    if (const Code met = or_no_memory([] { ft::meet(*job_comm); }); met != Code::ok)
      log_line(LogLevel::warn, engine->rank(), "MPI_Finalize: {}", code_name(met));
  }
  destroy_files();
  destroy_windows();
  destroy_ports();
  leave_name_server();
  if (Status status = engine->close(); !status)
    log_line(LogLevel::warn, engine->rank(), "MPI_Finalize: {}", status.text());
  phase = Phase::finalized;
  destroy_requests();
  destroy_comms();
  clear_groups();
  tools::detach();
  engine = nullptr;
  process->engine.reset();
  if (Status status = or_no_memory([] { return process->job->board().close(); }); !status)
    log_line(LogLevel::warn, process->job->rank(), "MPI_Finalize: {}", status.text());
  process->job.reset();
}

// Ends one user of the library (the world model or a session), which `end` records.
template <class End>
void leave(End&& end) {
  for (bool is_flushed = false;;) {
    std::unique_lock lock(start_mutex);
    const int num_users = num_sessions + (process->world_model == Phase::running ? 1 : 0);
    const bool is_last = num_users == 1, stays = has_had_sessions && !is_exiting;
    if (is_last && stays && !is_flushed && !is_forked()) {
      // No messages move until the next session. The lock is released, as that session may begin
      // meanwhile.
      lock.unlock();
      wait_for_buffers();
      if (Status status = engine->flush(); !status)
        log_line(LogLevel::warn, engine->rank(), "the last session: {}", status.text());
      is_flushed = true;
      continue;
    }
    end();
    if (!is_last) return;
    if (is_forked())
      phase = Phase::finalized;  // a forked child is no rank
    else if (stays)
      phase = process->world_model.load();
    else
      end_library();
    return;
  }
}

void end_at_exit(int status, void*) {
  std::lock_guard lock(start_mutex);
  is_exiting = true;
  // The launcher must notice a process that fails, or that has not ended in order what it began.
  if (status != 0 || engine == nullptr || is_running() || is_forked()) return;
  end_library();
}

}  // namespace

int start(int required, int* provided, const char* function) try {
  std::lock_guard lock(start_mutex);
  if (process->world_model == Phase::running)
    return raise(nullptr, MPI_ERR_OTHER, function, "MPI is initialised already");
  if (engine == nullptr && phase == Phase::finalized) return not_running(function);
  if (process->world_model == Phase::finalized) {
    if (!is_running()) return not_running(function);
    return raise(nullptr, MPI_ERR_OTHER, function, "MPI_Finalize was called already");
  }
  enter(required >= MPI_THREAD_MULTIPLE     ? MPI_THREAD_MULTIPLE
        : required >= MPI_THREAD_SERIALIZED ? MPI_THREAD_SERIALIZED
        : required >= MPI_THREAD_FUNNELED   ? MPI_THREAD_FUNNELED
                                            : MPI_THREAD_SINGLE);
  process->main_thread = std::this_thread::get_id();
  world_comm = job_comm;
  self_comm = own_comm;
  process->world_model = Phase::running;
  if (Status status = meet_parent(); !status)
    end_job(MPI_ERR_SPAWN,
            fmt::format("{}: cannot meet the processes that have spawned this job: {}", function,
                        status.text()));
  if (provided != nullptr) *provided = process->thread_level;
  return MPI_SUCCESS;
} catch (const std::bad_alloc&) {
  fail_start(Code::no_memory);
}

Status enter_session(int thread_level) try {
  std::lock_guard lock(start_mutex);
  if (engine == nullptr && phase == Phase::finalized)
    return {
        Code::unsupported,
        "MPI has ended for good; a program that wants sessions after MPI_Finalize makes its first "
        "one before"};
  // on_exit() passes the exit status, which atexit() does not.
  if (!has_had_sessions && ::on_exit(end_at_exit, nullptr) != 0) return Code::no_memory;
  has_had_sessions = true;
  enter(thread_level);
  ++num_sessions;
  return {};
} catch (const std::bad_alloc&) {
  fail_start(Code::no_memory);
}

void leave_session() {
  leave([] { --num_sessions; });
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Init)(int*, char***) { return start(MPI_THREAD_SINGLE, nullptr, __func__); }

MPI_FUNCTION(Init_thread)(int*, char***, int required, int* provided) {
  return start(required, provided, __func__);
}

MPI_FUNCTION(Initialized)(int* flag) {
  if (flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "flag is null");
  *flag = process->world_model != Phase::before_init;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Finalized)(int* flag) {
  if (flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "flag is null");
  *flag = process->world_model == Phase::finalized;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Query_thread)(int* provided) {
  MPI_MUST_RUN();
  if (provided == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "provided is null");
  *provided = process->thread_level;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Is_thread_main)(int* flag) {
  MPI_MUST_RUN();
  if (flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "flag is null");
  *flag = std::this_thread::get_id() == process->main_thread;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Finalize)(void) {
  MPI_MUST_RUN();
  if (process->world_model != Phase::running)
    return raise(nullptr, MPI_ERR_OTHER, __func__,
                 "MPI_Init was not called, or MPI_Finalize was already");
  // A forked child is no rank, and must not leave the job in its parent's name.
  if (is_forked()) {
    phase = process->world_model = Phase::finalized;
    return MPI_SUCCESS;
  }
  // Delete the attributes of MPI_COMM_SELF first, while everything still works: libraries attach
  // their own cleanup to them.
  const int code = self_comm->attributes.clear(MPI_COMM_SELF);
  if (code != MPI_SUCCESS) return raise(self_comm, code, __func__);
  const int world_code = world_comm->attributes.clear(MPI_COMM_WORLD);
  if (world_code != MPI_SUCCESS) return raise(world_comm, world_code, __func__);
  for (const void* owner : {static_cast<Comm*>(nullptr), self_comm, world_comm}) drop_buffer(owner);
  leave([] {
    // Sessions may go on; they do not depend on what the program attached to these communicators.
    for (Comm* comm : {self_comm, world_comm}) {
      const std::lock_guard lock(comm->mutex);
      release(std::exchange(comm->errhandler, initial_errhandler()));
    }
    world_comm = nullptr;
    self_comm = nullptr;
    process->world_model = Phase::finalized;
  });
  return MPI_SUCCESS;
}

MPI_FUNCTION(Abort)(MPI_Comm comm, int errorcode) {
  if (process->job == nullptr) return not_running(__func__);
  const int low = errorcode & 0xff;
  const int exit_code = low != 0 ? low : 1;
  // The whole job ends whatever the communicator is; the standard allows it.
  const Comm* object = find_comm(comm);
  std::string message = "MPI_Abort";
  (void)or_no_memory([&] {
    message =
        fmt::format("MPI_Abort{} with error code {}",
                    object == nullptr || object->name.empty() ? std::string()
                                                              : fmt::format(" on {}", object->name),
                    errorcode);
  });
  end_job(exit_code, message);
}
