// bcast BYTES... [-i ITERATIONS] [-T MS]: times MPI_Bcast as mcast_bench times groups: from the
// root's call until the last rank has the data (median of at least so many, which take at least so
// long together), by the machine's clock, which all ranks share.
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
  const int most = 100000;
  int rank, size, iterations = 5, i;
  double least_us = 300e3;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (i = 1; i + 1 < argc; ++i)
    if (strcmp(argv[i], "-i") == 0)
      iterations = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "-T") == 0)
      least_us = atof(argv[i + 1]) * 1e3;
  for (i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') {
      ++i;
      continue;
    }
    const long bytes = atol(argv[i]);
    char* data = malloc((size_t)bytes + 1);
    double* times = malloc(sizeof(double) * (size_t)most);
    double spent = 0; /* the same at all ranks */
    int turn;
    memset(data, 0, (size_t)bytes + 1);
    for (turn = -1; turn < most && (turn < iterations || spent < least_us); ++turn) {
      double began, ended, took;
      char* last = &data[bytes > 0 ? bytes - 1 : 0];
      *last = (char)(rank == 0 ? turn % 100 + 2 : 0);
      MPI_Barrier(MPI_COMM_WORLD);
      began = now_us();
      MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      ended = now_us();
      if (bytes > 0 && *last != turn % 100 + 2) MPI_Abort(MPI_COMM_WORLD, 1);
      if (rank == 0) ended = 0;
      MPI_Bcast(&began, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
      MPI_Allreduce(&ended, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      took -= began;
      if (turn < 0) continue;
      spent += took;
      times[turn] = took;
    }
    if (rank == 0) {
      qsort(times, (size_t)turn, sizeof(double), compare);
      printf("%-14s %3d %11ld %9s %12.1f us %9.1f MB/s\n", "MPI_Bcast", size, bytes, "",
             times[turn / 2], (double)bytes / times[turn / 2]);
      fflush(stdout);
    }
    free(times);
    free(data);
  }
  MPI_Finalize();
  return 0;
}
