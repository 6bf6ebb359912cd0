// Probe, Iprobe, Mprobe, Improbe, Mrecv and Imrecv tell of messages exactly as receives match them.
#include "expect.h"

static int to, from;

static void* next_message(int bytes, int tag) {
  unsigned char* data = allocate(bytes);
  fill(data, bytes, seed_of(rank, tag, bytes));
  return data;
}

static void check(const void* data, const MPI_Status* status, int source, int tag, int bytes) {
  int count = -1;
  EXPECT_EQ(status->MPI_SOURCE, source);
  EXPECT_EQ(status->MPI_TAG, tag);
  EXPECT_OK(MPI_Get_count(status, MPI_BYTE, &count));
  EXPECT_EQ(count, bytes);
  if (data) EXPECT_EQ(first_difference(data, bytes, seed_of(source, tag, bytes)), -1);
}

// Five ways of learning about a message before receiving it.
static void one(int way, int bytes, int tag) {
  void* out = next_message(bytes, tag);
  void* in = allocate(bytes);
  MPI_Request send, receive;
  MPI_Status status, received;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = 0;
  MPI_Isend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  int source = way % 2 ? MPI_ANY_SOURCE : from;
  int any = way % 3 == 1 ? MPI_ANY_TAG : tag;
  switch (way) {
    case 0:
    case 1:
      EXPECT_OK(MPI_Probe(source, any, MPI_COMM_WORLD, &status));
      check(NULL, &status, from, tag, bytes);
      EXPECT_OK(MPI_Recv(in, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                         &received));
      break;
    case 2:
    case 3:
      while (!flag) EXPECT_OK(MPI_Iprobe(source, any, MPI_COMM_WORLD, &flag, &status));
      check(NULL, &status, from, tag, bytes);
      EXPECT_OK(MPI_Recv(in, bytes, MPI_BYTE, source, any, MPI_COMM_WORLD, &received));
      break;
    case 4:
    case 5:
      EXPECT_OK(MPI_Mprobe(source, any, MPI_COMM_WORLD, &message, &status));
      check(NULL, &status, from, tag, bytes);
      EXPECT(message != MPI_MESSAGE_NULL);
      EXPECT_OK(MPI_Mrecv(in, bytes, MPI_BYTE, &message, &received));
      EXPECT(message == MPI_MESSAGE_NULL);
      break;
    default:
      while (!flag) EXPECT_OK(MPI_Improbe(source, any, MPI_COMM_WORLD, &flag, &message, &status));
      check(NULL, &status, from, tag, bytes);
      EXPECT_OK(MPI_Imrecv(in, bytes, MPI_BYTE, &message, &receive));
      EXPECT(message == MPI_MESSAGE_NULL);
      EXPECT_OK(MPI_Wait(&receive, &received));
  }
  check(in, &received, from, tag, bytes);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  free(out);
  free(in);
}

// A message taken by Mprobe is gone for others; the next one is found instead.
static void taken(int bytes) {
  void* out[2] = {next_message(bytes, 1), next_message(bytes + 1, 1)};
  void* in = allocate(bytes + 1);
  MPI_Request sends[2];
  MPI_Message first;
  MPI_Status status;
  for (int i = 0; i < 2; ++i)
    MPI_Isend(out[i], bytes + i, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[i]);
  MPI_Mprobe(from, 1, MPI_COMM_WORLD, &first, &status);
  check(NULL, &status, from, 1, bytes);
  MPI_Recv(in, bytes + 1, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  check(in, &status, from, 1, bytes + 1);
  MPI_Mrecv(in, bytes, MPI_BYTE, &first, &status);
  check(in, &status, from, 1, bytes);
  MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
  free(out[0]);
  free(out[1]);
  free(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  int flag = 1;
  EXPECT_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int way = 0; way < 8; ++way)
    for (int i = 0; i < kNumSizes; ++i) {
      one(way, kSizes[i], 100 + i);
      // Neighbours must not run ahead: a wildcard tag would find the next message.
      if (way % 3 == 1) MPI_Barrier(MPI_COMM_WORLD);
    }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kNumSizes; ++i) {
    taken(kSizes[i]);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // A null process.
  MPI_Status status;
  MPI_Message message;
  EXPECT_OK(MPI_Probe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &status));
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  flag = 0;
  EXPECT_OK(MPI_Iprobe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_Mprobe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &message, &status));
  EXPECT(message == MPI_MESSAGE_NO_PROC);
  EXPECT_OK(MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status));
  EXPECT(message == MPI_MESSAGE_NULL);
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, 0);
  return end();
}
