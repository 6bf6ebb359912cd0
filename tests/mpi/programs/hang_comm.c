// Stands still: rank 1 waits for the message on another communicator than rank 0 has sent it on.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm other;
  MPI_Request request;
  int rank, value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_set_name(other, "other");
  if (rank == 0) MPI_Ssend(&value, 1, MPI_INT, 1, 7, other);
  if (rank == 1) {
    MPI_Irecv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request);
    MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
  }
  MPI_Comm_free(&other);
  return MPI_Finalize();
}
