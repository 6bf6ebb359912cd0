// Persistent collectives take counts, displacements and types when they are made: the arrays are
// overwritten before each start.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8 };
static int rank, size, failures;
static int counts[MOST], places[MOST], bytes[MOST], sent[MOST], received[MOST];
static MPI_Datatype types[MOST];

// One element for each process, in reverse order of the ranks.
static void set(void) {
  for (int i = 0; i < size; ++i) {
    counts[i] = 1;
    places[i] = size - 1 - i;
    bytes[i] = places[i] * (int)sizeof(int);
    types[i] = MPI_INT;
    sent[i] = 100 * rank + size - 1 - i;
    received[i] = -1;
  }
}

static void run(MPI_Request request, const char* name, int number, int mine, int others) {
  memset(counts, 0x7f, sizeof counts);
  memset(places, 0x7f, sizeof places);
  memset(bytes, 0x7f, sizeof bytes);
  memset(types, 0x7f, sizeof types);
  for (int turn = 0; turn < 2; ++turn) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  // From each process its `others` times its rank, plus mine.
  for (int i = 0; i < number; ++i)
    if (received[size - 1 - i] != others * i + mine && failures++ < 5)
      printf("rank %d: %s: %d from rank %d\n", rank, name, received[size - 1 - i], i);
  set();
}

int main(int argc, char** argv) {
  MPI_Request request;
  MPI_Comm ring;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const MPI_Info none = MPI_INFO_NULL;
  set();
  MPI_Gatherv_init(&rank, 1, MPI_INT, received, counts, places, MPI_INT, size - 1, comm, none,
                   &request);
  run(request, "gatherv", rank == size - 1 ? size : 0, 0, 1);
  MPI_Allgatherv_init(&rank, 1, MPI_INT, received, counts, places, MPI_INT, comm, none, &request);
  run(request, "allgatherv", size, 0, 1);
  MPI_Alltoallv_init(sent, counts, places, MPI_INT, received, counts, places, MPI_INT, comm, none,
                     &request);
  run(request, "alltoallv", size, rank, 100);
  MPI_Alltoallw_init(sent, counts, bytes, types, received, counts, bytes, types, comm, none,
                     &request);
  run(request, "alltoallw", size, rank, 100);
  MPI_Scatterv_init(sent, counts, places, MPI_INT, &received[size - 1], 1, MPI_INT, 0, comm, none,
                    &request);
  run(request, "scatterv", 1, rank, 0);
  MPI_Reduce_scatter_init(sent, &received[size - 1], counts, MPI_INT, MPI_MIN, comm, none,
                          &request);
  run(request, "reduce_scatter", 1, size - 1 - rank, 0);
  int all[MOST], weights[MOST];
  for (int i = 0; i < size; ++i) all[i] = i, weights[i] = 1;
  MPI_Dist_graph_create_adjacent(comm, size, all, weights, size, all, weights, none, 0, &ring);
  MPI_Neighbor_allgatherv_init(&rank, 1, MPI_INT, received, counts, places, MPI_INT, ring, none,
                               &request);
  run(request, "neighbor_allgatherv", size, 0, 1);
  MPI_Neighbor_alltoallv_init(sent, counts, places, MPI_INT, received, counts, places, MPI_INT,
                              ring, none, &request);
  run(request, "neighbor_alltoallv", size, rank, 100);
  MPI_Aint from[MOST];
  for (int i = 0; i < size; ++i) from[i] = bytes[i];
  MPI_Neighbor_alltoallw_init(sent, counts, from, types, received, counts, from, types, ring, none,
                              &request);
  memset(from, 0x7f, sizeof from);
  run(request, "neighbor_alltoallw", size, rank, 100);
  MPI_Comm_free(&ring);
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, comm);
  MPI_Finalize();
  if (rank == 0 && failures == 0) puts("as expected");
  return failures != 0;
}
