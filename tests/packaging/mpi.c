// A program of MPI, in C: prints the number of ranks.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank = 0, one = 1, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks\n", sum);
  return MPI_Finalize();
}
