// survive_revoke WHAT: rank 0 revokes a communicator while the others are blocked on it.
//   WHAT   recv, any, probe, ssend, barrier, allreduce, wait (a nonblocking receive), icoll (a
//          nonblocking collective), test (of a receive), idup, partitioned (a send of which a part
//          is not ready), dies (rank 0 dies at once after), misuse (what wrong calls get)
#include <time.h>

#include "survive.h"

static char data[1 << 20];

// A send one of whose partitions is not ready.
static int send_partitioned(int to, MPI_Comm comm) {
  MPI_Request request;
  int code = MPI_Psend_init(data, 4, 1000, MPI_BYTE, to, 1, comm, MPI_INFO_NULL, &request);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Start(&request);
  if (code == MPI_SUCCESS) {
    for (int i = 0; i < 3; ++i) {
      const int made_ready = MPI_Pready(i, request);
      if (made_ready != MPI_SUCCESS) EXPECT_CLASS(made_ready, MPIX_ERR_REVOKED);
    }
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_CLASS(MPI_Pready(3, request), MPIX_ERR_REVOKED);
  }
  EXPECT_OK(MPI_Request_free(&request));
  return code;
}

// Blocks until the revocation. Returns the error.
static int block(const char* what, MPI_Comm comm) {
  int value = 1, sum, flag = 0, code;
  const int other = rank == 1 ? 2 % size : 1;
  MPI_Request request;
  MPI_Status status;
  survive_at = what;
  if (strcmp(what, "recv") == 0 || strcmp(what, "dies") == 0)
    return MPI_Recv(&value, 1, MPI_INT, other, 1, comm, &status);
  if (strcmp(what, "any") == 0)
    return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &status);
  if (strcmp(what, "probe") == 0) return MPI_Probe(other, 1, comm, &status);
  if (strcmp(what, "ssend") == 0) return MPI_Ssend(data, sizeof data, MPI_BYTE, other, 1, comm);
  if (strcmp(what, "partitioned") == 0) return send_partitioned(other, comm);
  if (strcmp(what, "barrier") == 0) return MPI_Barrier(comm);
  if (strcmp(what, "allreduce") == 0) return MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm copy;
  if (strcmp(what, "icoll") == 0)
    code = MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  else if (strcmp(what, "idup") == 0)
    code = MPI_Comm_idup(comm, &copy, &request);
  else
    code = MPI_Irecv(&value, 1, MPI_INT, other, 1, comm, &request);
  if (code != MPI_SUCCESS) return code;  // the revocation was here first
  if (strcmp(what, "test") != 0) return MPI_Wait(&request, &status);
  while ((code = MPI_Test(&request, &flag, &status)) == MPI_SUCCESS && !flag) {
  }
  return code;
}

// What a revoked communicator gives for everything.
static void check_revoked(MPI_Comm comm) {
  int value = 1, sum = 0, flag = 0;
  MPI_Comm made;
  MPI_Request request;
  MPI_Status status;
  survive_at = "calls on a revoked communicator";
  EXPECT_OK(MPIX_Comm_is_revoked(comm, &flag));
  EXPECT_EQ(flag, 1);
  const int expected = MPIX_ERR_REVOKED;
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, 0, 1, comm), expected);
  EXPECT_CLASS(MPI_Ssend(&value, 1, MPI_INT, rank, 1, comm), expected);
  EXPECT_CLASS(MPI_Isend(&value, 1, MPI_INT, rank, 1, comm, &request), expected);
  EXPECT(request == MPI_REQUEST_NULL);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, comm), expected);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, 0, 1, comm, &status), expected);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &status), expected);
  EXPECT_CLASS(MPI_Iprobe(MPI_ANY_SOURCE, 1, comm, &flag, &status), expected);
  if (MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &request) == MPI_SUCCESS)
    EXPECT_CLASS(MPI_Wait(&request, &status), expected);
  EXPECT_CLASS(MPI_Barrier(comm), expected);
  EXPECT_CLASS(MPI_Bcast(&value, 1, MPI_INT, 0, comm), expected);
  EXPECT_CLASS(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm), expected);
  EXPECT_CLASS(MPI_Allreduce(&value, &sum, 0, MPI_INT, MPI_SUM, comm), expected);
  EXPECT_CLASS(MPI_Ibarrier(comm, &request), expected);
  EXPECT_CLASS(MPI_Comm_dup(comm, &made), expected);
  EXPECT_CLASS(MPI_Comm_split(comm, 0, 0, &made), expected);
  EXPECT_CLASS(MPI_Comm_idup(comm, &made, &request), expected);
  MPI_Win win;
  EXPECT_CLASS(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &win), expected);
  EXPECT_OK(MPI_Comm_revoke(comm));
}

