// What the host of a virtual machine does to two cores while other programs use them: `watch FILE`.
// Every 7 ms both measure for 40 us, at real-time priority where that is allowed, how long a cache
// line takes from one to the other and how fast each computes: hosts move the cores of a virtual
// machine apart, and let other machines compute on the second threads of their cores, which takes
// up to half of their speed. FILE has two numbers at any time: looks so far, and those in which a
// line took 80 ns and more or a core computed at less than 0.87 of its best. Ends with its parent,
// or when it is told to. Without MPI.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cores.h"

enum { kPeriodNs = 7000000, kTurns = 40, kTries = 3, kAdditions = 8000, kFarNs = 80 };
static const double kShared = 1.15;  // of the least time so far

static _Alignas(128) atomic_long turn;  // even: the first core's
static _Alignas(128) atomic_long met;   // how often either core has come to a look
static int cores[2];
static struct timespec start;
static _Atomic double compute_ns;  // of the second core's last look

// Additions that need not wait for each other: whoever shares the core slows them down at once.
static double compute(void) {
  double best_ns = 0;
  for (int try = 0; try < kTries; ++try) {
    unsigned long a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    const double start_ns = now_ns();
    for (int i = 0; i < kAdditions; ++i) {
      ++a, ++b, ++c, ++d, ++e, ++f, ++g, ++h;
      __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
    }
    const double took_ns = now_ns() - start_ns;
    if (try == 0 || took_ns < best_ns) best_ns = took_ns;
  }
  return best_ns;
}

// One look together with the other core; returns how long a line took, in ns.
static double meet(long look, int which) {
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < 2 * (look + 1)) continue;
  const double start_ns = now_ns();
  for (long now = look * 2 * kTurns + which; now < (look + 1) * 2 * kTurns; now += 2) {
    while (atomic_load_explicit(&turn, memory_order_acquire) != now) continue;
    atomic_store_explicit(&turn, now + 1, memory_order_release);
  }
  return (now_ns() - start_ns) / (2 * kTurns);
}

static void take_core(int which) {
  bind_to(cores[which]);
  const struct sched_param priority = {.sched_priority = 50};
  pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);  // what is refused is done without
}

static void wait_for_look(long look) {
  const long long at_ns = start.tv_nsec + (long long)look * kPeriodNs;
  const struct timespec at = {start.tv_sec + at_ns / 1000000000, at_ns % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void* second(void* unused) {
  take_core(1);
  for (long look = 0;; ++look) {
    wait_for_look(look);
    meet(look, 1);
    compute_ns = compute();
  }
  return unused;
}

int main(int count, char** words) {
  if (count != 2 || !find_two_cores(cores)) {
    fprintf(stderr, count == 2 ? "watch: needs two cores\n" : "usage: watch FILE\n");
    return 2;
  }
  const int file = open(words[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    fprintf(stderr, "watch: %s: %s\n", words[1], strerror(errno));
    return 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  clock_gettime(CLOCK_MONOTONIC, &start);
  pthread_t other;
  if (pthread_create(&other, NULL, second, NULL) != 0) {
    fprintf(stderr, "watch: cannot start a thread\n");
    return 1;
  }
  take_core(0);
  double least_ns[2] = {0, 0};
  long num_disturbed = 0;
  for (long look = 0;; ++look) {
    wait_for_look(look);
    // The second core has ended the look before when both have come to this one.
    const double line_ns = meet(look, 0);
    const double took_ns[2] = {compute(), compute_ns};
    int is_disturbed = line_ns >= kFarNs;
    for (int i = 0; i < 2; ++i) {
      if (took_ns[i] > 0 && (least_ns[i] == 0 || took_ns[i] < least_ns[i]))
        least_ns[i] = took_ns[i];
      is_disturbed |= took_ns[i] > kShared * least_ns[i];
    }
    num_disturbed += is_disturbed;
    char text[64];
    const int length = snprintf(text, sizeof text, "%11ld %11ld\n", look + 1, num_disturbed);
    if (pwrite(file, text, (size_t)length, 0) != length) return 1;
  }
}
