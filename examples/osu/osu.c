#define _POSIX_C_SOURCE 200809L

#include "osu.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int num_failed_checks = 0;

static int my_rank(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

static void usage(const Program* program, FILE* out) {
  fprintf(out, "OSU-style MPI %s\n\noptions:\n", program->title);
  fprintf(out, "  -m MIN:MAX  message sizes in bytes (default %zu:%zu); MAX alone is allowed\n",
          program->min_bytes, program->max_bytes);
  fprintf(out, "  -i N        iterations per size (default: as many as fill -T)\n");
  fprintf(out, "  -x N        warm-up iterations per size (default: by calibration)\n");
  fprintf(out, "  -T MS       time per size in milliseconds when -i is not given (default 50)\n");
  fprintf(out, "  -c          also check the data, in a pass of its own\n");
  if (program->has_window) fprintf(out, "  -W N        messages in a window (default 64)\n");
  if (program->has_threads) {
    fprintf(out, "  -t S:R      sender and receiver threads (default 1:2); R alone is allowed\n");
  }
  if (program->has_median) {
    fprintf(out, "  -M          the median over the iterations instead of their mean\n");
  }
  if (program->has_link) {
    fprintf(out, "  -l NAME     also count the bytes of this network interface of each host\n");
  }
  if (program->has_vector) {
    fprintf(out, "  -D          data in blocks of 8 bytes, with as much between two of them\n");
  }
  fprintf(out, "  -h          this text\n");
}

static void finish(int status) {
  MPI_Finalize();
  exit(status);
}

static void refuse(const Program* program, const char* what, const char* value) {
  if (my_rank() == 0) {
    fprintf(stderr, "%s: %s\n\n", what, value);
    usage(program, stderr);
  }
  finish(1);
}

static bool parse_number(const char* text, unsigned long long limit, unsigned long long* value,
                         const char** end) {
  char* stop;
  if (*text < '0' || *text > '9') return false;
  *value = strtoull(text, &stop, 10);
  *end = stop;
  return *value <= limit;
}

// Reads "A:B" or "B"; leaves *first alone in the second case.
static bool parse_pair(const char* text, unsigned long long limit, unsigned long long* first,
                       unsigned long long* second) {
  const char* end;
  if (!parse_number(text, limit, second, &end)) return false;
  if (*end == '\0') return true;
  if (*end != ':') return false;
  *first = *second;
  return parse_number(end + 1, limit, second, &end) && *end == '\0';
}

static long parse_count(const Program* program, const char* text, long least) {
  unsigned long long value = 0;
  const char* end;
  if (!parse_number(text, 1000000000, &value, &end) || *end != '\0' || (long)value < least) {
    refuse(program, "not a usable number", text);
  }
  return (long)value;
}

int operation_parse(int* argc, char** argv, const char* const* names) {
  const char* name = *argc > 1 ? argv[1] : "";
  for (int i = 0; names[i] != NULL; ++i) {
    if (strcmp(name, names[i]) != 0) continue;
    for (int k = 1; k + 1 < *argc; ++k) argv[k] = argv[k + 1];
    argv[--*argc] = NULL;
    return i;
  }
  const bool help = strcmp(name, "-h") == 0;
  if (my_rank() == 0) {
    FILE* out = help ? stdout : stderr;
    const char* slash = strrchr(argv[0], '/');
    const char* program = slash != NULL ? slash + 1 : argv[0];
    fprintf(out, "usage: %s OPERATION [options]; %s OPERATION -h shows the options\n", program,
            program);
    fprintf(out, "operations:");
    for (int i = 0; names[i] != NULL; ++i) fprintf(out, " %s", names[i]);
    fprintf(out, "\n");
  }
  finish(help ? 0 : 1);
  return -1;
}

Options options_parse(int argc, char** argv, const Program* program) {
  Options options = {.min_bytes = program->min_bytes,
                     .max_bytes = program->max_bytes,
                     .iters = 0,
                     .warmup = -1,
                     .time_s = 0.05,
                     .window = 64,
                     .senders = 1,
                     .receivers = 2,
                     .validate = false,
                     .median = false,
                     .link = NULL,
                     .vector = false};
  char flags[32] = "hm:i:x:T:c";
  if (program->has_window) strcat(flags, "W:");
  if (program->has_threads) strcat(flags, "t:");
  if (program->has_median) strcat(flags, "M");
  if (program->has_link) strcat(flags, "l:");
  if (program->has_vector) strcat(flags, "D");

  opterr = 0;
  int flag;
  while ((flag = getopt(argc, argv, flags)) != -1) {
    unsigned long long first, second;
    switch (flag) {
      case 'm':
        first = options.min_bytes;
        if (!parse_pair(optarg, INT_MAX / 2, &first, &second) || first > second) {
          refuse(program, "sizes are MIN:MAX in bytes, not", optarg);
        }
        options.min_bytes = first;
        options.max_bytes = second;
        break;
      case 't':
        first = 1;
        if (!parse_pair(optarg, 64, &first, &second) || first == 0 || second == 0) {
          refuse(program, "threads are S:R, each 1 to 64, not", optarg);
        }
        options.senders = (int)first;
        options.receivers = (int)second;
        break;
      case 'i':
        options.iters = parse_count(program, optarg, 1);
        break;
      case 'x':
        options.warmup = parse_count(program, optarg, 0);
        break;
      case 'T':
        options.time_s = (double)parse_count(program, optarg, 1) * 1e-3;
        break;
      case 'W':
        options.window = (int)parse_count(program, optarg, 1);
        break;
      case 'c':
        options.validate = true;
        break;
      case 'M':
        options.median = true;
        break;
      case 'l':
        options.link = optarg;
        break;
      case 'D':
        options.vector = true;
        break;
      case 'h':
        if (my_rank() == 0) usage(program, stdout);
        finish(0);
        break;
      default:
        refuse(program, "unknown or incomplete option", argv[optind - 1]);
    }
  }
  if (optind < argc) refuse(program, "unexpected argument", argv[optind]);

  int num_ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  if (num_ranks < program->min_ranks || (program->even_ranks && num_ranks % 2 != 0)) {
    if (my_rank() == 0) {
      fprintf(stderr, "%s needs %s%d or more processes, not %d\n", program->title,
              program->even_ranks ? "an even number of " : "", program->min_ranks, num_ranks);
    }
    finish(1);
  }
  return options;
}

long settle_iters(const Options* options, Loop loop, void* context, size_t bytes) {
  const long kMaxIters = 2000000;
  if (options->warmup > 0) loop(context, bytes, options->warmup);
  if (options->iters > 0) {
    if (options->warmup < 0) loop(context, bytes, options->iters / 10 + 1);
    return options->iters;
  }
  // Rank 0 decides for all. The last trial takes at least a tenth of the time wanted, so that
  // neither connecting nor a slow first touch of the memory enters the estimate much.
  long trial = 2, iters = 0;
  for (;;) {
    double elapsed = loop(context, bytes, trial);
    if (elapsed >= options->time_s * 0.1 || trial >= kMaxIters) {
      iters = (long)((double)trial * options->time_s / (elapsed > 1e-9 ? elapsed : 1e-9));
      if (iters < 4) iters = 4;
      if (iters > kMaxIters) iters = kMaxIters;
    }
    MPI_Bcast(&iters, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (iters > 0) return iters;
    trial *= 4;
    // Ranks leave the loop by rank 0's clock alone, so every rank has the same `trial`.
  }
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

double median(double* values, long count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return values[count / 2];
}

size_t next_size(size_t bytes) { return bytes == 0 ? 1 : bytes * 2; }

void* buffer_alloc(size_t bytes) {
  void* memory = NULL;
  const size_t page_bytes = 4096;
  size_t rounded = (bytes + page_bytes) / page_bytes * page_bytes;
  if (posix_memalign(&memory, page_bytes, rounded) != 0) {
    fprintf(stderr, "no memory for a buffer of %zu bytes\n", rounded);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memset(memory, 1, rounded);
  return memory;
}

static unsigned char pattern_byte(size_t position, unsigned seed) {
  // A step of 251, a prime near 256, makes a shift of the data by any power of two show.
  return (unsigned char)((position % 251) * 7 + seed * 31 + (position >> 12));
}

void pattern_fill(void* buffer, size_t bytes, unsigned seed) {
  unsigned char* data = buffer;
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern_byte(i, seed);
}

bool pattern_matches(const void* buffer, size_t bytes, unsigned seed) {
  const unsigned char* data = buffer;
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] != pattern_byte(i, seed)) return false;
  }
  return true;
}

void print_header(const Options* options, const Program* program, const char* columns) {
  if (my_rank() != 0) return;
  printf("# OSU-style MPI %s\n%s%s\n", program->title, columns,
         options->validate ? "      Validation" : "");
  fflush(stdout);
}

void print_row(const Options* options, size_t bytes, const double* values, int num_values,
               int decimals, bool passed) {
  if (options->validate) {
    int failed = !passed, any_failed = 0;
    MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    passed = !any_failed;
    num_failed_checks += any_failed;
  }
  if (my_rank() != 0) return;
  printf("%-10zu", bytes);
  for (int i = 0; i < num_values; ++i) printf(" %18.*f", decimals, values[i]);
  if (options->validate) printf(" %15s", passed ? "Pass" : "Fail");
  printf("\n");
  fflush(stdout);
}

int exit_status(void) { return num_failed_checks > 0 ? 1 : 0; }
