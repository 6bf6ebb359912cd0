// window_threads THREADS ROUNDS: several threads use one window at the same time, in an epoch that
// they share and in locks of their own.
#include <pthread.h>

#include "expect.h"

static int num_threads, num_rounds;
static MPI_Win shared;       // all threads, one epoch
static MPI_Win* own_window;  // one each
static long long* memory;
static int bad;

static void note(int is_bad) { __atomic_fetch_or(&bad, is_bad, __ATOMIC_RELAXED); }

// Word 0 is counted up by all; from 1 on every thread of every process has one at each target.
static void* use_shared(void* argument) {
  const int me = (int)(intptr_t)argument;
  const long long one = 1;
  for (int i = 0; i < num_rounds; ++i) {
    const int target = (rank + i + me) % size;
    long long before = 0, got = -1;
    const long long value = i * 1000LL + me;
    const MPI_Aint place = 1 + (MPI_Aint)rank * num_threads + me;
    MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, 0, 0, MPI_SUM, shared);
    MPI_Put(&value, 1, MPI_LONG_LONG, target, place, 1, MPI_LONG_LONG, shared);
    MPI_Win_flush(target, shared);
    MPI_Request request;
    MPI_Rget(&got, 1, MPI_LONG_LONG, target, place, 1, MPI_LONG_LONG, shared, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    note(got != value);
  }
  return NULL;
}

static void* use_own(void* argument) {
  const int me = (int)(intptr_t)argument;
  MPI_Win win = own_window[me];
  for (int i = 0; i < num_rounds; ++i) {
    const int target = (rank + i) % size;
    long long value = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Get(&value, 1, MPI_LONG_LONG, target, 0, 1, MPI_LONG_LONG, win);
    MPI_Win_flush(target, win);
    ++value;
    MPI_Put(&value, 1, MPI_LONG_LONG, target, 0, 1, MPI_LONG_LONG, win);
    MPI_Win_unlock(target, win);
  }
  return NULL;
}

// Whole vectors and single elements of them; every thread adds one to each element a round.
enum { kElements = 256 };
static void* use_many(void* argument) {
  const int me = (int)(intptr_t)argument;
  long long ones[kElements], before = 0;
  for (int i = 0; i < kElements; ++i) ones[i] = 1;
  for (int i = 0; i < num_rounds; ++i) {
    if ((i + me) % 2 == 0)
      MPI_Accumulate(ones, kElements, MPI_LONG_LONG, 0, 0, kElements, MPI_LONG_LONG, MPI_SUM,
                     shared);
    else
      for (int k = 0; k < kElements; ++k)
        MPI_Fetch_and_op(ones, &before, MPI_LONG_LONG, 0, k, MPI_SUM, shared);
  }
  MPI_Win_flush(0, shared);
  return NULL;
}

static void run(void* (*work)(void*)) {
  pthread_t threads[16];
  for (int i = 0; i < num_threads; ++i) pthread_create(&threads[i], NULL, work, (void*)(intptr_t)i);
  for (int i = 0; i < num_threads; ++i) pthread_join(threads[i], NULL);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
  num_threads = argc > 1 ? atoi(argv[1]) : 3;
  num_rounds = argc > 2 ? atoi(argv[2]) : 100;
  const MPI_Aint words = 1 + (MPI_Aint)size * num_threads;
  MPI_Win_allocate(words * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &shared);
  MPI_Win_lock_all(0, shared);
  run(use_shared);
  MPI_Win_unlock_all(shared);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) EXPECT_EQ(memory[0], (long long)size * num_threads * num_rounds);
  EXPECT(!bad);
  EXPECT_OK(MPI_Win_free(&shared));

  MPI_Win_allocate(kElements * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &shared);
  MPI_Win_lock_all(0, shared);
  run(use_many);
  MPI_Win_unlock_all(shared);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < kElements; ++i)
    EXPECT_EQ(memory[i], (long long)size * num_threads * num_rounds);
  EXPECT_OK(MPI_Win_free(&shared));

  own_window = allocate(sizeof(MPI_Win) * (size_t)num_threads);
  long long** counters = allocate(sizeof(long long*) * (size_t)num_threads);
  for (int i = 0; i < num_threads; ++i)
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &counters[i], &own_window[i]);
  run(use_own);
  long long sum = 0, all = 0;
  for (int i = 0; i < num_threads; ++i) sum += *counters[i];
  MPI_Allreduce(&sum, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all, (long long)size * num_threads * num_rounds);
  for (int i = 0; i < num_threads; ++i) EXPECT_OK(MPI_Win_free(&own_window[i]));
  free(own_window);
  free(counters);
  return end();
}
