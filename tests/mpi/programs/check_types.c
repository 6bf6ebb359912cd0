// For weftrun --check: rank 1 receives doubles where rank 0 has sent integers; "right": the same
// type.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, numbers[2] = {1, 2};
  double reals[2];
  const int is_right = argc > 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Request request;
  if (rank == 0) MPI_Send(numbers, 2, MPI_INT, 1, 7, MPI_COMM_WORLD);
  if (rank == 1) {
    if (is_right)
      MPI_Irecv(numbers, 2, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request);
    else
      MPI_Irecv(reals, 2, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
