// Reductions and other calls that no switch computes, each twice, on two communicators: results are
// right, and the log has a line for each reason and communicator.
#include <complex.h>
#include <mpi.h>
#include <stdio.h>

static void most_of(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  const int* a = in;
  int* b = inout;
  for (int i = 0; i < *count; ++i)
    if (a[i] > b[i]) b[i] = a[i];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Op most;
  MPI_Op_create(most_of, 1, &most);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int wrong = 0;
  for (int round = 0; round < 4; ++round) {
    const MPI_Comm one = round % 2 == 0 ? MPI_COMM_WORLD : comm;
    const int mine = 3 * rank + round;
    int largest;
    MPI_Allreduce(&mine, &largest, 1, MPI_INT, most, one);
    wrong |= largest != 3 * (size - 1) + round;
    const long double long_mine = rank + 0.5L;
    long double long_sum;
    MPI_Request request;
    MPI_Iallreduce(&long_mine, &long_sum, 1, MPI_LONG_DOUBLE, MPI_SUM, one, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    wrong |= long_sum != size * (size - 1) / 2 + 0.5L * size;
    const double complex turn = I;
    double complex product, expected = 1;
    MPI_Allreduce(&turn, &product, 1, MPI_C_DOUBLE_COMPLEX, MPI_PROD, one);
    for (int i = 0; i < size; ++i) expected *= I;
    wrong |= product != expected;
    double complex sum;
    MPI_Allreduce(&turn, &sum, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, one);
    wrong |= sum != size * I;
    int all[64], counts[64], places[64], back = -1;
    if (size > 64) return 2;
    for (int i = 0; i < size; ++i) counts[i] = 1, places[i] = i, all[i] = -1;
    MPI_Allgatherv(&rank, 1, MPI_INT, all, counts, places, MPI_INT, one);
    for (int i = 0; i < size; ++i) wrong |= all[i] != i;
    MPI_Scatter(all, 1, MPI_INT, &back, 1, MPI_INT, 0, one);
    wrong |= back != rank;
    for (int i = 0; i < size; ++i) all[i] = -1;
    MPI_Gather(&back, 1, MPI_INT, all, 1, MPI_INT, 0, one);
    for (int i = 0; i < size && rank == 0; ++i) wrong |= all[i] != i;
  }
  MPI_Op_free(&most);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  if (wrong) fprintf(stderr, "rank %d: a result is wrong\n", rank);
  if (rank == 0 && !wrong) printf("as expected\n");
  return wrong;
}
