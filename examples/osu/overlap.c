// Overlap of a transfer with other work of the program: `overlap NAME [options]`, NAME isend (rank
// 0 sends, rank 1 receives, the others wait) or iallreduce.
//
// Per size, means over the ranks that take part of medians: what the transfer takes when nothing is
// between its start and its end; and with 1.5 times as long between them, once asleep and once
// computing, how much of it is hidden (all, if sleep or computation and transfer take no longer
// together than without the transfer) and how much more processor time all threads took together.
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "osu.h"

typedef enum { kNothing, kSleep, kCompute, kBetweens } Between;

typedef struct {
  bool sends;  // isend, else iallreduce
  int rank;
  void* send;
  void* recv;
} Call;

typedef struct {
  double wall_us;
  double processor_us;  // of all threads
} Cost;

static void start(const Call* c, size_t bytes, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  if (!c->sends)
    MPI_Iallreduce(c->send, c->recv, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, request);
  else if (c->rank == 0)
    MPI_Isend(c->send, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, request);
  else if (c->rank == 1)
    MPI_Irecv(c->recv, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, request);
}

static double processor_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void sleep_us(double us) {
  const struct timespec time = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000};
  nanosleep(&time, NULL);
}

// So many rounds of work that touches no memory and calls nothing.
static void compute(long rounds) {
  double x = 1;
  for (long i = 0; i < rounds; ++i) {
    x = x * 1.0000001 + 1e-9;
    __asm__ volatile("" : "+x"(x));
  }
}

static double rounds_per_us(void) {
  const long kRounds = 2000000;
  double best_us = 0;
  for (int i = 0; i < 5; ++i) {
    const double begin = MPI_Wtime();
    compute(kRounds);
    const double took_us = (MPI_Wtime() - begin) * 1e6;
    if (i == 0 || took_us < best_us) best_us = took_us;
  }
  return (double)kRounds / best_us;
}

// Medians of `iters` times what is between, with the transfer around it or alone.
static Cost measure(const Call* c, size_t bytes, long iters, bool transfers, Between between,
                    double between_us, double rounds) {
  double* wall = buffer_alloc((size_t)iters * sizeof *wall);
  double* processor = buffer_alloc((size_t)iters * sizeof *processor);
  for (long i = 0; i < iters; ++i) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime(), used_us = processor_us();
    if (transfers) start(c, bytes, &request);
    if (between == kSleep) sleep_us(between_us);
    if (between == kCompute) compute((long)(between_us * rounds));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    wall[i] = (MPI_Wtime() - begin) * 1e6;
    processor[i] = processor_us() - used_us;
  }
  const Cost cost = {median(wall, iters), median(processor, iters)};
  free(wall);
  free(processor);
  return cost;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* const names[] = {"isend", "iallreduce", NULL};
  Call c = {.sends = operation_parse(&argc, argv, names) == 0};
  const Program program = {.title = c.sends ? "Isend Overlap Test" : "Iallreduce Overlap Test",
                           .min_bytes = 64 << 10,
                           .max_bytes = 4 << 20,
                           .min_ranks = 2};
  Options options = options_parse(argc, argv, &program);
  if (options.min_bytes < sizeof(float)) options.min_bytes = sizeof(float);
  const long iters = options.iters > 0 ? options.iters : 51;
  MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
  int num_ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  c.send = buffer_alloc(options.max_bytes);
  c.recv = buffer_alloc(options.max_bytes);
  const double rounds = rounds_per_us();
  const int num_taking_part = c.sends ? 2 : num_ranks;

  print_header(&options, &program,
               "# Size          Transfer(us)   Asleep hidden(%)  Asleep processor(us)  Computing "
               "hidden(%)  Computing processor(us)");
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes = next_size(bytes)) {
    measure(&c, bytes, iters / 5 + 1, true, kNothing, 0, rounds);  // warm
    const Cost transfer = measure(&c, bytes, iters, true, kNothing, 0, rounds);
    // All ranks use the same time between.
    double transfer_us = c.rank < num_taking_part ? transfer.wall_us : 0;
    MPI_Allreduce(MPI_IN_PLACE, &transfer_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double values[5] = {transfer_us}, sums[5] = {0};
    for (int between = kSleep; between < kBetweens; ++between) {
      const double between_us = 1.5 * transfer_us;
      const Cost alone = measure(&c, bytes, iters, false, (Between)between, between_us, rounds);
      const Cost both = measure(&c, bytes, iters, true, (Between)between, between_us, rounds);
      values[2 * between - 1] = 100 * (1 - (both.wall_us - alone.wall_us) / transfer_us);
      values[2 * between] = both.processor_us - alone.processor_us;
    }
    for (int i = 0; i < 5 && c.rank >= num_taking_part; ++i) values[i] = 0;
    MPI_Reduce(values, sums, 5, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 5; ++i) sums[i] /= num_taking_part;
    print_row(&options, bytes, sums, 5, 1, true);
  }
  MPI_Finalize();
  return exit_status();
}
