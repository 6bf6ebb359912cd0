#pragma once
// Threads that read and write in the background: few, made when there is work and none is free,
// gone with the library. A request that waits for one sleeps until that rings the process's
// doorbell.
#include <functional>

namespace weft::mpi {

// Does this on some other thread, soon, in no particular order. It must not throw and not call MPI.
// std::bad_alloc: it will not be done.
void run_in_background(std::function<void()> task);
// Waits until all is done, and ends the threads.
void end_background();

}  // namespace weft::mpi
