// A sleeping process is woken by what it waits for. Over Weft its sleeps end by themselves only
// after a long while here, so that a wake that is missed shows as a test that does not end:
//   waits background   collectives in the background, with a late process, and beside a probe
//   waits threads      one thread waits for messages while another one sends
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

// Takes the place of the C library's for the library under test. A sleep of less than a millisecond
// is meant to end by itself: where the kernel lacks membarrier.
long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "syscall");
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(arguments, long);
  va_end(arguments);
  const struct timespec a_minute = {60, 0};
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && a[3] != 0) {
    const struct timespec* limit = (const struct timespec*)a[3];
    if (limit->tv_sec > 0 || limit->tv_nsec >= 1000000) a[3] = (long)&a_minute;
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void think(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static void late(int rounds) {
  uint64_t random = 1;
  for (int i = 0; i < rounds; ++i) {
    const long us = 300 + (long)(next_random(&random) % 1500);
    if (rank == i % size) think(us);
    MPI_Request requests[2];
    int mine = rank + i, sum = -1, all[64];
    EXPECT_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    EXPECT_OK(MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &requests[1]));
    EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_EQ(sum, size * (size - 1) / 2 + size * i);
    for (int r = 0; r < size; ++r) EXPECT_EQ(all[r], r + i);
  }
}

// Rank 0 probes for a message that is sent once the collective is complete, which needs rank 0.
static void beside_probe(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    MPI_Request request;
    int mine = rank, sum = -1, message = -1;
    EXPECT_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    if (rank == 0) {
      EXPECT_OK(MPI_Probe(size - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      EXPECT_OK(MPI_Recv(&message, 1, MPI_INT, size - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      EXPECT_EQ(message, i);
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      if (rank == size - 1) think(200 + i % 7 * 100);
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      if (rank == size - 1) EXPECT_OK(MPI_Send(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
    }
    EXPECT_EQ(sum, size * (size - 1) / 2);
  }
}

enum { kPing = 1, kStream = 2, kLast = -1 };

static atomic_int over;

static void* stream(void* unused) {
  (void)unused;
  long i = 0;
  while (!atomic_load(&over)) {
    EXPECT_OK(MPI_Send(&i, 1, MPI_LONG, size - 1, kStream, MPI_COMM_WORLD));
    ++i;
  }
  const long last = kLast;
  EXPECT_OK(MPI_Send(&last, 1, MPI_LONG, size - 1, kStream, MPI_COMM_WORLD));
  return NULL;
}

// Rank 0 waits for answers of rank 1 that take their time, while its other thread sends to the last
// rank without a pause.
static void beside_stream(int rounds) {
  if (rank == 0) {
    pthread_t other;
    pthread_create(&other, NULL, stream, NULL);
    for (int i = 0; i < rounds; ++i) {
      int answer = -1;
      EXPECT_OK(MPI_Send(&i, 1, MPI_INT, 1, kPing, MPI_COMM_WORLD));
      EXPECT_OK(MPI_Recv(&answer, 1, MPI_INT, 1, kPing, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      EXPECT_EQ(answer, i);
    }
    atomic_store(&over, 1);
    pthread_join(other, NULL);
  }
  if (rank == 1)
    for (int i = 0; i < rounds; ++i) {
      int question = -1;
      EXPECT_OK(MPI_Recv(&question, 1, MPI_INT, 0, kPing, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      think(3000);
      EXPECT_OK(MPI_Send(&question, 1, MPI_INT, 0, kPing, MPI_COMM_WORLD));
    }
  if (rank == size - 1)
    for (long got = 0; got != kLast;)
      EXPECT_OK(MPI_Recv(&got, 1, MPI_LONG, 0, kStream, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char** argv) {
  const int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  int provided = -1;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  learn_place();
  if (threads) {
    EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
    beside_stream(argc > 2 ? atoi(argv[2]) : 150);
  } else {
    late(argc > 2 ? atoi(argv[2]) : 400);
    beside_probe(argc > 2 ? atoi(argv[2]) : 400);
  }
  return end();
}
