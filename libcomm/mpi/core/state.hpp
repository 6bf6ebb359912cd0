#pragma once
// The state of this process while MPI runs: its job, its engine, its thread level. Starting and
// ending the library, by MPI_Init, MPI_Finalize and sessions, writes it; all other calls read it.
// Other global state (handle tables, lists, counters, mutexes) lies in the file that uses it.
#include <sys/types.h>

#include <memory>
#include <thread>

#include "job/members.hpp"
#include "mpi/core/call.hpp"
#include "mpi/core/progress_thread.hpp"
#include "tagged/engine.hpp"

namespace weft::mpi {

// The largest tag a program may use. Internal messages use negative tags.
inline constexpr int kTagUb = 0x1fffffff;

// A global that is never destroyed, as programs call MPI from atexit handlers and other threads.
template <class T>
union Immortal {
  T value;
  Immortal() : value() {}
  ~Immortal() {}
  T* operator->() noexcept { return &value; }
  T& operator*() noexcept { return value; }
};

struct Process {
  std::unique_ptr<Members> job;
  std::unique_ptr<tagged::Engine> engine;
  std::unique_ptr<ProgressThread> progress;  // ends before the engine
  int thread_level = MPI_THREAD_SINGLE;
  std::thread::id main_thread;
  pid_t pid = 0;
  int app_number = 0;
  std::atomic<Phase> world_model{Phase::before_init};  // as MPI_Init and MPI_Finalize leave it
};

extern Immortal<Process> process;
// process->engine without the detour; null unless the library runs.
inline tagged::Engine* engine = nullptr;

// The common body of MPI_Init and MPI_Init_thread.
int start(int required, int* provided, const char* function);

// For sessions (MPI 5.0 section 11.3). enter_session() begins to use the library, at this thread
// level if it is the first user; unsupported: MPI ran and has ended for good. leave_session() ends
// the use.
Status enter_session(int thread_level);
void leave_session();

}  // namespace weft::mpi
