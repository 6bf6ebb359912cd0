// One-sided operations: `win OPERATION [options]`.
//
// put, get, acc (sum of 64-bit integers), fop (fetch and add) and cas (compare and swap) are
// latencies: rank 0 does the operation on rank 1's memory and flushes it, in one epoch of
// MPI_Win_lock_all. put_bw and get_bw flush after a window of operations (-W). fence, post (post,
// start, complete, wait in a ring) and lock (an exclusive lock of rank 1 by rank 0) are times of
// the synchronisation alone. The window's memory is from MPI_Win_allocate. While rank 0 is timed
// the others wait in a barrier.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "osu.h"

typedef struct {
  int rank;
  int num_ranks;
  int window;
  MPI_Win win;
  char* memory;  // of the window
  char* buffer;
  MPI_Group before, behind;  // in the ring
} State;

typedef struct {
  const char* name;
  const char* title;
  size_t unit;        // sizes are multiples; 0: there are no sizes
  size_t most;        // 0: any size
  bool flushes;       // within lock_all; false: an epoch of its own
  bool is_bandwidth;  // in MB/s
  bool is_shared;     // all ranks take part
  void (*run)(State* s, int count);
} Operation;

static void run_put(State* s, int count) {
  MPI_Put(s->buffer, count, MPI_CHAR, 1, 0, count, MPI_CHAR, s->win);
}
static void run_get(State* s, int count) {
  MPI_Get(s->buffer, count, MPI_CHAR, 1, 0, count, MPI_CHAR, s->win);
}
static void run_acc(State* s, int count) {
  MPI_Accumulate(s->buffer, count / 8, MPI_LONG_LONG, 1, 0, count / 8, MPI_LONG_LONG, MPI_SUM,
                 s->win);
}
static void run_fop(State* s, int count) {
  (void)count;
  MPI_Fetch_and_op(s->buffer, s->buffer + 64, MPI_LONG_LONG, 1, 0, MPI_SUM, s->win);
}
static void run_cas(State* s, int count) {
  (void)count;
  MPI_Compare_and_swap(s->buffer, s->buffer + 64, s->buffer + 128, MPI_LONG_LONG, 1, 0, s->win);
}
static void run_fence(State* s, int count) {
  (void)count;
  MPI_Win_fence(0, s->win);
}
static void run_post(State* s, int count) {
  (void)count;
  MPI_Win_post(s->before, 0, s->win);
  MPI_Win_start(s->behind, 0, s->win);
  MPI_Win_complete(s->win);
  MPI_Win_wait(s->win);
}
static void run_lock(State* s, int count) {
  (void)count;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, s->win);
  MPI_Win_unlock(1, s->win);
}

static const Operation kOperations[] = {
    {"put", "Put Latency", 1, 0, true, false, false, run_put},
    {"get", "Get Latency", 1, 0, true, false, false, run_get},
    {"acc", "Accumulate Latency", 8, 0, true, false, false, run_acc},
    {"fop", "Fetch_and_op Latency", 8, 8, true, false, false, run_fop},
    {"cas", "Compare_and_swap Latency", 8, 8, true, false, false, run_cas},
    {"put_bw", "Put Bandwidth", 1, 0, true, true, false, run_put},
    {"get_bw", "Get Bandwidth", 1, 0, true, true, false, run_get},
    {"fence", "Fence Latency", 0, 0, false, false, true, run_fence},
    {"post", "Post-Start-Complete-Wait Latency", 0, 0, false, false, true, run_post},
    {"lock", "Lock-Unlock Latency", 0, 0, false, false, false, run_lock},
};
enum { kNumOperations = sizeof kOperations / sizeof *kOperations };

typedef struct {
  const Operation* operation;
  State state;
} Run;

static double timed(void* context, size_t bytes, long iters) {
  Run* run = context;
  State* s = &run->state;
  const Operation* operation = run->operation;
  const int per_flush = operation->is_bandwidth ? s->window : 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (operation->flushes) MPI_Win_lock_all(0, s->win);
  const double start = MPI_Wtime();
  for (long i = 0; (operation->is_shared || s->rank == 0) && i < iters; ++i) {
    for (int k = 0; k < per_flush; ++k) operation->run(s, (int)bytes);
    if (operation->flushes) MPI_Win_flush(1, s->win);
  }
  const double taken = MPI_Wtime() - start;
  if (operation->flushes) MPI_Win_unlock_all(s->win);
  MPI_Barrier(MPI_COMM_WORLD);
  return taken;
}

