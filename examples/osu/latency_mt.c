// Latency with threads: sender threads of rank 0 send and wait for an answer, receiver threads of
// rank 1 answer; any receiver may take any message. Needs MPI_THREAD_MULTIPLE.
//
// Half of the round trip is printed, averaged over all messages of all senders.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "osu.h"

static const Program kProgram = {.title = "Multi-threaded Latency Test",
                                 .min_bytes = 1,
                                 .max_bytes = 4 << 20,
                                 .has_threads = true,
                                 .min_ranks = 2};

enum { kRequestTag = 1, kAnswerTag = 2 };

typedef struct {
  int rank;
  int num_threads;  // of this rank: senders on rank 0, receivers on rank 1
  int num_senders;
  int num_receivers;
  bool check;
} State;

typedef struct {
  State* state;
  pthread_t thread;
  void* send;
  void* recv;
  size_t bytes;
  long num_messages;
  bool passed;
} Worker;

// The messages of a checking pass all carry one pattern per size and direction, because any
// thread may take any of them.
static void* work(void* argument) {
  Worker* w = argument;
  const State* s = w->state;
  const int peer = 1 - s->rank;
  for (long i = 0; i < w->num_messages; ++i) {
    if (s->check) pattern_fill(w->recv, w->bytes, 1000);
    if (s->rank == 0) {
      MPI_Send(w->send, (int)w->bytes, MPI_CHAR, peer, kRequestTag, MPI_COMM_WORLD);
      MPI_Recv(w->recv, (int)w->bytes, MPI_CHAR, peer, kAnswerTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(w->recv, (int)w->bytes, MPI_CHAR, peer, kRequestTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      MPI_Send(w->send, (int)w->bytes, MPI_CHAR, peer, kAnswerTag, MPI_COMM_WORLD);
    }
    if (s->check) {
      w->passed = w->passed && pattern_matches(w->recv, w->bytes, (unsigned)peer + 1);
    }
  }
  return NULL;
}

typedef struct {
  State* state;
  Worker* workers;
} Team;

// `iters` counts messages; it is rounded up to a multiple of both thread counts, so that every
// thread has the same share.
static long rounded_messages(const State* s, long iters) {
  const long group = (long)s->num_senders * s->num_receivers;
  return (iters + group - 1) / group * group;
}

static double exchange(void* context, size_t bytes, long iters) {
  Team* team = context;
  State* s = team->state;
  const long num_messages = rounded_messages(s, iters);
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < s->num_threads; ++i) {
    Worker* w = &team->workers[i];
    w->bytes = bytes;
    w->num_messages = num_messages / s->num_threads;
    if (pthread_create(&w->thread, NULL, work, w) != 0) {
      fprintf(stderr, "cannot start a thread\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  for (int i = 0; i < s->num_threads; ++i) pthread_join(team->workers[i].thread, NULL);
  return MPI_Wtime() - start;
}

static bool check(Team* team, size_t bytes) {
  State* s = team->state;
  for (int i = 0; i < s->num_threads; ++i) {
    pattern_fill(team->workers[i].send, bytes, (unsigned)s->rank + 1);
    team->workers[i].passed = true;
  }
  s->check = true;
  exchange(team, bytes, 20);
  s->check = false;
  bool passed = true;
  for (int i = 0; i < s->num_threads; ++i) passed = passed && team->workers[i].passed;
  return passed;
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  Options options = options_parse(argc, argv, &kProgram);
  State s = {.num_senders = options.senders, .num_receivers = options.receivers};
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  if (provided < MPI_THREAD_MULTIPLE) {
    if (s.rank == 0) fprintf(stderr, "this MPI library does not offer MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 1;
  }
  // Further ranks take part in the barriers only.
  s.num_threads = s.rank == 0 ? options.senders : s.rank == 1 ? options.receivers : 0;
  Team team = {.state = &s, .workers = calloc(64, sizeof(Worker))};
  for (int i = 0; i < s.num_threads; ++i) {
    team.workers[i] = (Worker){.state = &s,
                               .send = buffer_alloc(options.max_bytes),
                               .recv = buffer_alloc(options.max_bytes)};
  }

  if (s.rank == 0) {
    printf("# Number of Sender threads: %d\n# Number of Receiver threads: %d\n", options.senders,
           options.receivers);
  }
  print_header(&options, &kProgram, "# Size        Avg Latency(us)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&team, bytes);
    long iters = rounded_messages(&s, settle_iters(&options, exchange, &team, bytes));
    double elapsed_s = exchange(&team, bytes, iters);
    double latency_us = elapsed_s * 1e6 * options.senders / (2.0 * (double)iters);
    print_row(&options, bytes, &latency_us, 1, 3, passed);
  }
  MPI_Finalize();
  return exit_status();
}
