// apart WHAT: processes that no fabric joins. The first contact of any kind is an error that names
// the peer, within a moment, and never a wait without end; what needs no peer goes on.
//   WHAT  recv, irecv, any, probe, iprobe, mprobe, send or barrier
#include "expect.h"

static int contact(const char* what, int peer) {
  int value = 1, flag = 0;
  MPI_Request request;
  MPI_Message message;
  MPI_Status status;
  if (strcmp(what, "recv") == 0)
    return MPI_Recv(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "any") == 0)
    return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "irecv") == 0) {
    const int code = MPI_Irecv(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &request);
    return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "probe") == 0) return MPI_Probe(peer, 1, MPI_COMM_WORLD, &status);
  if (strcmp(what, "mprobe") == 0) return MPI_Mprobe(peer, 1, MPI_COMM_WORLD, &message, &status);
  if (strcmp(what, "iprobe") == 0)
    for (int code;;)
      if ((code = MPI_Iprobe(peer, 1, MPI_COMM_WORLD, &flag, &status)) != MPI_SUCCESS || flag)
        return code;
  if (strcmp(what, "send") == 0) return MPI_Send(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
  return MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int peer = (rank + 1) % size;
  EXPECT_CLASS(contact(argv[1], peer), MPIX_ERR_PROC_FAILED);
  char text[MPI_MAX_ERROR_STRING], name[32];
  int length, mine = -1;
  MPI_Error_string(MPIX_ERR_PROC_FAILED, text, &length);
  snprintf(name, sizeof name, "rank %d (pid ", peer);
  if (size == 2) EXPECT(strstr(text, name) != NULL);
  EXPECT_OK(MPI_Sendrecv(&rank, 1, MPI_INT, rank, 2, &mine, 1, MPI_INT, rank, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  EXPECT_EQ(mine, rank);
  return end();
}
