// Several threads of rank 0 and as many of rank 1, in pairs told apart by their tag: what they
// reach on one communicator, as it is and with the program's assertions that it uses no wildcards,
// beside what they reach on a communicator for each pair. Needs MPI_THREAD_MULTIPLE.
//
// rate: windows of messages from rank 0 to rank 1; latency: each pair plays ping-pong, half of the
// round trip is printed. The three take turns in rounds; every figure is the median of its rounds,
// and so is every ratio ("of own"), which compares the speeds in one round.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "osu.h"

static const Program kProgram = {.title = "Threads on One Communicator",
                                 .min_bytes = 8,
                                 .max_bytes = 8,
                                 .has_window = true,
                                 .has_threads = true,
                                 .min_ranks = 2};

enum { kRounds = 9, kMaxThreads = 64 };
typedef enum { kOwn, kOne, kAsserted, kNumKinds } Kind;
static const char* const kOperations[] = {"rate", "latency", NULL};
enum { kRate, kLatency };

typedef struct {
  int operation;
  int rank;
  int num_threads;  // of this rank
  int window;
  Kind kind;
  bool check;
  MPI_Comm own[kMaxThreads];
  MPI_Comm asserted;
} State;

typedef struct {
  State* state;
  pthread_t thread;
  int tag;
  MPI_Comm comm;
  char* buffer;  // `window` messages
  MPI_Request* requests;
  size_t bytes;
  long iters;
  bool passed;
} Worker;

typedef struct {
  State* state;
  Worker* workers;
} Team;

static void send_windows(Worker* w) {
  const State* s = w->state;
  char ack = 0;
  for (long i = 0; i < w->iters; ++i) {
    for (int k = 0; k < s->window; ++k) {
      char* message = w->buffer + (size_t)k * w->bytes;
      if (s->check) pattern_fill(message, w->bytes, (unsigned)(i * 64 + k + w->tag));
      MPI_Isend(message, (int)w->bytes, MPI_CHAR, 1, w->tag, w->comm, &w->requests[k]);
    }
    MPI_Waitall(s->window, w->requests, MPI_STATUSES_IGNORE);
  }
  MPI_Recv(&ack, 1, MPI_CHAR, 1, w->tag, w->comm, MPI_STATUS_IGNORE);
}

static void receive_windows(Worker* w) {
  const State* s = w->state;
  char ack = 0;
  for (long i = 0; i < w->iters; ++i) {
    for (int k = 0; k < s->window; ++k) {
      MPI_Irecv(w->buffer + (size_t)k * w->bytes, (int)w->bytes, MPI_CHAR, 0, w->tag, w->comm,
                &w->requests[k]);
    }
    MPI_Waitall(s->window, w->requests, MPI_STATUSES_IGNORE);
    for (int k = 0; s->check && k < s->window; ++k) {
      w->passed = w->passed && pattern_matches(w->buffer + (size_t)k * w->bytes, w->bytes,
                                               (unsigned)(i * 64 + k + w->tag));
    }
  }
  MPI_Send(&ack, 1, MPI_CHAR, 0, w->tag, w->comm);
}

