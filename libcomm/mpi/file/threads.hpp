#pragma once
// Threads that read and write in the background: few, made when there is work and none is free,
// ended with the library. A request that waits for one sleeps until the thread rings the process's
// doorbell.
#include <functional>

namespace weft::mpi {

// Runs the task on some other thread, soon, in no particular order. It must not throw and not call
// MPI. std::bad_alloc: the task will not run.
void run_in_background(std::function<void()> task);
// Waits until all tasks are done, and ends the threads.
void end_background();

}  // namespace weft::mpi
