// Latency of a blocking collective operation: `coll OPERATION [options]`.
//
// Each call is timed on each rank, with a barrier between calls that is not timed. The average
// over the ranks, the fastest and the slowest rank's mean are printed, and last what an iteration
// took as a whole, the call and the barrier: a library that moves its waiting from the call into
// the barrier gains nothing there. The size is what OSU's programs call the size: the whole vector
// for bcast, the reductions and reduce_scatter, one rank's block for gather, scatter, allgather and
// alltoall. Reductions sum floats.
//
// With -l the last column is the bytes that the network interface of that name took or gave in an
// iteration, by its own counters: the most of all hosts and both directions. Between its hosts no
// algorithm can move less over the busiest link than what `compare --link` divides it by.

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "osu.h"

typedef struct {
  int rank;
  int num_ranks;
  int root;
  int count;    // bytes, or floats for the reductions
  int* counts;  // reduce_scatter: floats that each rank gets
  void* send;
  void* recv;
  double timed_s;  // spent in the operation itself by the last run of timed_calls
  double whole_s;  // the same with the barriers between
} Call;

// The counters of a network interface.
typedef struct {
  double sent;
  double received;
} LinkBytes;

typedef struct {
  const char* name;
  const char* title;
  bool reduces;
  void (*run)(Call* call);
  bool (*check)(Call* call);
} Operation;