static void ping_pong(Worker* w) {
  const State* s = w->state;
  const int peer = 1 - s->rank;
  for (long i = 0; i < w->iters; ++i) {
    const unsigned seed = (unsigned)(i + w->tag);
    if (s->rank == 0) {
      if (s->check) pattern_fill(w->buffer, w->bytes, seed);
      MPI_Send(w->buffer, (int)w->bytes, MPI_CHAR, peer, w->tag, w->comm);
      MPI_Recv(w->buffer, (int)w->bytes, MPI_CHAR, peer, w->tag, w->comm, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(w->buffer, (int)w->bytes, MPI_CHAR, peer, w->tag, w->comm, MPI_STATUS_IGNORE);
      MPI_Send(w->buffer, (int)w->bytes, MPI_CHAR, peer, w->tag, w->comm);
    }
    if (s->check) w->passed = w->passed && pattern_matches(w->buffer, w->bytes, seed);
  }
}

static void* work(void* argument) {
  Worker* w = argument;
  const State* s = w->state;
  if (s->operation == kLatency)
    ping_pong(w);
  else if (s->rank == 0)
    send_windows(w);
  else
    receive_windows(w);
  return NULL;
}

static double run(void* context, size_t bytes, long iters) {
  Team* team = context;
  State* s = team->state;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < s->num_threads; ++i) {
    Worker* w = &team->workers[i];
    w->comm = s->kind == kOwn ? s->own[i] : s->kind == kOne ? MPI_COMM_WORLD : s->asserted;
    w->bytes = bytes;
    w->iters = iters;
    if (pthread_create(&w->thread, NULL, work, w) != 0) {
      fprintf(stderr, "cannot start a thread\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  for (int i = 0; i < s->num_threads; ++i) pthread_join(team->workers[i].thread, NULL);
  double elapsed_s = MPI_Wtime() - start, longest_s = 0;
  MPI_Allreduce(&elapsed_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest_s;
}

static bool check(Team* team, size_t bytes) {
  State* s = team->state;
  bool passed = true;
  s->check = true;
  for (s->kind = kOwn; s->kind < kNumKinds; ++s->kind) {
    for (int i = 0; i < s->num_threads; ++i) team->workers[i].passed = true;
    run(team, bytes, 20);
    for (int i = 0; i < s->num_threads; ++i) passed = passed && team->workers[i].passed;
  }
  s->check = false;
  return passed;
}

// The figures of one size: of each kind, then the ratios of the last two to the first.
static void measure(Team* team, const Options* options, size_t bytes, double* values) {
  State* s = team->state;
  double figures[kNumKinds][kRounds], ratios[kNumKinds][kRounds];
  // As many iterations for all: a thread that was late in a trial would leave one kind few, in
  // which the start of the threads counts.
  long iters = 0;
  for (s->kind = kOwn; s->kind < kNumKinds; ++s->kind) {
    run(team, bytes, 100);  // connects
    const long wanted = settle_iters(options, run, team, bytes);
    if (wanted > iters) iters = wanted;
  }
  for (int round = 0; round < kRounds; ++round) {
    for (s->kind = kOwn; s->kind < kNumKinds; ++s->kind) {
      const double s_each = run(team, bytes, iters) / (double)iters;
      figures[s->kind][round] = s->operation == kLatency
                                    ? s_each * 1e6 / 2
                                    : options->receivers * s->window / s_each / 1e6;
    }
    for (int kind = kOne; kind < kNumKinds; ++kind) {
      const double ratio = figures[kind][round] / figures[kOwn][round];
      ratios[kind][round] = s->operation == kLatency ? 1 / ratio : ratio;
    }
  }
  for (int kind = kOwn; kind < kNumKinds; ++kind) values[kind] = median(figures[kind], kRounds);
  for (int kind = kOne; kind < kNumKinds; ++kind) {
    values[kNumKinds + kind - kOne] = median(ratios[kind], kRounds);
  }
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  State s = {.operation = operation_parse(&argc, argv, kOperations)};
  Options options = options_parse(argc, argv, &kProgram);
  s.window = options.window;
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  if (provided < MPI_THREAD_MULTIPLE) {
    if (s.rank == 0) fprintf(stderr, "this MPI library does not offer MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 1;
  }
  // Further ranks take part in the collectives only. -t 4 means four pairs.
  const int num_pairs = options.receivers;
  s.num_threads = s.rank < 2 ? num_pairs : 0;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Info_set(info, "mpi_assert_no_any_source", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &s.asserted);
  MPI_Info_free(&info);
  Team team = {.state = &s, .workers = calloc(kMaxThreads, sizeof(Worker))};
  for (int i = 0; i < num_pairs; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &s.own[i]);
    team.workers[i] =
        (Worker){.state = &s,
                 .tag = i,
                 .buffer = buffer_alloc(options.max_bytes * (size_t)options.window),
                 .requests = buffer_alloc((size_t)options.window * sizeof(MPI_Request))};
  }

  if (s.rank == 0) {
    printf("# %d threads a process, %s\n", num_pairs,
           s.operation == kLatency ? "half a round trip in us" : "million messages a second");
  }
  print_header(&options, &kProgram,
               "# Size            own each                one           asserted         one of own"
               "    asserted of own");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&team, bytes);
    double values[2 * kNumKinds - 1];
    measure(&team, &options, bytes, values);
    print_row(&options, bytes, values, 2 * kNumKinds - 1, 2, passed);
  }
  for (int i = 0; i < num_pairs; ++i) MPI_Comm_free(&s.own[i]);
  MPI_Comm_free(&s.asserted);
  MPI_Finalize();
  return exit_status();
}
