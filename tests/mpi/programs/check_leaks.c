// For weftrun --check: a communicator, a datatype and a request are left, and a message nobody
// receives; "right": nothing is.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, value = 0;
  const int is_right = argc > 1;
  MPI_Comm comm;
  MPI_Datatype type;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
  if (is_right) {
    if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
  }
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
