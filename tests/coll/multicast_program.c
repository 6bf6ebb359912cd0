// multicast_program native|messages|either [VICTIM]: broadcasts of many lengths and roots, each
// byte checked; fails unless those of rank 0 that are long enough went as the first argument says.
// With VICTIM, the rank of that number ends itself in the middle of a long one, and all others must
// get an error.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLong = 1 << 20 };

static int rank, size;

static void fail(const char* what, long value) {
  fprintf(stderr, "rank %d: %s (%ld)\n", rank, what, value);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(long i, int root, int call) {
  return (unsigned char)(i * 7 + i / 251 + root * 31 + call * 3);
}

static void broadcast(MPI_Comm comm, unsigned char* data, long bytes, int root) {
  static int call = 0;
  int self;
  MPI_Comm_rank(comm, &self);
  ++call;
  for (long i = 0; i < bytes; ++i) data[i] = self == root ? byte_of(i, root, call) : 0;
  data[bytes] = 77;
  MPI_Bcast(data, (int)bytes, MPI_BYTE, root, comm);
  for (long i = 0; i < bytes; ++i)
    if (data[i] != byte_of(i, root, call)) fail("wrong byte", i);
  if (data[bytes] != 77) fail("a byte after the end has changed", bytes);
}

// The calls so far that the network copied.
static long num_native(void) {
  int provided, index, count;
  unsigned long long value = 0;
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  if (MPI_T_pvar_get_index("bcast_native_calls", MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS)
    fail("there is no bcast_native_calls", 0);
  MPI_T_pvar_session_create(&session);
  MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
  MPI_T_pvar_read(session, handle, &value);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  return (long)value;
}

static int with_victim(int victim, unsigned char* data, int bytes) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 1000; ++i) {
    if (i == 3 && rank == victim) raise(SIGKILL);
    if (MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS) continue;
    printf("rank %d has an error\n", rank);
    fflush(stdout);
    _exit(0);
  }
  fail("no error in calls", 1000);
  return 1;
}

// A rank that waits in a broadcast goes on with what it has begun before.
static void among_nonblocking(unsigned char* data) {
  for (int i = 0; i < 3; ++i) {
    MPI_Request barrier;
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    if (rank == size - 1) MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    broadcast(MPI_COMM_WORLD, data, 2 * kLong, i % 2);
    if (rank != size - 1) MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  }
}

// A rank with too short a buffer hears of it; the others do not, and the communicator goes on. Of
// several ranks of a host one alone would.
static void with_differing_lengths(unsigned char* data) {
  MPI_Comm comm, host;
  int most;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &most);
  MPI_Comm_free(&host);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (most > 1) return;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int i = 0; i < 3; ++i) {
    const int is_short = i == 1 && rank == size - 1;
    data[kLong] = 77;
    const int code = MPI_Bcast(data, is_short ? kLong : 2 * kLong, MPI_BYTE, 0, comm);
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    if (kind != (is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS)) fail("another error", kind);
    if (is_short && data[kLong] != 77) fail("a byte after the end has changed", kLong);
  }
  MPI_Comm_free(&comm);
}

int main(int argc, char** argv) {
  const long lengths[] = {kLong,   1,         kLong - 1, kLong + 1,         3000003,
                          5000000, kLong * 3, 8,         (16 << 20) + 1234, 300000};
  enum { kNumLengths = sizeof lengths / sizeof *lengths };
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned char* data = malloc((16 << 20) + 1235);
  if (argc > 2) return with_victim(atoi(argv[2]), data, 4 << 20);
  const long before = num_native();
  long expected = 0;
  for (int i = 0; i < kNumLengths; ++i) {
    broadcast(MPI_COMM_WORLD, data, lengths[i], 0);
    expected += lengths[i] >= kLong ? 1 : 0;
  }
  const long native = num_native() - before;
  if (strcmp(argv[1], "native") == 0 && native != expected) fail("not by the network", native);
  if (strcmp(argv[1], "messages") == 0 && native != 0) fail("by the network", native);
  // A member that is late, twice.
  for (int i = 0; i < 2; ++i) {
    if (rank == size - 1) usleep(300000);
    broadcast(MPI_COMM_WORLD, data, kLong * 2, 0);
  }
  // More roots than there are streams for.
  for (int root = 0; root < size; ++root)
    for (int i = 0; i < 3; ++i) broadcast(MPI_COMM_WORLD, data, kLong + 1000 * i, root);
  // A communicator in another order, which ends in between, and two at a time.
  for (int i = 0; i < 3; ++i) {
    MPI_Comm other, half;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
    broadcast(other, data, 1700000, size - 1);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int k = 0; k < 4; ++k) {
      broadcast(half, data, 1400000, 0);
      broadcast(MPI_COMM_WORLD, data, 1300000, 0);
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&other);
  }
  among_nonblocking(data);
  if (strcmp(argv[1], "native") == 0) with_differing_lengths(data);
  if (rank == 0) printf("%ld of %ld by the network\n", native, expected);
  free(data);
  MPI_Finalize();
  return 0;
}
