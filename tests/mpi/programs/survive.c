// survive WHAT [VICTIMS]: processes die, and the others find out, agree, and go on without them.
//   WHAT      p2p, any, agree, agree_late, shrink, nonblocking, leave: what the others do
//   VICTIMS   the ranks that die, as 0,2; 1 unless given
#include "survive.h"

static int is_victim[64], num_victims;

// Agrees until all know that all victims are dead.
static void know_the_dead(MPI_Comm comm) {
  survive_at = "the wait for deaths";
  for (int flag = 0; !flag;) {
    MPI_Group dead;
    int known;
    EXPECT_OK(MPIX_Comm_get_failed(comm, &dead));
    MPI_Group_size(dead, &known);
    if (known != 0) MPI_Group_free(&dead);
    flag = known == num_victims;
    MPI_Comm_agree(comm, &flag);
  }
}

static int handled;
static void note_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  MPI_Error_class(*code, &handled);
}

// Handlers get the error of the request, where the call returns MPI_ERR_IN_STATUS.
static void handle_errors_in_status(int victim) {
  MPI_Errhandler handler, before;
  survive_at = "calls that return MPI_ERR_IN_STATUS";
  EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
  EXPECT_OK(MPI_Comm_create_errhandler(note_error, &handler));
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
  for (int kind = 0; kind < 3; ++kind) {
    int value = 0, flag = 0, num = 0, indices[2], code = MPI_SUCCESS;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    EXPECT_OK(MPI_Irecv(&value, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, &requests[1]));
    handled = MPI_SUCCESS;
    if (kind == 0) code = MPI_Waitall(2, requests, statuses);
    if (kind == 1) code = MPI_Waitsome(2, requests, &num, indices, statuses);
    while (kind == 2 && code == MPI_SUCCESS) code = MPI_Testall(2, requests, &flag, statuses);
    EXPECT_CLASS(code, MPI_ERR_IN_STATUS);
    EXPECT_EQ(handled, MPIX_ERR_PROC_FAILED);
  }
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
  EXPECT_OK(MPI_Errhandler_free(&handler));
  EXPECT_OK(MPI_Errhandler_free(&before));
}

