// What every test program shares: begin and end, checks that say where they failed, and data whose
// bytes are a function of a seed, so that a receiver knows them without asking the sender.
//
// A program prints one line, "as expected", from rank 0, and every process that saw a failed check
// exits with 1.
#ifndef WEFT_TESTS_EXPECT_H
#define WEFT_TESTS_EXPECT_H
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

#ifndef MPIX_ERR_PROC_FAILED
#define MPIX_ERR_PROC_FAILED 16001  // as mpi-ext.h has it
#endif

// The programs are checked against other libraries too, and where one of these is known to differ
// from the standard, the check says so and is left out there.
enum {
#ifdef OPEN_MPI
  kOpenMpi = 1,  // 4.1.4
#else
  kOpenMpi = 0,
#endif
#ifdef MPICH
  kMpich = 1,  // 4.0.2
#else
  kMpich = 0,
#endif
};

static int num_failures = 0;
static int rank = -1, size = -1;

static UNUSED void failed(const char* file, int line, const char* what) {
  // Many failures have one cause: the first few are enough.
  if (++num_failures <= 10)
    fprintf(stderr, "rank %d of %d: %s:%d: %s\n", rank, size, file, line, what);
}

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) failed(__FILE__, __LINE__, #condition); \
  } while (0)

#define EXPECT_EQ(actual, expected)                                                                \
  do {                                                                                             \
    long long actual_ = (long long)(actual), expected_ = (long long)(expected);                    \
    if (actual_ != expected_) {                                                                    \
      char text_[400];                                                                             \
      snprintf(text_, sizeof text_, "%s is %lld, expected %s = %lld", #actual, actual_, #expected, \
               expected_);                                                                         \
      failed(__FILE__, __LINE__, text_);                                                           \
    }                                                                                              \
  } while (0)

#define EXPECT_OK(call) EXPECT_EQ((call), MPI_SUCCESS)

// The error class of what a call returned.
#define EXPECT_CLASS(call, expected)                                                     \
  do {                                                                                   \
    int code_ = (call), class_ = -1;                                                     \
    MPI_Error_class(code_, &class_);                                                     \
    if (class_ != (expected)) {                                                          \
      char text_[400];                                                                   \
      snprintf(text_, sizeof text_, "%s gave class %d, expected %s = %d", #call, class_, \
               #expected, (int)(expected));                                              \
      failed(__FILE__, __LINE__, text_);                                                 \
    }                                                                                    \
  } while (0)

static UNUSED void learn_place(void) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static UNUSED void begin(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  learn_place();
}

static UNUSED int end(void) {
  MPI_Finalize();
  if (num_failures > 10)
    fprintf(stderr, "rank %d of %d: %d checks failed\n", rank, size, num_failures);
  if (rank == 0 && num_failures == 0) printf("as expected\n");
  return num_failures == 0 ? 0 : 1;
}

// splitmix64: a well-mixed function of its argument.
static UNUSED uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A sequence of numbers from a seed.
static UNUSED uint64_t next_random(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15u;
  return mix(*state);
}

static UNUSED void fill(void* data, size_t bytes, uint64_t seed) {
  unsigned char* out = (unsigned char*)data;
  size_t word = 0;
  for (; (word + 1) * 8 <= bytes; ++word) {
    uint64_t value = mix(seed ^ (word * 0x2545f4914f6cdd1du));
    memcpy(out + word * 8, &value, 8);
  }
  if (word * 8 == bytes) return;  // data may be null
  uint64_t rest = mix(seed ^ (word * 0x2545f4914f6cdd1du));
  memcpy(out + word * 8, &rest, bytes - word * 8);
}

// Index of the first byte that differs from what fill writes, or -1.
static UNUSED long long first_difference(const void* data, size_t bytes, uint64_t seed) {
  const unsigned char* in = (const unsigned char*)data;
  for (size_t word = 0; word * 8 < bytes; ++word) {
    uint64_t value = mix(seed ^ (word * 0x2545f4914f6cdd1du));
    size_t length = bytes - word * 8 < 8 ? bytes - word * 8 : 8;
    if (memcmp(in + word * 8, &value, length) != 0)
      for (size_t i = 0; i < length; ++i)
        if (in[word * 8 + i] != ((unsigned char*)&value)[i]) return (long long)(word * 8 + i);
  }
  return -1;
}

static UNUSED uint64_t seed_of(uint64_t a, uint64_t b, uint64_t c) {
  return mix(mix(mix(a + 1) + b) + c);
}

static UNUSED void* allocate(size_t bytes) {
  void* memory = malloc(bytes ? bytes : 1);
  if (!memory) {
    fprintf(stderr, "rank %d: no memory for %zu bytes\n", rank, bytes);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  return memory;
}

// Message sizes on both sides of every boundary between protocols that a library could have.
static const int kSizes[] = {
    0,     1,     7,      8,      63,     64,     65,      255,     256,     1000,   2047,  2048,
    2049,  4095,  4096,   4097,   8191,   8193,   16384,   16385,   32767,   32768,  32769, 65535,
    65536, 65537, 131071, 131073, 262144, 262145, 1000003, 2097151, 2097153, 8388608};
enum { kNumSizes = sizeof kSizes / sizeof kSizes[0] };
#endif
