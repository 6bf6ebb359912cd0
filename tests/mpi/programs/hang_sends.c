// Stands still: two ranks send each other a message that is too long to be kept, and then receive.
#include <mpi.h>

enum { kBytes = 1 << 20 };
static char out[kBytes], in[kBytes];

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Send(out, kBytes, MPI_CHAR, 1 - rank, 3, MPI_COMM_WORLD);
  MPI_Recv(in, kBytes, MPI_CHAR, 1 - rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Finalize();
}
