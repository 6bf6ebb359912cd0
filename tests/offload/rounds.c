// MPI_Allreduce of so many bytes again and again, and nothing else: what passes a link can be
// counted. Arguments: ROUNDS BYTES.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) return 2;
  const int rounds = atoi(argv[1]), count = atoi(argv[2]) / 8;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int64_t* mine = malloc((size_t)count * 8);
  int64_t* sums = malloc((size_t)count * 8);
  if (mine == NULL || sums == NULL) return 2;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) mine[i] = i + rank + round;
    MPI_Allreduce(mine, sums, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      if (sums[i] == (int64_t)size * (i + round) + (int64_t)size * (size - 1) / 2) continue;
      fprintf(stderr, "rank %d: round %d: element %d is wrong\n", rank, round, i);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  free(mine);
  free(sums);
  MPI_Finalize();
  if (rank == 0) printf("as expected\n");
  return 0;
}