static void misuse(void) {
  int flag = 0, num = 0;
  MPI_Comm made = MPI_COMM_WORLD, null = MPI_COMM_NULL;
  MPI_Group group;
  MPI_Request request;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Comm_revoke(null), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_is_revoked(null, &flag), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_get_failed(null, &group), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_ack_failed(null, 0, &num), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_agree(null, &flag), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_iagree(null, &flag, &request), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_shrink(null, &made), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_ishrink(null, &made, &request), MPI_ERR_COMM);
  EXPECT_CLASS(MPIX_Comm_failure_ack(null), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Comm_is_revoked(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Comm_get_failed(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Comm_ack_failed(MPI_COMM_WORLD, -1, &num), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Comm_agree(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Comm_shrink(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  EXPECT_OK(MPI_Comm_get_failed(MPI_COMM_WORLD, &group));
  EXPECT(group == MPI_GROUP_EMPTY);
  // Different calls: an error at all, and the next agreement works.
  flag = 1;
  const int code =
      rank == 0 ? MPI_Comm_agree(MPI_COMM_WORLD, &flag) : MPI_Comm_shrink(MPI_COMM_WORLD, &made);
  EXPECT_CLASS(code, size > 1 ? MPI_ERR_OTHER : MPI_SUCCESS);
  flag = 3;
  EXPECT_OK(MPI_Comm_agree(MPI_COMM_WORLD, &flag));
  EXPECT_EQ(flag, 3);
  // Between two groups.
  MPI_Comm side, inter;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side));
  EXPECT_OK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 5, &inter));
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  flag = ~(1 << rank);
  EXPECT_OK(MPI_Comm_agree(inter, &flag));
  EXPECT_EQ(flag, ~((1 << size) - 1));
  if (rank == 0) EXPECT_OK(MPI_Comm_revoke(inter));
  EXPECT_CLASS(MPI_Recv(&num, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
  EXPECT_CLASS(MPI_Barrier(inter), MPIX_ERR_REVOKED);
  EXPECT_OK(MPI_Comm_agree(inter, &flag));
  EXPECT_OK(MPI_Comm_shrink(inter, &made));
  EXPECT_OK(MPI_Comm_free(&inter));
  EXPECT_OK(MPI_Barrier(made));
  EXPECT_OK(MPI_Comm_free(&made));
  EXPECT_OK(MPI_Comm_free(&side));
  // A communicator of one.
  EXPECT_OK(MPI_Comm_dup(MPI_COMM_SELF, &made));
  EXPECT_OK(MPI_Comm_revoke(made));
  EXPECT_CLASS(MPI_Barrier(made), MPIX_ERR_REVOKED);
  EXPECT_OK(MPI_Comm_shrink(made, &side));
  EXPECT_OK(MPI_Comm_free(&made));
  EXPECT_OK(MPI_Barrier(side));
  EXPECT_OK(MPI_Comm_free(&side));
}

int main(int argc, char** argv) {
  survive_begin(&argc, &argv);
  const char* what = argc > 1 ? argv[1] : "recv";
  if (strcmp(what, "misuse") == 0) {
    misuse();
    return survive_end(MPI_COMM_WORLD);
  }
  const int dies = strcmp(what, "dies") == 0;
  MPI_Comm comm, rest;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &rest));
  for (int round = 0; round < (dies ? 1 : 3); ++round) {
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    // The second time everything that a collective needs is there.
    if (round == 1) EXPECT_OK(MPI_Barrier(comm));
    if (rank == 0) {
      const struct timespec while_they_block = {0, round == 2 ? 0 : 30000000};
      nanosleep(&while_they_block, NULL);
      EXPECT_OK(MPI_Comm_revoke(comm));
      if (dies) die();
    } else {
      EXPECT_CLASS(block(what, comm), MPIX_ERR_REVOKED);
    }
    check_revoked(comm);
    if (dies) break;
    // Others are not touched.
    survive_use(MPI_COMM_WORLD, size);
    int flag = ~(1 << rank);
    survive_at = "MPI_Comm_agree on a revoked communicator";
    EXPECT_OK(MPI_Comm_agree(comm, &flag));
    EXPECT_EQ(flag, ~((1 << size) - 1));
    MPI_Comm whole;
    survive_at = "MPI_Comm_shrink of a revoked communicator";
    EXPECT_OK(MPI_Comm_shrink(comm, &whole));
    EXPECT_OK(MPI_Comm_free(&comm));
    survive_use(whole, size);
    EXPECT_OK(MPI_Comm_free(&whole));
  }
  if (!dies) return survive_end(MPI_COMM_WORLD);
  MPI_Comm shrunken;
  survive_at = "MPI_Comm_shrink without the dead";
  do {
    EXPECT_OK(MPI_Comm_shrink(comm, &shrunken));
    MPI_Comm_size(shrunken, &rank);
  } while (rank == size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  survive_use(shrunken, size - 1);
  survive_use(rest, size - 1);
  return survive_end(shrunken);
}
