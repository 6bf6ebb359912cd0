// waits_death WHO WHEN [ROUNDS SEED]: process WHO dies, and every kind of waiting at the first of
// the others ends: receives and probes from any source with an error on each communicator that WHO
// is in until that is acknowledged there, those from WHO always, those from others and on
// communicators without WHO never. Nonblocking receives from any source pause meanwhile. WHEN,
// as seen from what the first one waits in:
//   before: it is posted, and WHO dies then
//   after:  WHO has died, and everybody knows it, when it begins
//   random: ROUNDS times a process, WHO or a later one, dies at some point of a round of receives
//           from any source, which are all posted at once and may come before or after the death
// Run with --on-death continue.
#include <mpi-ext.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { kNumComms = 16, kTag = 3, kGo = 4, kKnown = 5 };
static MPI_Comm comms[kNumComms], without;
static int num_used, victim, manager;

static int class_of(int code) {
  int class = code;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  return class;
}
static MPI_Comm next_comm(void) { return comms[num_used++]; }

static void die(void) {
  raise(SIGKILL);
  pause();
}

// The error of a wait that needs the victim.
#define EXPECT_LOST(call) EXPECT_EQ(class_of(call), MPIX_ERR_PROC_FAILED)
// That of a receive from any source that goes on.
#define EXPECT_PENDING(call) EXPECT_EQ(class_of(call), MPIX_ERR_PROC_FAILED_PENDING)

static void take_back(MPI_Request* request) {
  EXPECT(*request != MPI_REQUEST_NULL);
  EXPECT_OK(MPI_Cancel(request));
  EXPECT_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
}

// Requests of every kind that wait for a message from any source, each on a communicator of its
// own, and one from the victim; all of them end.
static void wait_for_requests(int is_before) {
  int values[6] = {0}, flag = 0, index, count, indices[6];
  MPI_Request requests[6];
  MPI_Status statuses[6];
  MPI_Comm on[6];
  for (int i = 0; i < 6; ++i) on[i] = next_comm();
  EXPECT_OK(MPI_Irecv(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, kTag, on[0], &requests[0]));
  EXPECT_OK(MPI_Irecv(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, on[1], &requests[1]));
  EXPECT_OK(MPI_Recv_init(&values[2], 1, MPI_INT, MPI_ANY_SOURCE, kTag, on[2], &requests[2]));
  EXPECT_OK(MPI_Start(&requests[2]));
  EXPECT_OK(MPI_Recv_init(&values[3], 1, MPI_INT, victim, kTag, on[3], &requests[3]));
  EXPECT_OK(MPI_Startall(1, &requests[3]));
  EXPECT_OK(MPI_Irecv(&values[4], 1, MPI_INT, victim, kTag, on[4], &requests[4]));
  EXPECT_OK(
      MPI_Precv_init(&values[5], 1, 1, MPI_INT, victim, kTag, on[5], MPI_INFO_NULL, &requests[5]));
  EXPECT_OK(MPI_Start(&requests[5]));
  if (is_before) EXPECT_OK(MPI_Send(NULL, 0, MPI_INT, victim, kGo, MPI_COMM_WORLD));
  // One after the other, by each of the functions.
  EXPECT_PENDING(MPI_Wait(&requests[0], &statuses[0]));
  for (int code = MPI_SUCCESS; code == MPI_SUCCESS;) {
    code = MPI_Test(&requests[1], &flag, &statuses[1]);
    if (code != MPI_SUCCESS) EXPECT_PENDING(code);
    EXPECT_EQ(flag, 0);
  }
  MPI_Request persistent[2] = {requests[2], requests[3]};
  EXPECT_PENDING(MPI_Waitany(1, persistent, &index, &statuses[2]));
  EXPECT_EQ(index, 0);
  for (int i = 0; i < 3; ++i) take_back(&requests[i]);
  EXPECT_EQ(class_of(MPI_Waitsome(1, persistent + 1, &count, indices, statuses)),
            MPI_ERR_IN_STATUS);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(class_of(MPI_Waitall(2, requests + 4, statuses)), MPI_ERR_IN_STATUS);
  EXPECT_EQ(class_of(statuses[0].MPI_ERROR), MPIX_ERR_PROC_FAILED);
  EXPECT_EQ(class_of(statuses[1].MPI_ERROR), MPIX_ERR_PROC_FAILED);
  for (int i = 2; i < 6; ++i)
    if (requests[i] != MPI_REQUEST_NULL) MPI_Request_free(&requests[i]);
}

// Calls that wait by themselves, with the victim dead.
static void wait_in_calls(void) {
  int value = 0, flag = 0;
  MPI_Message message;
  MPI_Status status;
  MPI_Comm comm = next_comm();
  EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, kTag, comm, &status));
  EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, victim, kTag, comm, &status));
  EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, victim, kTag, comm, &status));
  EXPECT_LOST(MPI_Send(&value, 1, MPI_INT, victim, kTag, comm));
  EXPECT_LOST(MPI_Ssend(&value, 1, MPI_INT, victim, kTag, comm));
  EXPECT_LOST(MPI_Probe(victim, kTag, comm, &status));
  EXPECT_LOST(MPI_Mprobe(victim, kTag, comm, &message, &status));
  EXPECT_LOST(MPI_Barrier(comm));
  EXPECT_LOST(MPI_Probe(MPI_ANY_SOURCE, kTag, next_comm(), &status));
  EXPECT_LOST(MPI_Mprobe(MPI_ANY_SOURCE, kTag, next_comm(), &message, &status));
  EXPECT_LOST(MPI_Iprobe(MPI_ANY_SOURCE, kTag, next_comm(), &flag, &status));
  EXPECT_LOST(MPI_Improbe(MPI_ANY_SOURCE, kTag, next_comm(), &flag, &message, &status));
  EXPECT_LOST(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, kTag, &value, 1, MPI_INT,
                           MPI_ANY_SOURCE, kTag, next_comm(), &status));
}

