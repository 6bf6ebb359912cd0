// Messages between two processes are received in the order of sending, whatever their sizes, and
// wildcards match what they should and nothing else.
#include "expect.h"

enum { kMessages = 200 };

static int bytes_of(int source, int i) {
  // Small and large in turn, so that a later small one could overtake an earlier large one.
  static const int sizes[] = {4, 70000, 16, 300, 5000, 12, 40000, 9};
  return sizes[(i + source) % 8];
}

// Every process sends the same tag many times to rank 0; with any source the messages of each
// sender still come in order.
static void same_tag(int wildcard_source, int wildcard_tag) {
  int* buffer = allocate(80000);
  if (rank == 0) {
    int* next = calloc(size, sizeof(int));
    for (int i = 0; i < kMessages * (size - 1); ++i) {
      MPI_Status status;
      int source = wildcard_source ? MPI_ANY_SOURCE : 1 + i % (size - 1);
      int tag = wildcard_tag ? MPI_ANY_TAG : 5;
      EXPECT_OK(MPI_Recv(buffer, 80000, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status));
      int from = status.MPI_SOURCE, bytes;
      if (!wildcard_source) EXPECT_EQ(from, source);
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      EXPECT_EQ(status.MPI_TAG, 5);
      EXPECT_EQ(buffer[0], next[from]);
      EXPECT_EQ(bytes, bytes_of(from, next[from]));
      next[from]++;
    }
    for (int i = 1; i < size; ++i) EXPECT_EQ(next[i], kMessages);
    free(next);
  } else {
    memset(buffer, 0, 80000);
    for (int i = 0; i < kMessages; ++i) {
      buffer[0] = i;
      EXPECT_OK(MPI_Send(buffer, bytes_of(rank, i), MPI_BYTE, 0, 5, MPI_COMM_WORLD));
    }
  }
  free(buffer);
}

// Receives by tag in the reverse order of sending: all but the last are unexpected first.
static void reverse_tags(void) {
  int peer = rank ^ 1;
  if (peer >= size) return;
  MPI_Request requests[50];
  int values[50];
  for (int i = 0; i < 50; ++i) {
    values[i] = rank * 1000 + i;
    EXPECT_OK(MPI_Isend(&values[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]));
  }
  for (int i = 49; i >= 0; --i) {
    int value = -1;
    EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_EQ(value, peer * 1000 + i);
  }
  EXPECT_OK(MPI_Waitall(50, requests, MPI_STATUSES_IGNORE));
}

// Posted receives match in the order of posting: of wildcard and exact ones, the first that fits.
static void posted_order(void) {
  MPI_Request requests[4];
  MPI_Status statuses[4];
  int values[4] = {-1, -1, -1, -1};
  int peer = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Irecv(&values[0], 1, MPI_INT, from, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &requests[1]);
  MPI_Irecv(&values[2], 1, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
  MPI_Irecv(&values[3], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]);
  MPI_Barrier(MPI_COMM_WORLD);
  int sent[4] = {10, 11, 12, 13};
  int tags[4] = {8, 8, 7, 9};  // 8 -> second, 8 -> third, 7 -> first, 9 -> fourth
  for (int i = 0; i < 4; ++i) MPI_Send(&sent[i], 1, MPI_INT, peer, tags[i], MPI_COMM_WORLD);
  EXPECT_OK(MPI_Waitall(4, requests, statuses));
  EXPECT_EQ(values[0], 12);
  EXPECT_EQ(values[1], 10);
  EXPECT_EQ(values[2], 11);
  EXPECT_EQ(values[3], 13);
  EXPECT_EQ(statuses[2].MPI_TAG, 8);
  EXPECT_EQ(statuses[3].MPI_TAG, 9);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(statuses[i].MPI_SOURCE, from);
}

// A wildcard receive in one communicator never takes a message of another.
static void contexts(void) {
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  int peer = (rank + 1) % size, a = 1, b = 2, got = 0;
  MPI_Request requests[3];
  MPI_Isend(&a, 1, MPI_INT, peer, 3, other, &requests[0]);
  MPI_Isend(&b, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
  MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
  EXPECT_EQ(got, 2);
  MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE);
  EXPECT_EQ(got, 1);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&other);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (size > 1) {
    same_tag(0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    same_tag(1, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    same_tag(1, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    same_tag(0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    reverse_tags();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  posted_order();
  MPI_Barrier(MPI_COMM_WORLD);
  contexts();
  // The largest tag is usable.
  int flag, *largest, peer = (rank + 1) % size, value = rank, got = -1;
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &flag));
  EXPECT(flag && *largest >= 32767);
  MPI_Sendrecv(&value, 1, MPI_INT, peer, *largest, &got, 1, MPI_INT, MPI_ANY_SOURCE, *largest,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT_EQ(got, (rank + size - 1) % size);
  return end();
}
