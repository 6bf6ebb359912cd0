// bcast BYTES... [-i ITERATIONS]: times MPI_Bcast as mcast_bench times groups: from the root's call
// until the last rank has the data (median), by the machine's clock, which all ranks share.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}
static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank, size, iterations = 5, i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (i = 1; i + 1 < argc; ++i)
    if (strcmp(argv[i], "-i") == 0) iterations = atoi(argv[i + 1]);
  for (i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-i") == 0) {
      ++i;
      continue;
    }
    const long bytes = atol(argv[i]);
    char* data = malloc((size_t)bytes + 1);
    double* times = malloc(sizeof(double) * (size_t)iterations);
    int turn;
    for (turn = -1; turn < iterations; ++turn) {
      double began, ended, last;
      memset(data, rank == 0 ? turn + 2 : 0, (size_t)bytes + 1);
      MPI_Barrier(MPI_COMM_WORLD);
      began = now_us();
      MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      ended = now_us();
      if (bytes > 0 && data[bytes - 1] != turn + 2) MPI_Abort(MPI_COMM_WORLD, 1);
      if (rank == 0) ended = 0;
      MPI_Reduce(&ended, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (rank == 0 && turn >= 0) times[turn] = last - began;
    }
    if (rank == 0) {
      qsort(times, (size_t)iterations, sizeof(double), compare);
      printf("%-14s %3d %11ld %9s %12.1f us %9.1f MB/s\n", "MPI_Bcast", size, bytes, "",
             times[iterations / 2], (double)bytes / times[iterations / 2]);
      fflush(stdout);
    }
    free(times);
    free(data);
  }
  MPI_Finalize();
  return 0;
}
