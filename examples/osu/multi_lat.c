// Latency of several pairs at once: rank i plays ping-pong with rank i + n/2, and half of the
// round trip is averaged over the pairs.

#include "osu.h"

static const Program kProgram = {.title = "Multi Latency Test",
                                 .min_bytes = 1,
                                 .max_bytes = 4 << 20,
                                 .min_ranks = 2,
                                 .even_ranks = true};

typedef struct {
  void* send;
  void* recv;
  int peer;
  bool begins;
} State;

static double ping_pong(void* context, size_t bytes, long iters) {
  State* s = context;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (long i = 0; i < iters; ++i) {
    if (s->begins) {
      MPI_Send(s->send, (int)bytes, MPI_CHAR, s->peer, 1, MPI_COMM_WORLD);
      MPI_Recv(s->recv, (int)bytes, MPI_CHAR, s->peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(s->recv, (int)bytes, MPI_CHAR, s->peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(s->send, (int)bytes, MPI_CHAR, s->peer, 1, MPI_COMM_WORLD);
    }
  }
  return MPI_Wtime() - start;
}

static bool check(State* s, size_t bytes, int rank) {
  bool passed = true;
  for (unsigned i = 0; i < 10; ++i) {
    pattern_fill(s->send, bytes, 50 * i + (unsigned)rank);
    pattern_fill(s->recv, bytes, 10000);
    ping_pong(s, bytes, 1);
    passed = passed && pattern_matches(s->recv, bytes, 50 * i + (unsigned)s->peer);
  }
  return passed;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options = options_parse(argc, argv, &kProgram);
  int rank, num_ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  State s;
  s.begins = rank < num_ranks / 2;
  s.peer = s.begins ? rank + num_ranks / 2 : rank - num_ranks / 2;
  s.send = buffer_alloc(options.max_bytes);
  s.recv = buffer_alloc(options.max_bytes);

  print_header(&options, &kProgram, "# Size        Avg Latency(us)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&s, bytes, rank);
    long iters = settle_iters(&options, ping_pong, &s, bytes);
    double latency_us = ping_pong(&s, bytes, iters) * 1e6 / (2.0 * (double)iters);
    double sum_us = 0;
    MPI_Reduce(&latency_us, &sum_us, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    double average_us = sum_us / num_ranks;
    print_row(&options, bytes, &average_us, 1, 3, passed);
  }
  MPI_Finalize();
  return exit_status();
}
