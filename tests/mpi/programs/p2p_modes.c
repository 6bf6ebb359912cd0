// Every send mode, blocking and not, at every size, between all pairs and to itself.
#include "expect.h"

enum { kStandard, kSynchronous, kReady, kBuffered, kNumModes };

static int send_blocking(int mode, const void* data, int bytes, int peer, int tag) {
  switch (mode) {
    case kSynchronous:
      return MPI_Ssend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    case kReady:
      return MPI_Rsend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    case kBuffered:
      return MPI_Bsend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    default:
      return MPI_Send(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
  }
}

static int send_nonblocking(int mode, const void* data, int bytes, int peer, int tag,
                            MPI_Request* request) {
  switch (mode) {
    case kSynchronous:
      return MPI_Issend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request);
    case kReady:
      return MPI_Irsend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request);
    case kBuffered:
      return MPI_Ibsend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request);
    default:
      return MPI_Isend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request);
  }
}

static void check_received(const unsigned char* data, int bytes, int room, int source, int tag,
                           const MPI_Status* status) {
  int count = -1;
  EXPECT_EQ(status->MPI_SOURCE, source);
  EXPECT_EQ(status->MPI_TAG, tag);
  EXPECT_OK(MPI_Get_count(status, MPI_BYTE, &count));
  EXPECT_EQ(count, bytes);
  EXPECT_EQ(first_difference(data, bytes, seed_of(source, tag, bytes)), -1);
  for (int i = bytes; i < room; ++i) EXPECT_EQ(data[i], 0xee);
}

// One message around a ring of distance `step`. The receive is posted first (a ready send needs
// it), and has 16 bytes more room than the message, which must stay untouched.
static void around(int mode, int blocking, int step, int bytes, int tag) {
  int to = (rank + step) % size, from = (rank - step + size) % size;
  int room = bytes + 16;
  unsigned char* out = allocate(bytes);
  unsigned char* in = allocate(room);
  MPI_Request receive, send;
  MPI_Status status;
  fill(out, bytes, seed_of(rank, tag, bytes));
  memset(in, 0xee, room);
  EXPECT_OK(MPI_Irecv(in, room, MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive));
  if (mode == kReady) MPI_Barrier(MPI_COMM_WORLD);
  if (blocking) {
    EXPECT_OK(send_blocking(mode, out, bytes, to, tag));
  } else {
    EXPECT_OK(send_nonblocking(mode, out, bytes, to, tag, &send));
    EXPECT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    EXPECT(send == MPI_REQUEST_NULL);
  }
  EXPECT_OK(MPI_Wait(&receive, &status));
  check_received(in, bytes, room, from, tag, &status);
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int room = kSizes[kNumSizes - 1] + 4 * MPI_BSEND_OVERHEAD + 4096;
  void* buffer = allocate(room);
  EXPECT_OK(MPI_Buffer_attach(buffer, room));
  int tag = 0;
  for (int step = 0; step < size; ++step)
    for (int mode = 0; mode < kNumModes; ++mode)
      for (int blocking = 0; blocking < 2; ++blocking)
        for (int i = 0; i < kNumSizes; ++i) {
          // All sizes to one neighbour and to itself; the largest once a mode is enough elsewhere.
          if (step > 1 && kSizes[i] > 300000) continue;
          around(mode, blocking, step, kSizes[i], ++tag);
          if (mode == kBuffered) {  // takes the room back for the next one
            void* detached;
            int bytes;
            EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
            EXPECT(detached == buffer);
            EXPECT_OK(MPI_Buffer_attach(buffer, room));
          }
        }
  void* detached;
  int bytes;
  EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
  EXPECT_EQ(bytes, room);
  free(buffer);
  return end();
}
