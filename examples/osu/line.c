// How long a cache line takes from one core to another, in ns: `line`. Two threads on the first two
// cores that this process may use answer each other through two lines. Without MPI.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kTurns = 20000, kRounds = 5 };

typedef struct {
  _Alignas(128) atomic_long ping;
  _Alignas(128) atomic_long pong;
} Lines;

static Lines lines;
static int cores[2];

static void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void* answer(void* unused) {
  bind_to(cores[1]);
  for (long turn = 1; turn <= (long)kTurns * kRounds; ++turn) {
    while (atomic_load_explicit(&lines.ping, memory_order_acquire) != turn) continue;
    atomic_store_explicit(&lines.pong, turn, memory_order_release);
  }
  return unused;
}

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void) {
  cpu_set_t set;
  int found = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE && found < 2; ++core)
      if (CPU_ISSET(core, &set)) cores[found++] = core;
  if (found < 2) {
    fprintf(stderr, "line: needs two cores\n");
    return 1;
  }
  pthread_t other;
  if (pthread_create(&other, NULL, answer, NULL) != 0) {
    fprintf(stderr, "line: cannot start a thread\n");
    return 1;
  }
  bind_to(cores[0]);
  double best_ns = 0;  // of the rounds: what disturbs one makes it longer
  for (int round = 0; round < kRounds; ++round) {
    const double start_ns = now_ns();
    for (long turn = (long)round * kTurns + 1; turn <= (long)(round + 1) * kTurns; ++turn) {
      atomic_store_explicit(&lines.ping, turn, memory_order_release);
      while (atomic_load_explicit(&lines.pong, memory_order_acquire) != turn) continue;
    }
    const double one_way_ns = (now_ns() - start_ns) / kTurns / 2;
    if (round == 0 || one_way_ns < best_ns) best_ns = one_way_ns;
  }
  pthread_join(other, NULL);
  printf("%.0f\n", best_ns);
  return 0;
}
