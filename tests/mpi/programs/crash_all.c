// All ranks but the first end in the same place, at once.
#include <mpi.h>
#include <stdlib.h>

// C++ knows float by this letter.
static void __attribute__((noinline)) f(int depth) {
  if (depth > 0) f(depth - 1);
  if (depth == 0) abort();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank > 0) f(3);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