// Everybody knows of the loss: nobody's receive from the victim is still to be told.
static void learn_of_loss(void) {
  int value;
  EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, victim, kKnown, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void die_once(const char* when) {
  const int is_before = strcmp(when, "before") == 0;
  if (rank == victim) {
    if (is_before) MPI_Recv(NULL, 0, MPI_INT, manager, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(50000);
    die();
  }
  int value = rank;
  if (rank == manager) {
    if (!is_before) learn_of_loss();
    wait_for_requests(is_before);
    wait_in_calls();
    // Acknowledged on all of these: what comes from the others is received.
    for (int i = 0; i < size; ++i)
      if (i != victim && i != manager)
        EXPECT_OK(MPI_Send(NULL, 0, MPI_INT, i, kGo, MPI_COMM_WORLD));
    for (int i = 0; i < num_used; ++i) {
      if (size < 3) break;
      MPI_Status status;
      EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 99, comms[i], &status));
      EXPECT_OK(MPIX_Comm_failure_ack(comms[i]));
      for (int j = 0; j < size - 2; ++j) {
        EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, kTag, comms[i], &status));
        EXPECT_EQ(value, status.MPI_SOURCE * 100 + i);
      }
    }
    for (int j = 0; j < size - 2; ++j) {
      MPI_Status status;
      EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, kTag, without, &status));
    }
    // Nobody else can send here any more.
    if (size == 2)
      EXPECT_LOST(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, kTag, comms[0], MPI_STATUS_IGNORE));
  } else {
    // Meanwhile these wait on a communicator that the victim is not in.
    EXPECT_OK(MPI_Recv(NULL, 0, MPI_INT, manager, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < kNumComms; ++i) {
      value = rank * 100 + i;
      EXPECT_OK(MPI_Send(&value, 1, MPI_INT, manager, kTag, comms[i]));
    }
    int head;
    MPI_Comm_rank(without, &head);
    EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 0, kTag, without));
  }
}

// In each round everybody but the manager sends it one message, or dies before; the manager posts
// as many receives from any source as it believes that there are others.
static void die_at_random(int rounds, unsigned seed) {
  srand(seed + 7919u * (unsigned)rank);
  if (rank != manager) {
    for (int i = 0; i < rounds; ++i) {
      const int is_last = rank >= victim && rand() % (rounds / 2 + 1) == 0;
      if (is_last) usleep((unsigned)rand() % 2000);
      if (is_last) die();
      if (MPI_Send(&i, 1, MPI_INT, manager, kTag, MPI_COMM_WORLD) != MPI_SUCCESS) return;
      if (MPI_Recv(NULL, 0, MPI_INT, manager, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) return;
    }
    return;
  }
  int* is_alive = malloc(sizeof(int) * (size_t)size);
  for (int i = 0; i < size; ++i) is_alive[i] = i != manager;
  MPI_Request requests[64];
  MPI_Status statuses[64];
  int values[64];
  for (int round = 0; round < rounds; ++round) {
    int* has_sent = calloc((size_t)size, sizeof(int));
    for (;;) {
      int count = 0;
      for (int i = 0; i < size; ++i)
        if (is_alive[i] && !has_sent[i]) ++count;
      if (count == 0) break;
      for (int i = 0; i < count; ++i)
        EXPECT_OK(
            MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &requests[i]));
      int error = 0;
      for (int left = count; left > 0; --left) {
        int index;
        const int code = MPI_Waitany(count, requests, &index, &statuses[0]);
        if (code == MPI_SUCCESS) {
          has_sent[statuses[0].MPI_SOURCE] = 1;
          continue;
        }
        EXPECT_PENDING(code);
        error = 1;
        break;
      }
      if (!error) continue;
      // Somebody has died: who, is found by asking; the other receives are taken back.
      EXPECT_OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
      for (int i = 0; i < count; ++i) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        int cancelled;
        MPI_Cancel(&requests[i]);
        const int code = MPI_Wait(&requests[i], &statuses[i]);
        MPI_Test_cancelled(&statuses[i], &cancelled);
        if (code == MPI_SUCCESS && !cancelled) has_sent[statuses[i].MPI_SOURCE] = 1;
      }
      for (int i = 0; i < size; ++i) {
        int flag;
        if (is_alive[i] &&
            MPI_Iprobe(i, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
          is_alive[i] = 0;
      }
    }
    free(has_sent);
    for (int i = 0; i < size; ++i)
      if (is_alive[i]) (void)MPI_Send(NULL, 0, MPI_INT, i, kGo, MPI_COMM_WORLD);
  }
  free(is_alive);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  victim = atoi(argv[1]);
  manager = victim == 0 ? 1 : 0;
  for (int i = 0; i < kNumComms; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  MPI_Comm_split(MPI_COMM_WORLD, rank == victim, rank, &without);
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(argv[2], "random") == 0)
    die_at_random(atoi(argv[3]), (unsigned)atoi(argv[4]));
  else
    die_once(argv[2]);
  return end();
}
