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
    // A request that is known to be complete may be freed.
    if (rank == 1) {
      MPI_Request receive;
      int is_here = 0;
      MPI_Irecv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &receive);
      while (!is_here) MPI_Request_get_status(receive, &is_here, MPI_STATUS_IGNORE);
      MPI_Request_free(&receive);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
  }
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
