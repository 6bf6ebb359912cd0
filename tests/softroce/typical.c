// typical: the median time of one way between two processes, and the bandwidth of one-way messages,
// as perftest prints them, so that the two can be compared in one run (see speed).
//
//   typical lat BYTES COUNT        microseconds one way, median
//   typical bw BYTES COUNT         MiB/s, a window of 16 messages in flight
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWindow = 16 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void latency(int rank, char* data, int bytes, int count) {
  double* times = malloc(sizeof(double) * (size_t)count);
  for (int i = -count / 10; i < count; ++i) {
    const double start = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    if (i >= 0) times[i] = (MPI_Wtime() - start) / 2;
  }
  qsort(times, (size_t)count, sizeof *times, by_value);
  if (rank == 0) printf("%d %.2f\n", bytes, times[count / 2] * 1e6);
  free(times);
}

static void bandwidth(int rank, char* data, int bytes, int count) {
  MPI_Request requests[kWindow];
  double start = 0;
  const int rounds = (count + kWindow - 1) / kWindow;
  for (int round = -1; round < rounds; ++round) {
    if (round == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    for (int i = 0; i < kWindow; ++i) {
      char* place = data + (size_t)i * (size_t)bytes;
      if (rank == 0)
        MPI_Isend(place, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
      else
        MPI_Irecv(place, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - start;
  if (rank == 0) printf("%d %.2f\n", bytes, (double)bytes * kWindow * rounds / seconds / 1048576);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int bytes = argc > 3 ? atoi(argv[2]) : -1, count = argc > 3 ? atoi(argv[3]) : 0;
  if (size != 2 || bytes < 0 || bytes > (1 << 24) || count < 1) {
    if (rank == 0) fprintf(stderr, "typical lat|bw BYTES COUNT, with two processes\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  char* data = malloc((size_t)bytes * kWindow + 1);
  memset(data, 1, (size_t)bytes * kWindow + 1);
  if (strcmp(argv[1], "bw") == 0)
    bandwidth(rank, data, bytes, count);
  else
    latency(rank, data, bytes, count);
  MPI_Finalize();
  free(data);
  return 0;
}
