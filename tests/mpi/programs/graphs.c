// Distributed graphs: random ones, with loops, and with processes that name no edge or have none,
// made by each process from its outgoing edges, from its incoming ones, by one process alone, and
// from both lists; each has the neighbours and weights that it was made of, and a collective of
// neighbours brings what each of them sent.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 8, ROUNDS = 24 };
static int rank, size, failures;
static int weights[MOST][MOST];  // of the edge from the first to the second; 0: none

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition) && failures++ < 5)                                      \
      printf("rank %d, line %d: %s is false\n", rank, __LINE__, #condition); \
  } while (0)

static void check_list(int number, const int* ranks, const int* found, int is_in) {
  int seen[MOST] = {0}, expected = 0;
  for (int i = 0; i < number; ++i) {
    CHECK(ranks[i] >= 0 && ranks[i] < size && !seen[ranks[i]]);
    seen[ranks[i]] = 1;
    CHECK(found[i] == (is_in ? weights[ranks[i]][rank] : weights[rank][ranks[i]]));
  }
  for (int i = 0; i < size; ++i) expected += (is_in ? weights[i][rank] : weights[rank][i]) != 0;
  CHECK(number == expected);
}

static void check(MPI_Comm graph) {
  int in, out, is_weighted, from[MOST], from_weights[MOST], to[MOST], to_weights[MOST], got[MOST];
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &is_weighted);
  CHECK(is_weighted && in <= size && out <= size);
  if (in > size || out > size) return;
  MPI_Dist_graph_neighbors(graph, in, from, from_weights, out, to, to_weights);
  check_list(in, from, from_weights, 1);
  check_list(out, to, to_weights, 0);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, graph);
  for (int i = 0; i < in; ++i) CHECK(got[i] == from[i]);
  MPI_Comm_free(&graph);
}

// The edges that a process names: those from rows first to last, or to columns.
static void make(int first_from, int last_from, int first_to, int last_to) {
  int sources[MOST * MOST], degrees[MOST * MOST], targets[MOST * MOST], given[MOST * MOST];
  int number = 0;
  MPI_Comm graph;
  for (int i = first_from; i < last_from; ++i)
    for (int j = first_to; j < last_to; ++j)
      if (weights[i][j] != 0) {
        sources[number] = i;
        degrees[number] = 1;
        targets[number] = j;
        given[number++] = weights[i][j];
      }
  MPI_Dist_graph_create(MPI_COMM_WORLD, number, sources, degrees, targets, given, MPI_INFO_NULL, 0,
                        &graph);
  check(graph);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (unsigned round = 0; round < ROUNDS; ++round) {
    unsigned seed = round;
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j) {
        seed = seed * 1103515245u + 12345u;
        weights[i][j] = (seed >> 16) % (1 + round % 5) == 0 ? 1 + (int)(seed >> 20) % 9 : 0;
      }
    // Every second graph has a process that has no edges.
    if (round % 2 == 1)
      for (int i = 0; i < size; ++i)
        weights[i][round / 2 % (unsigned)size] = weights[round / 2 % (unsigned)size][i] = 0;
    make(rank, rank + 1, 0, size);
    make(0, size, rank, rank + 1);
    make(0, rank == 0 ? size : 0, 0, size);
    make(0, rank == size - 1 ? size : 0, 0, size);
    int in = 0, out = 0, from[MOST], from_weights[MOST], to[MOST], to_weights[MOST];
    for (int i = 0; i < size; ++i) {
      if (weights[i][rank] != 0) from[in] = i, from_weights[in++] = weights[i][rank];
      if (weights[rank][i] != 0) to[out] = i, to_weights[out++] = weights[rank][i];
    }
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, from, from_weights, out, to, to_weights,
                                   MPI_INFO_NULL, 0, &graph);
    check(graph);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0 && failures == 0) puts("as expected");
  return failures != 0;
}
