// half_round_trip BYTES ITERATIONS: half of a ping-pong's round trip between ranks 0 and 1 in
// microseconds, as the median and the mean over the iterations, as perftest takes its t_typical and
// t_avg. The median is what can be compared on a machine that is interrupted all the time.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, bytes = argc > 1 ? atoi(argv[1]) : 8, count = argc > 2 ? atoi(argv[2]) : 1000;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* buffer = malloc((size_t)bytes + 1);
  double* times = malloc(sizeof(double) * (size_t)count);
  if (!buffer || !times || count < 1) MPI_Abort(MPI_COMM_WORLD, 2);
  memset(buffer, 1, (size_t)bytes + 1);
  const int warm_up = count / 10 + 1;
  double sum = 0;
  for (int i = -warm_up; i < count; ++i) {
    double start = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    if (i >= 0) sum += times[i] = (MPI_Wtime() - start) * 1e6 / 2;
  }
  qsort(times, (size_t)count, sizeof(double), compare);
  if (rank == 0) printf("%.2f %.2f\n", times[count / 2], sum / count);
  MPI_Finalize();
  free(times);
  free(buffer);
  return 0;
}