static void p2p(int victim) {
  int value = rank, flag = -1;
  survive_at = "messages with the dead";
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
               MPIX_ERR_PROC_FAILED);
  EXPECT_CLASS(MPI_Ssend(&value, 1, MPI_INT, victim, 1, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
  MPI_Request request;
  EXPECT_OK(MPI_Irecv(&value, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, &request));
  EXPECT_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
  EXPECT_EQ(request == MPI_REQUEST_NULL, 1);
  EXPECT_CLASS(MPI_Barrier(MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
  char text[MPI_MAX_ERROR_STRING];
  int length;
  EXPECT_OK(MPI_Error_string(MPIX_ERR_PROC_FAILED, text, &length));
  EXPECT(strncmp(text, "MPIX_ERR_PROC_FAILED: ", 22) == 0);
  EXPECT_OK(MPI_Error_string(MPIX_ERR_REVOKED, text, &length));
  EXPECT(strncmp(text, "MPIX_ERR_REVOKED: ", 18) == 0);
  handle_errors_in_status(victim);
  // Who failed.
  MPI_Group dead, world;
  EXPECT_OK(MPI_Comm_get_failed(MPI_COMM_WORLD, &dead));
  EXPECT_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  int size_of = -1, zero = 0, its_rank = -1;
  MPI_Group_size(dead, &size_of);
  EXPECT_EQ(size_of, 1);
  MPI_Group_translate_ranks(dead, 1, &zero, world, &its_rank);
  EXPECT_EQ(its_rank, victim);
  MPI_Group_free(&dead);
  MPI_Group_free(&world);
  EXPECT_OK(MPI_Comm_is_revoked(MPI_COMM_WORLD, &flag));
  EXPECT_EQ(flag, 0);
}

// Calls that only ask for the state see the message of a receive that pauses.
static void ask_for_states(int next) {
  for (int kind = 0; kind < 4; ++kind) {
    int value = -1, flag = 0, index = -1, code = MPI_SUCCESS;
    MPI_Status status;
    MPI_Request request;
    survive_at = "MPI_Request_get_status of a receive that pauses";
    EXPECT_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 10 + kind, MPI_COMM_WORLD, &request));
    EXPECT_OK(MPI_Send(&kind, 1, MPI_INT, next, 10 + kind, MPI_COMM_WORLD));
    do {
      if (kind == 0) code = MPI_Request_get_status(request, &flag, &status);
      if (kind == 1) code = MPI_Request_get_status_all(1, &request, &flag, &status);
      if (kind == 2) code = MPI_Request_get_status_any(1, &request, &index, &flag, &status);
      if (kind == 3) code = MPI_Request_get_status_some(1, &request, &flag, &index, &status);
      EXPECT(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED_PENDING ||
             class_of(code) == MPI_ERR_IN_STATUS);
    } while (!flag || code != MPI_SUCCESS);
    EXPECT_OK(MPI_Wait(&request, &status));
    EXPECT_EQ(value, kind);
  }
}

static void any(int victim, MPI_Comm living) {
  int value = -1, flag = -1, num = -1;
  MPI_Status status;
  MPI_Request request, early;
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  if (next == victim) next = (next + 1) % size;
  if (before == victim) before = (before + size - 1) % size;
  survive_at = "receives from any source";
  EXPECT_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &early));
  int other = -1;
  for (int i = 0; i < 3; ++i)
    EXPECT_CLASS(MPI_Recv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status),
                 MPIX_ERR_PROC_FAILED);
  EXPECT_CLASS(MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
  EXPECT_OK(MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request));
  for (int i = 0; i < 3; ++i) {
    EXPECT_CLASS(MPI_Wait(&early, &status), MPIX_ERR_PROC_FAILED_PENDING);
    EXPECT_CLASS(MPI_Test(&request, &flag, &status), MPIX_ERR_PROC_FAILED_PENDING);
    EXPECT_EQ(flag, 0);
    EXPECT(early != MPI_REQUEST_NULL && request != MPI_REQUEST_NULL);
  }
  MPI_Request both[2] = {early, request};
  MPI_Status statuses[2];
  EXPECT_CLASS(MPI_Waitall(2, both, statuses), MPI_ERR_IN_STATUS);
  for (int i = 0; i < 2; ++i) {
    EXPECT(both[i] != MPI_REQUEST_NULL);
    EXPECT_CLASS(statuses[i].MPI_ERROR, MPIX_ERR_PROC_FAILED_PENDING);
  }
  // A message still completes it, without an acknowledgement.
  EXPECT_OK(MPI_Send(&rank, 1, MPI_INT, rank, 2, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Wait(&early, &status));
  EXPECT(early == MPI_REQUEST_NULL);
  EXPECT_EQ(value, rank);
  ask_for_states(next);
  // Acknowledged, it waits for those that live.
  MPI_Group acked;
  EXPECT_OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &acked));
  EXPECT(acked == MPI_GROUP_EMPTY);
  EXPECT_OK(MPI_Comm_ack_failed(MPI_COMM_WORLD, 0, &num));
  EXPECT_EQ(num, 0);
  EXPECT_CLASS(MPI_Recv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status),
               MPIX_ERR_PROC_FAILED);
  EXPECT_OK(MPI_Comm_ack_failed(MPI_COMM_WORLD, 5, &num));
  EXPECT_EQ(num, 1);
  EXPECT_OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
  EXPECT_OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &acked));
  MPI_Group_size(acked, &num);
  EXPECT_EQ(num, 1);
  MPI_Group_free(&acked);
  EXPECT_OK(MPI_Test(&request, &flag, &status));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Barrier(living));
  MPI_Send(&rank, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
  EXPECT_OK(MPI_Wait(&request, &status));
  EXPECT_EQ(other, before);
  MPI_Send(&rank, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
  EXPECT_OK(MPI_Recv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status));
  EXPECT_EQ(status.MPI_SOURCE, before);
  // One that is freed, and one that is cancelled.
  EXPECT_OK(MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request));
  EXPECT_OK(MPI_Cancel(&request));
  EXPECT_OK(MPI_Wait(&request, &status));
}

// In every round each member brings all flags but one of its own.
static void agree(void) {
  for (int round = 0; round < 20; ++round) {
    int flag = ~(1 << rank), expected = ~0;
    for (int i = 0; i < size; ++i)
      if (!is_victim[i]) expected &= ~(1 << i);
    survive_at = "MPI_Comm_agree";
    const int code = MPI_Comm_agree(MPI_COMM_WORLD, &flag);
    if (round < 3) {
      EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
    } else {
      EXPECT_OK(code);
    }
    EXPECT_EQ(flag, expected);
    // As soon as all know it.
    MPI_Group dead;
    int num = -1;
    EXPECT_OK(MPI_Comm_get_failed(MPI_COMM_WORLD, &dead));
    MPI_Group_size(dead, &num);
    EXPECT_EQ(num, num_victims);
    MPI_Group_free(&dead);
    if (round == 1 && rank % 2 == 0) EXPECT_OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
    if (round == 2) EXPECT_OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
  }
}

