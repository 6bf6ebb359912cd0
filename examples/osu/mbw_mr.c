// Aggregate bandwidth and message rate of several pairs at once: the first half of the ranks
// sends windows of messages to the second half, rank i to rank i + n/2.

#include <stdlib.h>

#include "osu.h"

static const Program kProgram = {.title = "Multiple Bandwidth / Message Rate Test",
                                 .min_bytes = 1,
                                 .max_bytes = 4 << 20,
                                 .has_window = true,
                                 .min_ranks = 2,
                                 .even_ranks = true};

typedef struct {
  char* buffer;
  MPI_Request* requests;
  int rank;
  int num_pairs;
  int window;
  size_t stride_bytes;  // between the buffers of a window's messages: 0 when timing
} State;

static const int kDataTag = 100;
static const int kAckTag = 101;

static double windows(void* context, size_t bytes, long iters) {
  State* s = context;
  const bool sends = s->rank < s->num_pairs;
  const int peer = sends ? s->rank + s->num_pairs : s->rank - s->num_pairs;
  char ack = 0;
  // All pairs are measured over the same span, so it begins and ends together.
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (long i = 0; i < iters; ++i) {
    for (int w = 0; w < s->window; ++w) {
      char* buffer = s->buffer + (size_t)w * s->stride_bytes;
      if (sends) {
        MPI_Isend(buffer, (int)bytes, MPI_CHAR, peer, kDataTag, MPI_COMM_WORLD, &s->requests[w]);
      } else {
        MPI_Irecv(buffer, (int)bytes, MPI_CHAR, peer, kDataTag, MPI_COMM_WORLD, &s->requests[w]);
      }
    }
    MPI_Waitall(s->window, s->requests, MPI_STATUSES_IGNORE);
    if (sends) {
      MPI_Recv(&ack, 1, MPI_CHAR, peer, kAckTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(&ack, 1, MPI_CHAR, peer, kAckTag, MPI_COMM_WORLD);
    }
  }
  double elapsed_s = MPI_Wtime() - start;
  double longest_s = 0;
  MPI_Allreduce(&elapsed_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest_s;
}

static bool check(const State* timed, size_t bytes) {
  const size_t kMostBytes = 32 << 20;
  State s = *timed;
  if (bytes > 0 && kMostBytes / bytes < (size_t)s.window) s.window = (int)(kMostBytes / bytes);
  if (s.window == 0) s.window = 1;
  s.stride_bytes = bytes;
  s.buffer = buffer_alloc(bytes * (size_t)s.window);
  const bool sends = s.rank < s.num_pairs;
  bool passed = true;
  for (unsigned i = 0; i < 3; ++i) {
    unsigned seed = i * 300 + (unsigned)(s.rank % s.num_pairs);
    for (int w = 0; w < s.window; ++w) {
      pattern_fill(s.buffer + (size_t)w * bytes, bytes, sends ? seed + (unsigned)w : 10000);
    }
    windows(&s, bytes, 1);
    for (int w = 0; !sends && w < s.window; ++w) {
      passed = passed && pattern_matches(s.buffer + (size_t)w * bytes, bytes, seed + (unsigned)w);
    }
  }
  free(s.buffer);
  return passed;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options = options_parse(argc, argv, &kProgram);
  State s = {.window = options.window, .stride_bytes = 0};
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.num_pairs);
  s.num_pairs /= 2;
  s.buffer = buffer_alloc(options.max_bytes);
  s.requests = buffer_alloc((size_t)options.window * sizeof(MPI_Request));

  print_header(&options, &kProgram, "# Size                    MB/s         Messages/s");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&s, bytes);
    long iters = settle_iters(&options, windows, &s, bytes);
    double elapsed_s = windows(&s, bytes, iters);
    double messages_per_s = (double)iters * options.window * s.num_pairs / elapsed_s;
    double values[2] = {messages_per_s * (double)bytes / 1e6, messages_per_s};
    print_row(&options, bytes, values, 2, 2, passed);
  }
  MPI_Finalize();
  return exit_status();
}
