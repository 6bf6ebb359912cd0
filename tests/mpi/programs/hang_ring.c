// Stands still: each rank waits for a message of the next one.
#include <mpi.h>

static void shift(MPI_Comm ring, int* value) {
  int rank, size;
  MPI_Comm_rank(ring, &rank);
  MPI_Comm_size(ring, &size);
  MPI_Recv(value, 1, MPI_INT, (rank + 1) % size, 7, ring, MPI_STATUS_IGNORE);
  MPI_Send(value, 1, MPI_INT, (rank + size - 1) % size, 7, ring);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm ring;
  int value = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &ring);
  MPI_Comm_set_name(ring, "ring");
  shift(ring, &value);
  MPI_Comm_free(&ring);
  return MPI_Finalize();
}