// The victims die while the others agree; what these get is the same for all.
static void agree_late(MPI_Comm living) {
  enum { kRounds = 40 };
  for (int round = 0; round < kRounds; ++round) {
    if (is_victim[rank] && round == 5 + 7 * rank) die();
    int flag = round;
    survive_at = "MPI_Comm_agree";
    int mine[3];
    mine[0] = class_of(MPI_Comm_agree(MPI_COMM_WORLD, &flag));
    mine[1] = flag;
    EXPECT_EQ(flag, round);
    MPI_Group dead;
    MPI_Comm_get_failed(MPI_COMM_WORLD, &dead);
    MPI_Group_size(dead, &mine[2]);
    MPI_Group_free(&dead);
    EXPECT(mine[0] == MPI_SUCCESS || mine[0] == MPIX_ERR_PROC_FAILED);
    if (mine[0] != MPI_SUCCESS) MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    if (is_victim[rank]) continue;
    int low[2], high[2];
    EXPECT_OK(MPI_Allreduce(mine, low, 2, MPI_INT, MPI_MIN, living));
    EXPECT_OK(MPI_Allreduce(mine, high, 2, MPI_INT, MPI_MAX, living));
    EXPECT(low[0] == high[0] && low[1] == high[1]);
  }
}

static void nonblocking(void) {
  int flags[2] = {~(1 << rank), 1 << rank | 0x100};
  MPI_Comm made[2];
  MPI_Request requests[4];
  survive_at = "nonblocking agreements";
  EXPECT_OK(MPI_Comm_iagree(MPI_COMM_WORLD, &flags[0], &requests[0]));
  EXPECT_OK(MPI_Comm_ishrink(MPI_COMM_WORLD, &made[0], &requests[1]));
  EXPECT_OK(MPI_Comm_iagree(MPI_COMM_WORLD, &flags[1], &requests[2]));
  EXPECT_OK(MPI_Comm_ishrink(MPI_COMM_WORLD, &made[1], &requests[3]));
  if (is_victim[rank]) die();
  MPI_Status statuses[4];
  const int code = MPI_Waitall(4, requests, statuses);
  EXPECT(code == MPI_SUCCESS || class_of(code) == MPI_ERR_IN_STATUS);
  int expected = ~0;
  for (int i = 0; i < size; ++i)
    if (!is_victim[i]) expected &= ~(1 << i);
  EXPECT_EQ(flags[0] & expected, flags[0]);
  EXPECT_EQ(flags[1] & 0x100, 0x100);
  know_the_dead(MPI_COMM_WORLD);
  MPI_Comm shrunken;
  EXPECT_OK(MPI_Comm_ishrink(MPI_COMM_WORLD, &shrunken, &requests[0]));
  EXPECT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  survive_use(shrunken, size - num_victims);
  for (int i = 0; i < 2; ++i)
    if (made[i] != MPI_COMM_NULL) MPI_Comm_free(&made[i]);
  exit(survive_end(shrunken));
}

// The others are done with the first one, which is late, and leave: it needs nothing of them but
// what they have sent.
static int leave(MPI_Comm living) {
  survive_at = "the last reductions";
  EXPECT_CLASS(MPI_Barrier(MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
  for (int i = 0; i < 3; ++i) {
    int one = 1, sum = 0;
    if (rank == 0) usleep(100000);
    EXPECT_OK(MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, living));
    if (rank == 0) EXPECT_EQ(sum, size - num_victims);
  }
  survive_at = "MPI_Finalize";
  if (rank == 0 && num_failures == 0) printf("as expected\n");
  MPI_Finalize();
  return num_failures != 0;
}

int main(int argc, char** argv) {
  survive_begin(&argc, &argv);
  const char* what = argc > 1 ? argv[1] : "p2p";
  const char* who = argc > 2 ? argv[2] : "1";
  int first_victim = -1;
  for (const char* at = who; at != NULL;
       at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
    is_victim[atoi(at)] = 1;
    ++num_victims;
    if (first_victim < 0) first_victim = atoi(at);
  }
  MPI_Comm living;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_victim[rank], rank, &living));
  MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (strcmp(what, "nonblocking") == 0) nonblocking();
  if (strcmp(what, "agree_late") == 0) {
    agree_late(living);
  } else {
    if (is_victim[rank]) die();
    if (strcmp(what, "leave") == 0) return leave(living);
    if (strcmp(what, "p2p") == 0) p2p(first_victim);
    if (strcmp(what, "any") == 0) any(first_victim, living);
    if (strcmp(what, "agree") == 0) know_the_dead(MPI_COMM_WORLD), agree();
  }
  survive_at = "MPI_Comm_shrink";
  MPI_Comm shrunken, again;
  EXPECT_OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &shrunken));
  int its_size;
  MPI_Comm_size(shrunken, &its_size);
  // One that had not been noticed then is left out the next time.
  while (its_size > size - num_victims) {
    EXPECT_OK(MPIX_Comm_shrink(shrunken, &again));
    MPI_Comm_free(&shrunken);
    shrunken = again;
    MPI_Comm_size(shrunken, &its_size);
  }
  survive_use(shrunken, size - num_victims);
  survive_use(living, size - num_victims);
  MPI_Comm_free(&living);
  return survive_end(shrunken);
}
