// survive_buffer WHAT HOW: a long collective inside a host ends in its middle, and those whose call
// has ended use their buffers again while others come late.
//   WHAT   bcast, scatter   the root's buffer; nobody gets what it holds later
//          gathered         the buffer of a receiver of two; nobody writes it any more
//   HOW    revoke, death    by rank 1 (gathered: a revocation by a thread of the receiver)
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "survive.h"

enum { kBytes = 3 << 20, kRight = 5, kLater = 66 };

static char data[kBytes];
static MPI_Comm comm;
// Rounds in which the first call has ended. In shared memory, and not a message: who waits for one
// would hear of the revocation meanwhile.
static atomic_int* num_ended;
static int round_number;

static void share_rounds(void) {
  MPI_Win win;
  MPI_Aint bytes;
  int unit;
  EXPECT_OK(MPI_Win_allocate_shared(sizeof *num_ended, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &num_ended,
                                    &win));
  EXPECT_OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &num_ended));
}
static void wait_for_end_elsewhere(void) {
  survive_at = "the end of another one's call";
  while (atomic_load(num_ended) < round_number) sched_yield();
}

static int call(const char* what) {
  survive_at = what;
  if (strcmp(what, "scatter") != 0) return MPI_Bcast(data, kBytes, MPI_BYTE, 0, comm);
  const int each = kBytes / size;
  return MPI_Scatter(data, each, MPI_BYTE, rank == 0 ? MPI_IN_PLACE : data, each, MPI_BYTE, 0,
                     comm);
}

static int count_others_than(char value, int num) {
  int count = 0;
  for (int i = 0; i < num; ++i) count += data[i] != value;
  return count;
}

static void while_others_wait(void) {
  const struct timespec time = {0, 50000000};
  nanosleep(&time, NULL);
}

static void* revoke_in_time(void* unused) {
  while_others_wait();
  EXPECT_OK(MPI_Comm_revoke(comm));
  return unused;
}

// Rank 1's call ends without rank 0, which comes late.
static void keep_from_late_root(void) {
  if (rank == 1) {
    pthread_t other;
    pthread_create(&other, NULL, revoke_in_time, NULL);
    EXPECT_CLASS(call("bcast"), MPIX_ERR_REVOKED);
    pthread_join(other, NULL);
    memset(data, kLater, kBytes);
    atomic_store(num_ended, round_number);
    EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    EXPECT_EQ(count_others_than(kLater, kBytes), 0);
  } else {
    wait_for_end_elsewhere();
    EXPECT_CLASS(call("bcast"), MPIX_ERR_REVOKED);
    EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  }
}

// Rank 0's call ends without rank 1; the last rank comes late.
static void keep_from_late_readers(const char* what, int dies) {
  if (rank == 1) {
    while_others_wait();
    if (dies) die();
    EXPECT_OK(MPI_Comm_revoke(comm));
  } else if (rank == 0) {
    EXPECT_CLASS(call(what), dies ? MPIX_ERR_PROC_FAILED : MPIX_ERR_REVOKED);
    memset(data, kLater, kBytes);
    atomic_store(num_ended, round_number);
  } else {
    wait_for_end_elsewhere();
    // Late, but for its own part the call may have worked.
    if (call(what) == MPI_SUCCESS) EXPECT_EQ(count_others_than(kRight, kBytes / size), 0);
  }
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "scatter";
  const int dies = argc > 2 && strcmp(argv[2], "death") == 0;
  survive_begin_level(&argc, &argv, MPI_THREAD_MULTIPLE);
  MPI_Comm living;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 1, rank, &living));
  share_rounds();
  for (round_number = 1; round_number <= (dies ? 1 : 3); ++round_number) {
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    memset(data, kRight, kBytes);
    // So that everything that the call needs is there.
    EXPECT_OK(call(what));
    memset(data, rank == 0 ? kRight : 0, kBytes);
    EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(what, "gathered") == 0)
      keep_from_late_root();
    else
      keep_from_late_readers(what, dies);
    if (!dies) EXPECT_OK(MPI_Comm_free(&comm));
  }
  return survive_end(dies ? living : MPI_COMM_WORLD);
}
