// Does not stand still: messages so long that they take longer than ranks may wait.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int bytes = argc > 1 ? atoi(argv[1]) << 20 : 1 << 20;
  char *out = malloc(bytes), *in = malloc(bytes);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  memset(out, rank + 1, bytes);
  MPI_Sendrecv(out, bytes, MPI_CHAR, (rank + 1) % size, 7, in, bytes, MPI_CHAR,
               (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const int expected = (rank + size - 1) % size + 1;
  const int is_right = in[0] == expected && in[bytes - 1] == expected;
  MPI_Bcast(in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  free(out);
  free(in);
  MPI_Finalize();
  if (rank == 0 && is_right) printf("as expected\n");
  return !is_right;
}
