// The last process dies while the others are in an allreduce, but one that only hears of it and
// then makes the call: all of them get an error, and none waits for who will not come.
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  double mine = 1, sum = 0;
  int word = 0;
  // The group is there.
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) kill(getpid(), SIGKILL);
  // A message that never comes.
  if (rank == 1 &&
      MPI_Recv(&word, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS)
    return 3;
  const int code = MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d: %s\n", rank, code == MPI_SUCCESS ? "succeeded" : "told");
  fflush(stdout);
  _exit(code == MPI_SUCCESS ? 3 : 0);
}
