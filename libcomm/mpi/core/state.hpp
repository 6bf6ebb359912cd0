#pragma once
// The process's place in the job while MPI runs. All global state of Weft is in this folder, and
// this is the root of it. Written by MPI_Init and MPI_Finalize, read by everyone in between.
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

// A global that is never destroyed: programs call MPI from atexit handlers and other threads.
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
// The engine without the detour; null unless MPI runs.
inline tagged::Engine* engine = nullptr;

// What MPI_Init_thread does, in one place for its two callers.
int start(int required, int* provided, const char* function);

// For sessions (MPI 5.0 chapter 11.3). Each begins to use the library, at least at this thread
// level if it is the first user, and ends. An error: MPI ran and has ended for good.
Status enter_session(int thread_level);
void leave_session();

}  // namespace weft::mpi