// Room that the buffers have for a message of so many bytes: the operations without sizes use a
// word.
static size_t room_for(size_t bytes) { return bytes > 256 ? bytes : 256; }

// Checks data: puts are compared at the target, gets with the target's memory; atomics are counted.
static bool check(Run* run, size_t bytes) {
  State* s = &run->state;
  const Operation* operation = run->operation;
  long long* word = (long long*)s->memory;
  bool passed = true;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, s->rank, 0, s->win);
  pattern_fill(s->memory, bytes, 7);
  if (operation->unit == 8) memset(s->memory, 0, bytes);
  MPI_Win_unlock(s->rank, s->win);
  pattern_fill(s->buffer, room_for(bytes), 9);
  if (operation->unit == 8) memset(s->buffer, 0, room_for(bytes));
  if (operation->unit == 8) *(long long*)s->buffer = 3;
  timed(run, bytes, 1);
  MPI_Win_lock(MPI_LOCK_SHARED, s->rank, 0, s->win);
  if (operation->run == run_get && s->rank == 0) passed = pattern_matches(s->buffer, bytes, 7);
  if (operation->run == run_put && s->rank == 1) passed = pattern_matches(s->memory, bytes, 9);
  if (operation->unit == 8 && s->rank == 1) passed = *word == 3;
  MPI_Win_unlock(s->rank, s->win);
  memset(s->buffer, 0, room_for(bytes));
  return passed;
}

static MPI_Group group_of(int rank) {
  MPI_Group world, made;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &rank, &made);
  MPI_Group_free(&world);
  return made;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Run run = {.state = {.rank = 0}};
  State* s = &run.state;
  MPI_Comm_rank(MPI_COMM_WORLD, &s->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s->num_ranks);
  const char* names[kNumOperations + 1] = {NULL};
  for (int i = 0; i < kNumOperations; ++i) names[i] = kOperations[i].name;
  const Operation* operation = run.operation = &kOperations[operation_parse(&argc, argv, names)];

  char title[64];
  snprintf(title, sizeof title, "%s Test", operation->title);
  const Program program = {.title = title,
                           .min_bytes = operation->unit,
                           .max_bytes = operation->most != 0 ? operation->most : 4 << 20,
                           .has_window = operation->is_bandwidth,
                           .min_ranks = 2};
  Options options = options_parse(argc, argv, &program);
  if (operation->unit == 0) options.min_bytes = options.max_bytes = 0;
  if (operation->most != 0) options.min_bytes = options.max_bytes = operation->most;
  if (options.min_bytes < operation->unit) options.min_bytes = operation->unit;
  s->window = options.window;
  const size_t room = room_for(options.max_bytes);
  s->buffer = buffer_alloc(room);
  MPI_Win_allocate((MPI_Aint)room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &s->memory, &s->win);
  memset(s->memory, 0, room);
  s->before = group_of((s->rank + s->num_ranks - 1) % s->num_ranks);
  s->behind = group_of((s->rank + 1) % s->num_ranks);
  if (operation->run == run_fence) MPI_Win_fence(0, s->win);

  print_header(
      &options, &program,
      operation->is_bandwidth ? "# Size      Bandwidth (MB/s)" : "# Size        Avg Latency(us)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    const bool passed = !options.validate || check(&run, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const long iters = settle_iters(&options, timed, &run, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = timed(&run, bytes, iters);
    const double moved = (double)bytes * (double)iters * s->window;
    const double value =
        operation->is_bandwidth ? moved / seconds * 1e-6 : seconds * 1e6 / (double)iters;
    print_row(&options, bytes, &value, 1, 3, passed);
    if (operation->unit == 0) break;
  }
  if (operation->run == run_fence) MPI_Win_fence(MPI_MODE_NOSUCCEED, s->win);
  MPI_Group_free(&s->before);
  MPI_Group_free(&s->behind);
  MPI_Win_free(&s->win);
  MPI_Finalize();
  return exit_status();
}
