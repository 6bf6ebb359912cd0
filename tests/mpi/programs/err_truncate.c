// A receive shorter than its message is MPI_ERR_TRUNCATE, keeps to its buffer, and does not disturb
// what comes after; in a set of requests the error is in the one status.
#include "expect.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  static const int sizes[] = {8, 100, 5000, 40000, 100000, 3000000};
  for (int i = 0; i < 6; ++i)
    for (int posted = 0; posted < 2; ++posted) {
      int bytes = sizes[i], room = bytes / 2;
      if (kOpenMpi && bytes > 4096) continue;  // it fills all of the memory behind the buffer
      unsigned char* out = allocate(bytes);
      unsigned char* in = allocate(bytes);
      MPI_Request send, receive;
      MPI_Status status;
      fill(out, bytes, seed_of(rank, i, 0));
      memset(in, 0xee, bytes);
      if (posted) {
        MPI_Irecv(in, room, MPI_BYTE, from, i, MPI_COMM_WORLD, &receive);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out, bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &send);
        EXPECT_CLASS(MPI_Wait(&receive, &status), MPI_ERR_TRUNCATE);
      } else {
        MPI_Isend(out, bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &send);
        MPI_Probe(from, i, MPI_COMM_WORLD, &status);
        EXPECT_CLASS(MPI_Recv(in, room, MPI_BYTE, from, i, MPI_COMM_WORLD, &status),
                     MPI_ERR_TRUNCATE);
      }
      EXPECT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
      for (int k = room; k < bytes; ++k) EXPECT_EQ(in[k], 0xee);
      EXPECT_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, to, i, in, bytes, MPI_BYTE, from, i,
                             MPI_COMM_WORLD, &status));
      EXPECT_EQ(first_difference(in, bytes, seed_of(from, i, 0)), -1);
      free(out);
      free(in);
    }

  // The second of three is too short.
  int out[3][4], in[3][4];
  MPI_Request requests[6];
  MPI_Status statuses[6];
  memset(out, 1, sizeof out);
  for (int i = 0; i < 3; ++i)
    MPI_Irecv(in[i], i == 1 ? 2 : 4, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i)
    MPI_Isend(out[i], 4, MPI_INT, to, i, MPI_COMM_WORLD, &requests[3 + i]);
  for (int i = 0; i < 6; ++i) statuses[i].MPI_ERROR = -1;
  EXPECT_CLASS(MPI_Waitall(6, requests, statuses), MPI_ERR_IN_STATUS);
  for (int i = 0; i < 6; ++i) {
    int class = statuses[i].MPI_ERROR;
    if (class == MPI_ERR_PENDING) continue;  // it may give up waiting for the rest
    MPI_Error_class(statuses[i].MPI_ERROR, &class);
    EXPECT_EQ(class, i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
  }
  MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
  return end();
}
