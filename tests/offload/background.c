// Nonblocking and persistent collectives, many at a time and among blocking ones, on communicators
// whose first call is one of them. Every result is checked against what it must be; rank 0 prints a
// hash of the sums of floating-point numbers, so that two runs can be compared bit for bit.
// Arguments: SEED ROUNDS MOST_COUNT [PATH], at least 40 of these. With a path, at the end all begin
// a long MPI_Iallreduce, say so, and wait without any call of MPI until the FIFO of that name has a
// writer.
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kMost = 6 };

static uint64_t state;
static uint64_t next_number(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int rank, size;

static void must(int ok, const char* what, int round) {
  if (ok) return;
  fprintf(stderr, "rank %d: round %d: %s is wrong\n", rank, round, what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

enum { kMostRanks = 64 };

struct call {
  int what, count, root, in_place;
  int64_t seed;
  int64_t *mine, *got;
  int counts[kMostRanks];  // of the parts that the ranks get: one is empty
  MPI_Request request;
};

static int is_scatter(const struct call* call) { return call->what >= 9 && call->what <= 12; }
static int is_gather(const struct call* call) { return call->what >= 13; }
static int first_of(const struct call* call, int of_rank) {
  int first = 0;
  for (int r = 0; r < of_rank; ++r) first += call->counts[r];
  return first;
}
// Equal parts, or parts of every length. What does not divide is left out, or the last one's.
static void divide(struct call* call, int equal) {
  if (equal) call->count -= call->count % size;
  for (int r = 0; r < size; ++r)
    call->counts[r] = equal ? call->count / size : 2 * r * (call->count / (size * size));
  if (!equal) call->counts[size - 1] += call->count - first_of(call, size);
}

static int64_t number(const struct call* call, int of_rank, int i) {
  return call->seed * 31 + of_rank * 1000003 + i * 17;
}

static void begin(struct call* call, MPI_Comm comm) {
  if (is_scatter(call) || is_gather(call)) divide(call, call->what > 10);
  for (int i = 0; i < call->count; ++i) {
    call->mine[i] = number(call, rank, i);
    call->got[i] = call->in_place ? call->mine[i] : -1;
  }
  const void* from = call->in_place ? MPI_IN_PLACE : call->mine;
  const int part = is_gather(call) ? call->counts[rank] : 0;
  const void* own = call->in_place ? MPI_IN_PLACE : call->mine + first_of(call, rank);
  switch (call->what) {
    case 0:
    case 1:
      MPI_Iallreduce(from, call->got, call->count, MPI_INT64_T, MPI_SUM, comm, &call->request);
      break;
    case 2:
      MPI_Ireduce(call->in_place && rank != call->root ? call->mine : from, call->got, call->count,
                  MPI_INT64_T, MPI_MAX, call->root, comm, &call->request);
      break;
    case 3:
      if (rank == call->root) memcpy(call->got, call->mine, (size_t)call->count * 8);
      MPI_Ibcast(call->got, call->count, MPI_INT64_T, call->root, comm, &call->request);
      break;
    case 4:
      MPI_Ibarrier(comm, &call->request);
      break;
    case 5:
      MPI_Allreduce(from, call->got, call->count, MPI_INT64_T, MPI_SUM, comm);
      break;
    case 6:
      if (rank == call->root) memcpy(call->got, call->mine, (size_t)call->count * 8);
      MPI_Bcast(call->got, call->count, MPI_INT64_T, call->root, comm);
      break;
    case 7:
      MPI_Reduce(call->in_place && rank != call->root ? call->mine : from, call->got, call->count,
                 MPI_INT64_T, MPI_MAX, call->root, comm);
      break;
    case 8:
      MPI_Barrier(comm);
      break;
    case 9:
      MPI_Ireduce_scatter(from, call->got, call->counts, MPI_INT64_T, MPI_SUM, comm,
                          &call->request);
      break;
    case 10:
      MPI_Reduce_scatter(from, call->got, call->counts, MPI_INT64_T, MPI_SUM, comm);
      break;
    case 11:
      MPI_Ireduce_scatter_block(from, call->got, call->counts[0], MPI_INT64_T, MPI_SUM, comm,
                                &call->request);
      break;
    case 12:
      MPI_Reduce_scatter_block(from, call->got, call->counts[0], MPI_INT64_T, MPI_SUM, comm);
      break;
    case 13:
      MPI_Iallgather(own, part, MPI_INT64_T, call->got, part, MPI_INT64_T, comm, &call->request);
      break;
    default:
      MPI_Allgather(own, part, MPI_INT64_T, call->got, part, MPI_INT64_T, comm);
  }
}

static void check(const struct call* call, int round) {
  if (is_scatter(call)) {
    const int first = first_of(call, rank);
    for (int i = 0; i < call->counts[rank]; ++i) {
      int64_t sum = 0;
      for (int r = 0; r < size; ++r) sum += number(call, r, first + i);
      must(call->got[i] == sum, "a part of a sum", round);
    }
    return;
  }
  if (is_gather(call)) {
    for (int r = 0; r < size; ++r)
      for (int i = first_of(call, r); i < first_of(call, r) + call->counts[r]; ++i)
        must(call->got[i] == number(call, r, i), "what all have gathered", round);
    return;
  }
  for (int i = 0; i < call->count; ++i) {
    int64_t sum = 0;
    for (int r = 0; r < size; ++r) sum += number(call, r, i);
    const int64_t first = number(call, call->root, i), most = number(call, size - 1, i);
    const int64_t got = call->got[i];
    if (call->what == 0 || call->what == 1 || call->what == 5) must(got == sum, "a sum", round);
    if (call->what == 3 || call->what == 6) must(got == first, "a broadcast", round);
    if ((call->what == 2 || call->what == 7) && rank == call->root)
      must(got == most, "a maximum", round);
  }
}

// A root's buffer that nobody may write: a broadcast only reads it.
static void broadcast_what_is_constant(void) {
  const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  const int root = size - 1;
  unsigned char* data =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(data != MAP_FAILED, "mmap", 0);
  for (int call = 0; call < 2; ++call) {
    for (size_t i = 0; i < bytes; ++i)
      data[i] = (unsigned char)(rank == root ? 7 * i + (size_t)call : 0);
    if (rank == root) must(mprotect(data, bytes, PROT_READ) == 0, "mprotect", 0);
    MPI_Request request = MPI_REQUEST_NULL;
    if (call == 0)
      MPI_Bcast(data, (int)bytes, MPI_CHAR, root, MPI_COMM_WORLD);
    else
      MPI_Ibcast(data, (int)bytes, MPI_CHAR, root, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < bytes; ++i)
      must(data[i] == (unsigned char)(7 * i + (size_t)call), "a broadcast of constants", call);
    must(mprotect(data, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect", 0);
  }
  munmap(data, bytes);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 4) return 2;
  state = (uint64_t)atoll(argv[1]);
  const int rounds = atoi(argv[2]), most = atoi(argv[3]);
  if (most < 40) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMostRanks) return 2;
  struct call calls[kMost];
  for (int i = 0; i < kMost; ++i) {
    calls[i].mine = malloc((size_t)most * 8 + 8);
    calls[i].got = malloc((size_t)most * 8 + 8);
  }
  broadcast_what_is_constant();
  MPI_Comm comm = MPI_COMM_WORLD;
  for (int round = 0; round < rounds; ++round) {
    if (round % 10 == 3) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const int num = 1 + (int)(next_number() % kMost);
    for (int i = 0; i < num; ++i) {
      struct call* call = &calls[i];
      call->what = (int)(next_number() % 15);
      // The group of the second and later communicators is made in the background.
      static const int nonblocking[] = {0, 1, 2, 3, 4, 9, 11, 13};
      if (round % 10 == 3 && i == 0) call->what = nonblocking[next_number() % 8];
      call->count = (int)(next_number() % (uint64_t)(next_number() % 5 == 0 ? most : 40));
      call->root = (int)(next_number() % (uint64_t)size);
      call->in_place = (int)(next_number() % 2);
      call->seed = (int64_t)(next_number() % 1000000);
      call->request = MPI_REQUEST_NULL;
      begin(call, comm);
    }
    // Some wait for the last first.
    const int backwards = (int)(next_number() % 2);
    for (int i = 0; i < num; ++i)
      MPI_Wait(&calls[backwards ? num - 1 - i : i].request, MPI_STATUS_IGNORE);
    for (int i = 0; i < num; ++i) check(&calls[i], round);
    if (round % 10 == 7) MPI_Comm_free(&comm), comm = MPI_COMM_WORLD;
    if (rank == 0 && round % 10 == 0) {
      printf("round %d\n", round);
      fflush(stdout);
    }
  }

  // Persistent, of floating-point numbers.
  uint64_t hash = 14695981039346656037u;
  enum { kCount = 1500 };
  double mine[kCount], got[kCount];
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_strict_persistent_collective_ordering", "true");
  MPI_Comm_set_info(comm, info);
  MPI_Info_free(&info);
  MPI_Allreduce_init(mine, got, kCount, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kCount; ++i)
      mine[i] = 1.0 / (1 + (i * 7919 + rank * 104729 + round * 31) % 1000);
    MPI_Start(&request);
    int over = 0;
    while (!over) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    for (int i = 0; i < kCount; ++i) {
      double sum = 0;
      for (int r = 0; r < size; ++r) sum += 1.0 / (1 + (i * 7919 + r * 104729 + round * 31) % 1000);
      must(got[i] > sum - 1e-9 && got[i] < sum + 1e-9, "a persistent sum", round);
    }
    for (size_t i = 0; i < sizeof got; ++i)
      hash = (hash ^ ((const unsigned char*)got)[i]) * 1099511628211u;
  }
  MPI_Request_free(&request);

  if (argc > 4) {
    enum { kLong = 1 << 17 };
    int64_t* long_mine = malloc(kLong * 8);
    int64_t* long_got = malloc(kLong * 8);
    for (int i = 0; i < kLong; ++i) long_mine[i] = i + rank;
    MPI_Barrier(comm);
    MPI_Iallreduce(long_mine, long_got, kLong, MPI_INT64_T, MPI_SUM, comm, &request);
    printf("begun\n");
    fflush(stdout);
    const int fd = open(argv[4], O_RDONLY);
    if (fd < 0) return 2;
    close(fd);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < kLong; ++i)
      must(long_got[i] == (int64_t)size * i + (int64_t)size * (size - 1) / 2, "a long sum", 0);
    free(long_mine);
    free(long_got);
  }
  MPI_Comm_free(&comm);
  uint64_t low, high;
  MPI_Allreduce(&hash, &low, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&hash, &high, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    if (low == high)
      printf("hash %016llx\n", (unsigned long long)hash);
    else
      printf("ranks differ\n");
  }
  for (int i = 0; i < kMost; ++i) {
    free(calls[i].mine);
    free(calls[i].got);
  }
  MPI_Finalize();
  return 0;
}
