// ends HOW: programs that end in other ways than by returning 0 from main after MPI_Finalize.
//   abort CODE   rank 1 calls MPI_Abort      exit CODE   the last rank returns this after Finalize
//   fatal        a wrong argument under the default error handler
//   early        rank 0 exits with 0 without MPI_Finalize
//   late         the others take a while longer than rank 0, which finalizes first
//   noinit       an MPI call before MPI_Init
//   output       every rank prints numbered lines on both streams
#include <time.h>
#include <unistd.h>

#include "expect.h"

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  int code = argc > 2 ? atoi(argv[2]) : 0, value = 0;
  if (strcmp(how, "noinit") == 0) {
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    return 0;
  }
  begin(&argc, &argv);
  if (strcmp(how, "abort") == 0) {
    if (rank == (size > 1)) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Recv(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // for ever
  } else if (strcmp(how, "fatal") == 0) {
    if (rank == size - 1) MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(how, "early") == 0) {
    if (rank == 0) exit(0);
    MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (strcmp(how, "late") == 0) {
    struct timespec half = {0, 500000000};  // the time is what is tested
    if (rank > 0) nanosleep(&half, NULL);
  } else if (strcmp(how, "output") == 0) {
    for (int i = 0; i < 1000; ++i) {
      printf("line %d of rank %d\n", i, rank);
      if (i < 10) fprintf(stderr, "error %d of rank %d\n", i, rank);
    }
    fflush(stdout);
  }
  int status = end();
  if (strcmp(how, "exit") == 0 && rank == size - 1) return code;
  return status;
}
