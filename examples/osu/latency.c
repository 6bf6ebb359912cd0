// Latency of blocking ping-pong between ranks 0 and 1: half of a round trip, per size.

#include <stdlib.h>

#include "osu.h"

static const Program kProgram = {.title = "Latency Test",
                                 .min_bytes = 1,
                                 .max_bytes = 4 << 20,
                                 .has_median = true,
                                 .min_ranks = 2};

typedef struct {
  void* send;
  void* recv;
  int rank;
} State;

static double ping_pong(void* context, size_t bytes, long iters) {
  State* s = context;
  double start = MPI_Wtime();
  if (s->rank == 0) {
    for (long i = 0; i < iters; ++i) {
      MPI_Send(s->send, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(s->recv, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (s->rank == 1) {
    for (long i = 0; i < iters; ++i) {
      MPI_Recv(s->recv, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(s->send, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
  }
  return MPI_Wtime() - start;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// What half of most round trips takes, in us, as perftest's t_typical: interruptions do not count.
static double median_us(State* s, size_t bytes, long iters) {
  double* times = buffer_alloc((size_t)iters * sizeof *times);
  for (long i = 0; i < iters; ++i) times[i] = ping_pong(s, bytes, 1);
  qsort(times, (size_t)iters, sizeof *times, by_value);
  const double result = times[iters / 2] * 1e6 / 2;
  free(times);
  return result;
}

// Every message of this pass carries another pattern, so stale data cannot pass for new.
static bool check(State* s, size_t bytes) {
  bool passed = true;
  for (unsigned i = 0; s->rank < 2 && i < 20; ++i) {
    pattern_fill(s->send, bytes, 2 * i + (unsigned)s->rank);
    pattern_fill(s->recv, bytes, 1000);
    ping_pong(s, bytes, 1);
    passed = passed && pattern_matches(s->recv, bytes, 2 * i + (unsigned)(1 - s->rank));
  }
  return passed;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options = options_parse(argc, argv, &kProgram);
  State s;
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  s.send = buffer_alloc(options.max_bytes);
  s.recv = buffer_alloc(options.max_bytes);

  print_header(&options, &kProgram, "# Size        Avg Latency(us)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    long iters = settle_iters(&options, ping_pong, &s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double latency_us = options.median ? median_us(&s, bytes, iters)
                                       : ping_pong(&s, bytes, iters) * 1e6 / (2.0 * (double)iters);
    print_row(&options, bytes, &latency_us, 1, 3, passed);
  }
  MPI_Finalize();
  return exit_status();
}
