// Ranks write where no memory is: crash_segv [FIRST [NUMBER]].
#include <mpi.h>
#include <stdlib.h>

static int* volatile target;

__attribute__((noinline)) static void write_it(int value) { *target = value; }

__attribute__((noinline)) static void solve(int depth) {
  if (depth > 0) solve(depth - 1);
  write_it(depth);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int first = argc > 1 ? atoi(argv[1]) : 1;
  const int num = argc > 2 ? atoi(argv[2]) : 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank >= first && rank < first + num) solve(3);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
