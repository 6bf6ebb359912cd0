// For weftrun --check: both ranks send before they receive, which only ends because the messages
// are small; "right": one receives first.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, sent = 1, received = 0;
  const int is_right = argc > 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 || !is_right) {
    MPI_Send(&sent, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD);
    MPI_Recv(&received, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(&received, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&sent, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
