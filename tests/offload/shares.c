// One collective again and again: what all gather, or parts of sums. Arguments: allgather,
// reduce_scatter, bcast or reduce, ROUNDS, and the BYTES of the whole vector.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) return 2;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = atoi(argv[2]), part = atoi(argv[3]) / 8 / size, count = part * size;
  int64_t* mine = malloc((size_t)count * 8 + 8);
  int64_t* got = malloc((size_t)count * 8 + 8);
  if (mine == NULL || got == NULL) return 2;
  const int root = size - 1;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) mine[i] = i + rank + round;
    int wrong = 0;
    if (strcmp(argv[1], "allgather") == 0) {
      MPI_Allgather(mine, part, MPI_INT64_T, got, part, MPI_INT64_T, MPI_COMM_WORLD);
      for (int i = 0; i < count; ++i) wrong |= got[i] != i % part + i / part + round;
    } else if (strcmp(argv[1], "reduce_scatter") == 0) {
      MPI_Reduce_scatter_block(mine, got, part, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
      for (int i = 0; i < part; ++i)
        wrong |= got[i] != (int64_t)size * (rank * part + i + round) + size * (size - 1) / 2;
    } else if (strcmp(argv[1], "bcast") == 0) {
      MPI_Bcast(mine, count, MPI_INT64_T, root, MPI_COMM_WORLD);
      for (int i = 0; i < count; ++i) wrong |= mine[i] != i + root + round;
    } else {
      MPI_Reduce(mine, got, count, MPI_INT64_T, MPI_MAX, root, MPI_COMM_WORLD);
      for (int i = 0; i < count && rank == root; ++i) wrong |= got[i] != i + size - 1 + round;
    }
    if (!wrong) continue;
    fprintf(stderr, "rank %d: round %d: %s is wrong\n", rank, round, argv[1]);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  free(mine);
  free(got);
  MPI_Finalize();
  if (rank == 0) printf("as expected\n");
  return 0;
}