static void run_barrier(Call* c) {
  (void)c;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void run_bcast(Call* c) { MPI_Bcast(c->recv, c->count, MPI_CHAR, c->root, MPI_COMM_WORLD); }

static void run_allreduce(Call* c) {
  MPI_Allreduce(c->send, c->recv, c->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_reduce(Call* c) {
  MPI_Reduce(c->send, c->recv, c->count, MPI_FLOAT, MPI_SUM, c->root, MPI_COMM_WORLD);
}

static void run_reduce_scatter(Call* c) {
  MPI_Reduce_scatter(c->send, c->recv, c->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_allgather(Call* c) {
  MPI_Allgather(c->send, c->count, MPI_CHAR, c->recv, c->count, MPI_CHAR, MPI_COMM_WORLD);
}

static void run_alltoall(Call* c) {
  MPI_Alltoall(c->send, c->count, MPI_CHAR, c->recv, c->count, MPI_CHAR, MPI_COMM_WORLD);
}

static void run_gather(Call* c) {
  MPI_Gather(c->send, c->count, MPI_CHAR, c->recv, c->count, MPI_CHAR, c->root, MPI_COMM_WORLD);
}

static void run_scatter(Call* c) {
  MPI_Scatter(c->send, c->count, MPI_CHAR, c->recv, c->count, MPI_CHAR, c->root, MPI_COMM_WORLD);
}

// The checks fill their input, call once and compare the result. A block's pattern depends on its
// sender, its receiver and the call, so a misplaced block is detected. -1 stands for all ranks.

static unsigned block_seed(const Call* c, int from, int to) {
  return (unsigned)(from * 37 + (to + 1) * 101 + c->root * 5);
}

static void fill_block(const Call* c, void* buffer, int index, int from, int to) {
  pattern_fill((char*)buffer + (size_t)index * (size_t)c->count, (size_t)c->count,
               block_seed(c, from, to));
}

static bool block_arrived(const Call* c, int index, int from, int to) {
  return pattern_matches((char*)c->recv + (size_t)index * (size_t)c->count, (size_t)c->count,
                         block_seed(c, from, to));
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// No rank may leave a barrier before the last has entered. Processes of one host share a clock;
// between hosts this is not checked.
static bool check_barrier(Call* c) {
  MPI_Comm host;
  int on_host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &on_host);
  MPI_Comm_free(&host);
  if (on_host < c->num_ranks) return true;

  // One rank comes late, or there would be nothing to see.
  const struct timespec lateness = {.tv_nsec = 200000};
  if (c->rank == c->root) nanosleep(&lateness, NULL);
  double entered = seconds_now(), last_entered;
  MPI_Barrier(MPI_COMM_WORLD);
  double left = seconds_now(), first_left;
  MPI_Allreduce(&entered, &last_entered, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(&left, &first_left, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return first_left >= last_entered;
}

static bool check_bcast(Call* c) {
  if (c->rank == c->root) fill_block(c, c->recv, 0, c->root, -1);
  run_bcast(c);
  return block_arrived(c, 0, c->root, -1);
}

static bool check_gather(Call* c) {
  fill_block(c, c->send, 0, c->rank, c->root);
  run_gather(c);
  bool passed = true;
  for (int i = 0; c->rank == c->root && i < c->num_ranks; ++i) {
    passed = passed && block_arrived(c, i, i, c->root);
  }
  return passed;
}

static bool check_allgather(Call* c) {
  fill_block(c, c->send, 0, c->rank, -1);
  run_allgather(c);
  bool passed = true;
  for (int i = 0; i < c->num_ranks; ++i) passed = passed && block_arrived(c, i, i, -1);
  return passed;
}

static bool check_scatter(Call* c) {
  for (int i = 0; c->rank == c->root && i < c->num_ranks; ++i) {
    fill_block(c, c->send, i, c->root, i);
  }
  run_scatter(c);
  return block_arrived(c, 0, c->root, c->rank);
}

static bool check_alltoall(Call* c) {
  for (int i = 0; i < c->num_ranks; ++i) fill_block(c, c->send, i, c->rank, i);
  run_alltoall(c);
  bool passed = true;
  for (int i = 0; i < c->num_ranks; ++i) passed = passed && block_arrived(c, i, i, c->rank);
  return passed;
}

// Small whole numbers, so that the sum of floats is exact in any order.
static float summand(const Call* c, int rank, int position) {
  return (float)((position * 3 + rank * 7 + c->root) % 1000);
}

static void fill_summands(Call* c) {
  for (int i = 0; i < c->count; ++i) ((float*)c->send)[i] = summand(c, c->rank, i);
}

// True if recv holds the sums of positions first to first + num - 1.
static bool sums_arrived(const Call* c, int first, int num) {
  for (int i = 0; i < num; ++i) {
    float sum = 0;
    for (int rank = 0; rank < c->num_ranks; ++rank) sum += summand(c, rank, first + i);
    if (((float*)c->recv)[i] != sum) return false;
  }
  return true;
}

static bool check_allreduce(Call* c) {
  fill_summands(c);
  run_allreduce(c);
  return sums_arrived(c, 0, c->count);
}

static bool check_reduce(Call* c) {
  fill_summands(c);
  run_reduce(c);
  return c->rank != c->root || sums_arrived(c, 0, c->count);
}

static bool check_reduce_scatter(Call* c) {
  fill_summands(c);
  run_reduce_scatter(c);
  int first = 0;
  for (int i = 0; i < c->rank; ++i) first += c->counts[i];
  return sums_arrived(c, first, c->counts[c->rank]);
}

static const Operation kOperations[] = {
    {"barrier", "Barrier", false, run_barrier, check_barrier},
    {"bcast", "Broadcast", false, run_bcast, check_bcast},
    {"allreduce", "Allreduce", true, run_allreduce, check_allreduce},
    {"reduce", "Reduce", true, run_reduce, check_reduce},
    {"allgather", "Allgather", false, run_allgather, check_allgather},
    {"alltoall", "All-to-All", false, run_alltoall, check_alltoall},
    {"gather", "Gather", false, run_gather, check_gather},
    {"scatter", "Scatter", false, run_scatter, check_scatter},
    {"reduce_scatter", "Reduce_scatter", true, run_reduce_scatter, check_reduce_scatter},
};
enum { kNumOperations = sizeof kOperations / sizeof *kOperations };

typedef struct {
  const Operation* operation;
  Call call;
} State;

static void set_size(State* s, size_t bytes) {
  Call* c = &s->call;
  c->count = (int)(s->operation->reduces ? bytes / sizeof(float) : bytes);
  for (int i = 0; i < c->num_ranks; ++i) {
    c->counts[i] = c->count / c->num_ranks + (i < c->count % c->num_ranks);
  }
}

static bool check(State* s, size_t bytes) {
  Call* c = &s->call;
  set_size(s, bytes);
  bool passed = true;
  for (c->root = 0; c->root < c->num_ranks; ++c->root) {
    memset(c->recv, 0x7f, bytes);  // what an earlier call left must not count as this one's
    passed = s->operation->check(c) && passed;
  }
  c->root = 0;
  return passed;
}

static double timed_calls(void* context, size_t bytes, long iters) {
  State* s = context;
  set_size(s, bytes);
  double begin = MPI_Wtime(), timed_s = 0;
  for (long i = 0; i < iters; ++i) {
    double start = MPI_Wtime();
    s->operation->run(&s->call);
    timed_s += MPI_Wtime() - start;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  s->call.timed_s = timed_s;
  s->call.whole_s = MPI_Wtime() - begin;
  return s->call.whole_s;
}

// Barriers need no barrier between them: the calls follow each other at once.
static double timed_barriers(void* context, size_t bytes, long iters) {
  State* s = context;
  (void)bytes;
  double start = MPI_Wtime();
  for (long i = 0; i < iters; ++i) MPI_Barrier(MPI_COMM_WORLD);
  s->call.timed_s = s->call.whole_s = MPI_Wtime() - start;
  return s->call.whole_s;
}

static double link_counter(const char* link, const char* counter) {
  char path[256];
  snprintf(path, sizeof path, "/sys/class/net/%s/statistics/%s_bytes", link, counter);
  FILE* file = fopen(path, "r");
  double bytes;
  if (file == NULL || fscanf(file, "%lf", &bytes) != 1) {
    fprintf(stderr, "cannot read %s\n", path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  fclose(file);
  return bytes;
}

static LinkBytes link_bytes(const char* link) {
  if (link == NULL) return (LinkBytes){0, 0};
  return (LinkBytes){link_counter(link, "tx"), link_counter(link, "rx")};
}

// The greater of the two directions.
static double busier(LinkBytes before, LinkBytes after) {
  double sent = after.sent - before.sent, received = after.received - before.received;
  return sent > received ? sent : received;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  State s = {.call = {.root = 0}};
  MPI_Comm_rank(MPI_COMM_WORLD, &s.call.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.call.num_ranks);
  const char* names[kNumOperations + 1] = {NULL};
  for (int i = 0; i < kNumOperations; ++i) names[i] = kOperations[i].name;
  s.operation = &kOperations[operation_parse(&argc, argv, names)];

  const bool is_barrier = s.operation->run == run_barrier;
  char title[64];
  snprintf(title, sizeof title, "%s Latency Test", s.operation->title);
  const Program program = {.title = title,
                           .min_bytes = s.operation->reduces ? sizeof(float) : 1,
                           .max_bytes = 1 << 20,
                           .has_link = true,
                           .min_ranks = 1};
  Options options = options_parse(argc, argv, &program);
  if (is_barrier) options.min_bytes = options.max_bytes = 0;
  if (s.operation->reduces && options.min_bytes < sizeof(float)) options.min_bytes = sizeof(float);
  s.call.counts = buffer_alloc((size_t)s.call.num_ranks * sizeof(int));
  s.call.send = buffer_alloc(options.max_bytes * (size_t)s.call.num_ranks);
  s.call.recv = buffer_alloc(options.max_bytes * (size_t)s.call.num_ranks);
  Loop loop = is_barrier ? timed_barriers : timed_calls;

  const char* columns =
      "# Size        Avg Latency(us)    Min Latency(us)    Max Latency(us)      Iteration(us)"
      "        Link(bytes)";
  char header[128];
  const int num_values = options.link != NULL ? 5 : 4;
  snprintf(header, sizeof header, "%.*s", 10 + num_values * 19, columns);
  print_header(&options, &program, header);
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    bool passed = !options.validate || check(&s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    long iters = settle_iters(&options, loop, &s, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const LinkBytes before = link_bytes(options.link);
    loop(&s, bytes, iters);
    double link = busier(before, link_bytes(options.link)) / (double)iters;
    double mine_us = s.call.timed_s * 1e6 / (double)iters;
    double whole_us = s.call.whole_s * 1e6 / (double)iters;
    double values[5] = {0, 0, 0, 0, 0};
    MPI_Reduce(&mine_us, &values[0], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine_us, &values[1], 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine_us, &values[2], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&whole_us, &values[3], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&link, &values[4], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    values[0] /= s.call.num_ranks;
    values[3] /= s.call.num_ranks;
    print_row(&options, bytes, values, num_values, 2, passed);
    if (is_barrier) break;
  }
  free(s.call.counts);
  free(s.call.send);
  free(s.call.recv);
  MPI_Finalize();
  return exit_status();
}
