// The last process dies, and the first one, which is on the other side of an intercommunicator,
// learns of it in a collective there: a receive from any source that begins later reports it too.
// Run with --on-death continue.
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

#define EXPECT_LOST(call)                                      \
  do {                                                         \
    const int code_ = (call);                                  \
    int class_ = code_;                                        \
    if (code_ != MPI_SUCCESS) MPI_Error_class(code_, &class_); \
    EXPECT_EQ(class_, MPIX_ERR_PROC_FAILED);                   \
  } while (0)

enum { kTag = 3, kEnd = 4, kNever = 5 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int half = size / 2, victim = size - 1;
  MPI_Comm side, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank >= half, rank, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank >= half ? 0 : half, kTag, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == victim) {
    usleep(50000);
    raise(SIGKILL);
    pause();
  }
  int value = 0;
  EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, victim, kNever, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_LOST(MPI_Barrier(inter));
  if (rank == 0) {
    EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, kNever, inter, MPI_STATUS_IGNORE));
    // Until it is acknowledged: the next one waits for those that are left.
    EXPECT_OK(MPIX_Comm_failure_ack(inter));
    if (size > 3)
      EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, kTag, inter, MPI_STATUS_IGNORE));
    for (int i = 1; i < victim; ++i)
      EXPECT_OK(MPI_Send(&value, 1, MPI_INT, i, kEnd, MPI_COMM_WORLD));
  } else {
    if (rank == half && rank != victim) EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 0, kTag, inter));
    EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, 0, kEnd, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  return end();
}
