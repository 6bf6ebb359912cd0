// Buffered sends: complete without a receiver, as many as the attached buffer holds, MPI_ERR_BUFFER
// beyond; detaching waits until everything was delivered.
#include "expect.h"

enum { kMessages = 50, kInts = 500 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int message, room, bytes;
  EXPECT_OK(MPI_Pack_size(kInts, MPI_INT, MPI_COMM_WORLD, &message));
  EXPECT(message >= kInts * (int)sizeof(int));
  room = kMessages * (message + MPI_BSEND_OVERHEAD);
  char* buffer = allocate(room);
  char* detached = NULL;
  int data[kInts], got[kInts];

  EXPECT_OK(MPI_Buffer_attach(buffer, room));
  for (int round = 0; round < 3; ++round) {
    // All of these return although nobody receives yet.
    for (int i = 0; i < kMessages; ++i) {
      for (int k = 0; k < kInts; ++k) data[k] = rank * 1000000 + i * 1000 + k;
      EXPECT_OK(MPI_Bsend(data, kInts, MPI_INT, to, i, MPI_COMM_WORLD));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_OK(MPI_Recv(got, kInts, MPI_INT, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      for (int k = 0; k < kInts; ++k) EXPECT_EQ(got[k], from * 1000000 + i * 1000 + k);
    }
    EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
    EXPECT(detached == buffer);
    EXPECT_EQ(bytes, room);
    EXPECT_OK(MPI_Buffer_attach(buffer, room));
  }

  // Detach returns only when the message has been taken out of the buffer, which may be overwritten
  // then.
  for (int k = 0; k < kInts; ++k) data[k] = rank + k;
  MPI_Request receive;
  MPI_Irecv(got, kInts, MPI_INT, from, 77, MPI_COMM_WORLD, &receive);
  EXPECT_OK(MPI_Bsend(data, kInts, MPI_INT, to, 77, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
  memset(buffer, 0x5a, room);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  for (int k = 0; k < kInts; ++k) EXPECT_EQ(got[k], from + k);

  // Too little room is an error, and the buffer is usable afterwards.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);  // takes calls without communicator
  EXPECT_OK(MPI_Buffer_attach(buffer, message + MPI_BSEND_OVERHEAD));
  int* large = calloc(3 * kInts, sizeof(int));
  if (!kOpenMpi) {  // where the buffer cannot be detached after the first of these errors
    EXPECT_CLASS(MPI_Bsend(large, 3 * kInts, MPI_INT, to, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    EXPECT_CLASS(MPI_Buffer_attach(buffer, room), MPI_ERR_BUFFER);
  }
  EXPECT_OK(MPI_Bsend(data, 1, MPI_INT, to, 2, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Recv(got, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_EQ(got[0], from);
  EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
  EXPECT_EQ(bytes, message + MPI_BSEND_OVERHEAD);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  // A communicator's own buffer, and flushing: what was in the buffer has left it.
  MPI_Comm own;
  MPI_Request flush;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  EXPECT_OK(MPI_Buffer_attach(buffer, room / 2));
  EXPECT_OK(MPI_Comm_attach_buffer(own, buffer + room / 2, room / 2));
  for (int background = 0; background < 2; ++background)
    for (int c = 0; c < 2; ++c) {
      MPI_Comm comm = c ? own : MPI_COMM_WORLD;
      for (int k = 0; k < kInts; ++k) data[k] = rank + 10 * c + k;
      MPI_Irecv(got, kInts, MPI_INT, from, 3, comm, &receive);
      EXPECT_OK(MPI_Bsend(data, kInts, MPI_INT, to, 3, comm));
      if (background) {
        EXPECT_OK(c ? MPI_Comm_iflush_buffer(own, &flush) : MPI_Buffer_iflush(&flush));
        EXPECT_OK(MPI_Wait(&flush, MPI_STATUS_IGNORE));
      } else {
        EXPECT_OK(c ? MPI_Comm_flush_buffer(own) : MPI_Buffer_flush());
      }
      memset(buffer + (c ? room / 2 : 0), 0x5a, room / 2);
      MPI_Wait(&receive, MPI_STATUS_IGNORE);
      for (int k = 0; k < kInts; ++k) EXPECT_EQ(got[k], from + 10 * c + k);
    }
  EXPECT_OK(MPI_Comm_detach_buffer(own, &detached, &bytes));
  EXPECT(detached == buffer + room / 2 && bytes == room / 2);
  EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
  EXPECT(detached == buffer && bytes == room / 2);
  MPI_Comm_free(&own);
#endif
  free(large);
  free(buffer);
  return end();
}
