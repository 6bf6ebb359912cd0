// survive_threads WHAT: threads call MPI while others acknowledge, open, or revoke.
//   WHAT   acknowledge   one thread tests a receive from any source that pauses, another one
//                        acknowledges the failure; the last rank dies
//          open          a thread polls while another one makes communicators and agrees on them
//          revoke        a thread starts synchronous sends while another one revokes
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "survive.h"

enum { kComms = 400, kOpened = 1500, kRevoked = 60, kSends = 1000 };

static MPI_Comm comms[kComms], comm;
static atomic_int at, over;

// Begins the next round in both threads, and spreads the moments at which they meet.
static void wait_for_round(int round, int spread) {
  while (atomic_load(&at) < round) sched_yield();
  for (atomic_int left = round * 7919 % spread; atomic_fetch_sub(&left, 1) > 0;) {
  }
}

static void* acknowledge(void* unused) {
  for (int i = 0; i < kComms; ++i) {
    wait_for_round(i + 1, 300);
    EXPECT_OK(MPIX_Comm_failure_ack(comms[i]));
  }
  return unused;
}

// A receive that nobody sends to must stay.
static void test_acknowledged(void) {
  pthread_t other;
  for (int num = 0; num == 0;) {
    MPI_Group dead;
    EXPECT_OK(MPI_Comm_get_failed(MPI_COMM_WORLD, &dead));
    MPI_Group_size(dead, &num);
    if (num != 0) MPI_Group_free(&dead);
  }
  pthread_create(&other, NULL, acknowledge, NULL);
  for (int i = 0; i < kComms; ++i) {
    int value = -1, flag = 0, cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    EXPECT_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comms[i], &request));
    atomic_store(&at, i + 1);
    for (int calm = 0; calm < 3 && !flag;) {
      const int code = MPI_Test(&request, &flag, &status);
      if (code == MPI_SUCCESS)
        ++calm;
      else
        EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED_PENDING);
    }
    EXPECT_EQ(flag, 0);
    EXPECT(request != MPI_REQUEST_NULL);
    if (request == MPI_REQUEST_NULL) break;
    EXPECT_OK(MPI_Cancel(&request));
    EXPECT_OK(MPI_Wait(&request, &status));
    EXPECT_OK(MPI_Test_cancelled(&status, &cancelled));
    EXPECT(cancelled);
  }
  atomic_store(&at, kComms);
  pthread_join(other, NULL);
}

static void* poll(void* unused) {
  for (int flag; !atomic_load(&over);)
    EXPECT_OK(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
  return unused;
}

static void open_and_agree(void) {
  pthread_t other;
  if (rank == 0) pthread_create(&other, NULL, poll, NULL);
  survive_at = "MPI_Comm_agree on a new communicator";
  for (int i = 0; i < kOpened; ++i) {
    int flag = i;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    EXPECT_OK(MPI_Comm_agree(comm, &flag));
    EXPECT_EQ(flag, i);
    EXPECT_OK(MPI_Comm_free(&comm));
  }
  atomic_store(&over, 1);
  if (rank == 0) pthread_join(other, NULL);
}

static void* revoke_in_time(void* unused) {
  for (int round = 1; round <= kRevoked; ++round) {
    wait_for_round(round, 20000);
    EXPECT_OK(MPI_Comm_revoke(comm));
  }
  return unused;
}

// Each send that was started ends: nobody receives them.
static void send_revoked(void) {
  static MPI_Request requests[kSends];
  pthread_t other;
  if (rank == 0) pthread_create(&other, NULL, revoke_in_time, NULL);
  for (int round = 1; round <= kRevoked; ++round) {
    int num = 0, value = 0;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
      survive_at = "synchronous sends on a revoked communicator";
      atomic_store(&at, round);
      while (num < kSends &&
             MPI_Issend(&value, 1, MPI_INT, 1, 1, comm, &requests[num]) == MPI_SUCCESS)
        ++num;
      for (int i = 0; i < num; ++i)
        EXPECT_CLASS(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    }
    EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    EXPECT_OK(MPI_Comm_free(&comm));
  }
  if (rank == 0) pthread_join(other, NULL);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "open";
  survive_begin_level(&argc, &argv, MPI_THREAD_MULTIPLE);
  if (strcmp(what, "open") == 0) open_and_agree();
  if (strcmp(what, "revoke") == 0) send_revoked();
  if (strcmp(what, "acknowledge") != 0) return survive_end(MPI_COMM_WORLD);
  MPI_Comm living;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, rank, &living));
  for (int i = 0; i < kComms; ++i) EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == size - 1) die();
  if (rank == 0) test_acknowledged();
  return survive_end(living);
}
