// For weftrun --check: the ranks reduce by different operations; "right": by the same.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, sum = 0;
  const int is_right = argc > 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(&rank, &sum, 1, MPI_INT, is_right || rank == 0 ? MPI_SUM : MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
