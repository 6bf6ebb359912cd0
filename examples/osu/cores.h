// Two cores and the time, for the programs that look at the machine itself. Without MPI.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

// The first two cores that this process may use; false if there is only one.
static inline bool find_two_cores(int cores[2]) {
  cpu_set_t set;
  int found = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE && found < 2; ++core)
      if (CPU_ISSET(core, &set)) cores[found++] = core;
  return found == 2;
}

static inline void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static inline double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}
