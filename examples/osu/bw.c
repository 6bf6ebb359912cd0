// Bandwidth from rank 0 to rank 1: windows of non-blocking sends, each window answered by one
// short message.
// Built with -DBIDIRECTIONAL (bibw.c does so) both ranks send at once.

#include <stdlib.h>

#include "osu.h"

#ifdef BIDIRECTIONAL
static const bool kBothWays = true;
static const char* const kTitle = "Bi-Directional Bandwidth Test";
#else
static const bool kBothWays = false;
static const char* const kTitle = "Bandwidth Test";
#endif

typedef struct {
  char* send;
  char* recv;
  MPI_Request* requests;  // 2 * window
  int rank;
  int window;
  size_t stride_bytes;  // between the buffers of a window's messages: 0 when timing
} State;

static const int kDataTag = 100;
static const int kAckTag = 101;

static void post_sends(State* s, size_t bytes, int peer, MPI_Request* requests) {
  for (int w = 0; w < s->window; ++w) {
    MPI_Isend(s->send + (size_t)w * s->stride_bytes, (int)bytes, MPI_CHAR, peer, kDataTag,
              MPI_COMM_WORLD, &requests[w]);
  }
}

static void post_receives(State* s, size_t bytes, int peer, MPI_Request* requests) {
  for (int w = 0; w < s->window; ++w) {
    MPI_Irecv(s->recv + (size_t)w * s->stride_bytes, (int)bytes, MPI_CHAR, peer, kDataTag,
              MPI_COMM_WORLD, &requests[w]);
  }
}

static double windows(void* context, size_t bytes, long iters) {
  State* s = context;
  if (s->rank > 1) return 0;
  const int peer = 1 - s->rank;
  char ack = 0;
  double start = MPI_Wtime();
  for (long i = 0; i < iters; ++i) {
    MPI_Request* next = s->requests;
    if (s->rank == 1 || kBothWays) {
      post_receives(s, bytes, peer, next);
      next += s->window;
    }
    if (s->rank == 0 || kBothWays) {
      post_sends(s, bytes, peer, next);
      next += s->window;
    }
    MPI_Waitall((int)(next - s->requests), s->requests, MPI_STATUSES_IGNORE);
    if (s->rank == 0) {
      MPI_Recv(&ack, 1, MPI_CHAR, peer, kAckTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(&ack, 1, MPI_CHAR, peer, kAckTag, MPI_COMM_WORLD);
    }
  }
  return MPI_Wtime() - start;
}

// Sends windows whose messages have a buffer and a pattern each.
static bool check(const State* timed, size_t bytes) {
  const size_t kMostBytes = 32 << 20;
  State s = *timed;
  if (bytes > 0 && kMostBytes / bytes < (size_t)s.window) s.window = (int)(kMostBytes / bytes);
  if (s.window == 0) s.window = 1;
  s.stride_bytes = bytes;
  s.send = buffer_alloc(bytes * (size_t)s.window);
  s.recv = buffer_alloc(bytes * (size_t)s.window);
  bool passed = true;
  for (unsigned i = 0; s.rank < 2 && i < 3; ++i) {
    for (int w = 0; w < s.window; ++w) {
      pattern_fill(s.send + (size_t)w * bytes, bytes, i * 200 + (unsigned)(w + s.rank));
      pattern_fill(s.recv + (size_t)w * bytes, bytes, 1000);
    }
    windows(&s, bytes, 1);
    for (int w = 0; (s.rank == 1 || kBothWays) && w < s.window; ++w) {
      passed = passed && pattern_matches(s.recv + (size_t)w * bytes, bytes,
                                         i * 200 + (unsigned)(w + 1 - s.rank));
    }
  }
  free(s.send);
  free(s.recv);
  return passed;
}

int main(int argc, char** argv) {
  const Program program = {
      .title = kTitle, .min_bytes = 1, .max_bytes = 4 << 20, .has_window = true, .min_ranks = 2};
  MPI_Init(&argc, &argv);
  Options options = options_parse(argc, argv, &program);
  State s = {.window = options.window, .stride_bytes = 0};
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  s.send = buffer_alloc(options.max_bytes);
  s.recv = buffer_alloc(options.max_bytes);
  s.requests = buffer_alloc(2 * (size_t)options.window * sizeof(MPI_Request));

  print_header(&options, &program, "# Size         Bandwidth(MB/s)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    long iters = settle_iters(&options, windows, &s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double elapsed_s = windows(&s, bytes, iters);
    double moved = (double)bytes * (double)iters * options.window * (kBothWays ? 2 : 1);
    double megabytes_per_s = s.rank == 0 ? moved / elapsed_s / 1e6 : 0;
    print_row(&options, bytes, &megabytes_per_s, 1, 2, passed);
  }
  MPI_Finalize();
  return exit_status();
}
