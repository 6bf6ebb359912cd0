// How long a cache line takes from one core to another, in ns: `line`. Two threads on the first two
// cores that this process may use answer each other through two lines. Without MPI.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>

#include "cores.h"

enum { kTurns = 20000, kRounds = 5 };

typedef struct {
  _Alignas(128) atomic_long ping;
  _Alignas(128) atomic_long pong;
} Lines;

static Lines lines;
static int cores[2];

static void* answer(void* unused) {
  bind_to(cores[1]);
  for (long turn = 1; turn <= (long)kTurns * kRounds; ++turn) {
    while (atomic_load_explicit(&lines.ping, memory_order_acquire) != turn) continue;
    atomic_store_explicit(&lines.pong, turn, memory_order_release);
  }
  return unused;
}

int main(void) {
  if (!find_two_cores(cores)) {
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
