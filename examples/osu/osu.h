// Shared by the OSU-style benchmark programs of this folder: options, buffers, data patterns, the
// choice of iteration counts, and output.
//
// The programs are plain C11 and MPI, so any library's mpicc builds them:
//   mpicc -O2 -pthread latency.c osu.c -o latency
// They follow the algorithms, options and output form that users of the OSU micro-benchmarks
// know. Two things differ on purpose: without -i each size runs for a fixed time instead of a
// fixed count, and -c checks the data in a pass of its own, so that checking never touches what
// is timed.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  const char* title;  // printed as "# OSU-style MPI <title>"
  size_t min_bytes;   // smallest and largest size when -m is not given
  size_t max_bytes;
  bool has_window;   // accepts -W
  bool has_threads;  // accepts -t
  bool has_median;   // accepts -M
  bool has_link;     // accepts -l
  bool has_vector;   // accepts -D
  int min_ranks;
  bool even_ranks;
} Program;

typedef struct {
  size_t min_bytes;
  size_t max_bytes;
  long iters;   // 0: as many as fit into time_s
  long warmup;  // -1: the calibration is the warm-up
  double time_s;
  int window;
  int senders;  // threads of latency_mt on each side
  int receivers;
  bool validate;
  bool median;       // of the iterations, instead of their mean
  const char* link;  // network interface whose bytes are counted, or null
  bool vector;       // blocks of 8 bytes with as much between
} Options;

// Runs `iters` iterations with messages of `bytes` bytes; returns the seconds they took here.
// Every rank calls it with the same arguments.
typedef double (*Loop)(void* context, size_t bytes, long iters);

// Reads the command line after MPI_Init; checks the number of ranks. On -h or a mistake rank 0
// prints why and the program ends with every rank finalised (status 0 for -h, 1 otherwise).
Options options_parse(int argc, char** argv, const Program* program);

// Takes the operation's name, the first argument, out of the command line: its place in `names`,
// which end with a null pointer. On -h or a name that isn't there the program ends likewise.
int operation_parse(int* argc, char** argv, const char* const* names);

// Warms `loop` up and returns the iteration count to time: -i if given, else as many as fill
// -T, found by doubling. The same on every rank.
long settle_iters(const Options* options, Loop loop, void* context, size_t bytes);

// Sorts them.
double median(double* values, long count);

// The next size of a sweep: doubles; 0 is followed by 1.
size_t next_size(size_t bytes);

// Page-aligned and touched memory; ends the job when there is none.
void* buffer_alloc(size_t bytes);

// A pattern that differs for every seed and position, and its check.
void pattern_fill(void* buffer, size_t bytes, unsigned seed);
bool pattern_matches(const void* buffer, size_t bytes, unsigned seed);

// Rank 0 prints "# OSU-style MPI <title>" and the line of column names; with -c one column more.
void print_header(const Options* options, const Program* program, const char* columns);

// Rank 0 prints one row; `decimals` apply to every value. With -c, `passed` is the last column.
// Call on every rank: with -c the verdict is agreed first. A failed check makes exit_status() 1.
void print_row(const Options* options, size_t bytes, const double* values, int num_values,
               int decimals, bool passed);

// 0, or 1 when a check of the data failed on any rank.
int exit_status(void);
