// Idle latency of nonblocking collectives: `idle`. Each collective is called blocking and as its
// nonblocking form followed by MPI_Wait, in alternating rounds of some hundred calls. It prints the
// medians of the rounds' means on rank 0 and their ratio: the overhead of the nonblocking form for
// a program that has nothing to overlap.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTurns = 21, kCalls = 300, kMostBytes = 65536 };

static char* in;
static char* out;
static int num_ranks;

typedef enum { kBarrier, kBcast, kAllreduce, kAllgather, kAlltoall, kKinds } Kind;
static const char* const kNames[] = {"barrier", "bcast", "allreduce", "allgather", "alltoall"};

static void call(Kind kind, int count, int is_blocking) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Request request;
  switch (kind) {
    case kBarrier:
      if (is_blocking)
        MPI_Barrier(comm);
      else
        MPI_Ibarrier(comm, &request);
      break;
    case kBcast:
      if (is_blocking)
        MPI_Bcast(in, count, MPI_FLOAT, 0, comm);
      else
        MPI_Ibcast(in, count, MPI_FLOAT, 0, comm, &request);
      break;
    case kAllreduce:
      if (is_blocking)
        MPI_Allreduce(out, in, count, MPI_FLOAT, MPI_SUM, comm);
      else
        MPI_Iallreduce(out, in, count, MPI_FLOAT, MPI_SUM, comm, &request);
      break;
    case kAllgather:
      if (is_blocking)
        MPI_Allgather(out, count, MPI_FLOAT, in, count, MPI_FLOAT, comm);
      else
        MPI_Iallgather(out, count, MPI_FLOAT, in, count, MPI_FLOAT, comm, &request);
      break;
    default:
      if (is_blocking)
        MPI_Alltoall(out, count, MPI_FLOAT, in, count, MPI_FLOAT, comm);
      else
        MPI_Ialltoall(out, count, MPI_FLOAT, in, count, MPI_FLOAT, comm, &request);
  }
  if (!is_blocking) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int rising(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  in = calloc((size_t)num_ranks, kMostBytes);
  out = calloc((size_t)num_ranks, kMostBytes);
  if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) printf("# collective  bytes  blocking (us)  nonblocking (us)  ratio\n");
  for (int kind = 0; kind < kKinds; ++kind)
    for (int bytes = 8; bytes <= kMostBytes; bytes *= kind == kBarrier ? kMostBytes : 8192) {
      double means[2][kTurns];
      for (int turn = 0; turn < kTurns; ++turn)
        for (int is_blocking = 0; is_blocking < 2; ++is_blocking) {
          for (int i = 0; i < 10; ++i) call((Kind)kind, bytes / 4, is_blocking);
          MPI_Barrier(MPI_COMM_WORLD);
          const double start = MPI_Wtime();
          for (int i = 0; i < kCalls; ++i) call((Kind)kind, bytes / 4, is_blocking);
          means[is_blocking][turn] = (MPI_Wtime() - start) / kCalls * 1e6;
        }
      for (int i = 0; i < 2; ++i) qsort(means[i], kTurns, sizeof(double), rising);
      const double blocking = means[1][kTurns / 2], nonblocking = means[0][kTurns / 2];
      if (rank == 0)
        printf("%-12s %6d %14.2f %17.2f %6.2f\n", kNames[kind], kind == kBarrier ? 0 : bytes,
               blocking, nonblocking, nonblocking / blocking);
    }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
