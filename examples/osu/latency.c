// Latency of blocking ping-pong between ranks 0 and 1: half of a round trip, per size. With -D the
// data are every other block of 8 bytes, as one MPI_Type_vector.

#include <stdlib.h>
#include <string.h>

#include "osu.h"

static const Program kProgram = {.title = "Latency Test",
                                 .min_bytes = 1,
                                 .max_bytes = 4 << 20,
                                 .has_median = true,
                                 .has_vector = true,
                                 .min_ranks = 2};

typedef struct {
  void* send;
  void* recv;
  int rank;
  MPI_Datatype type;  // of the data, of which there are so many
  int count;
} State;

enum { kBlockBytes = 8, kStride = 2, kBefore = 1000 };

static void set_size(State* s, const Options* options, size_t bytes) {
  s->type = MPI_CHAR;
  s->count = (int)bytes;
  if (!options->vector) return;
  MPI_Type_vector((int)(bytes / kBlockBytes), kBlockBytes, kStride * kBlockBytes, MPI_CHAR,
                  &s->type);
  MPI_Type_commit(&s->type);
  s->count = 1;
}

static double ping_pong(void* context, size_t bytes, long iters) {
  State* s = context;
  (void)bytes;
  double start = MPI_Wtime();
  if (s->rank == 0) {
    for (long i = 0; i < iters; ++i) {
      MPI_Send(s->send, s->count, s->type, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(s->recv, s->count, s->type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (s->rank == 1) {
    for (long i = 0; i < iters; ++i) {
      MPI_Recv(s->recv, s->count, s->type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(s->send, s->count, s->type, 0, 1, MPI_COMM_WORLD);
    }
  }
  return MPI_Wtime() - start;
}

// The median of half the round trip, in us, as perftest's t_typical: interruptions do not count.
static double median_us(State* s, size_t bytes, long iters) {
  double* times = buffer_alloc((size_t)iters * sizeof *times);
  for (long i = 0; i < iters; ++i) times[i] = ping_pong(s, bytes, 1);
  const double result = median(times, iters) * 1e6 / 2;
  free(times);
  return result;
}

static bool arrived(const State* s, size_t bytes, unsigned seed) {
  if (s->type == MPI_CHAR) return pattern_matches(s->recv, bytes, seed);
  // The gaps between the blocks must keep their old pattern.
  unsigned char* expected = buffer_alloc(kStride * bytes);
  unsigned char* before = buffer_alloc(kStride * bytes);
  pattern_fill(expected, kStride * bytes, seed);
  pattern_fill(before, kStride * bytes, kBefore);
  for (size_t i = kBlockBytes; i < kStride * bytes; i += kStride * kBlockBytes) {
    memcpy(expected + i, before + i, kBlockBytes);
  }
  const bool same = memcmp(s->recv, expected, kStride * bytes) == 0;
  free(expected);
  free(before);
  return same;
}

// Every message of this pass carries another pattern, so stale data cannot pass for new.
static bool check(State* s, size_t bytes) {
  const size_t extent = s->type == MPI_CHAR ? bytes : kStride * bytes;
  bool passed = true;
  for (unsigned i = 0; s->rank < 2 && i < 20; ++i) {
    pattern_fill(s->send, extent, 2 * i + (unsigned)s->rank);
    pattern_fill(s->recv, extent, kBefore);
    ping_pong(s, bytes, 1);
    passed = passed && arrived(s, bytes, 2 * i + (unsigned)(1 - s->rank));
  }
  return passed;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options = options_parse(argc, argv, &kProgram);
  State s;
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  if (options.vector && options.min_bytes < kBlockBytes) options.min_bytes = kBlockBytes;
  const size_t extent = (options.vector ? kStride : 1) * options.max_bytes;
  s.send = buffer_alloc(extent);
  s.recv = buffer_alloc(extent);

  print_header(&options, &kProgram, "# Size        Avg Latency(us)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    set_size(&s, &options, bytes);
    bool passed = !options.validate || check(&s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    long iters = settle_iters(&options, ping_pong, &s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double latency_us = options.median ? median_us(&s, bytes, iters)
                                       : ping_pong(&s, bytes, iters) * 1e6 / (2.0 * (double)iters);
    print_row(&options, bytes, &latency_us, 1, 3, passed);
    if (options.vector) MPI_Type_free(&s.type);
  }
  MPI_Finalize();
  return exit_status();
}
