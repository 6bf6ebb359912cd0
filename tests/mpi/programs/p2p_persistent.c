// Persistent requests of every mode: started many times, singly and together, with partial waits.
#include "expect.h"

enum { kRounds = 20 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  static const int sizes[4] = {8, 3000, 60000, 700000};
  int room = 4000000;
  void* attached = allocate(room);
  MPI_Buffer_attach(attached, room);
  MPI_Request requests[8];
  unsigned char *out[4], *in[4];
  for (int i = 0; i < 4; ++i) {
    out[i] = allocate(sizes[i]);
    in[i] = allocate(sizes[i]);
  }
  for (int i = 0; i < 4; ++i)
    EXPECT_OK(MPI_Recv_init(in[i], sizes[i], MPI_BYTE, i % 2 ? from : MPI_ANY_SOURCE, i,
                            MPI_COMM_WORLD, &requests[i]));
  EXPECT_OK(MPI_Send_init(out[0], sizes[0], MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[4]));
  EXPECT_OK(MPI_Ssend_init(out[1], sizes[1], MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[5]));
  EXPECT_OK(MPI_Bsend_init(out[2], sizes[2], MPI_BYTE, to, 2, MPI_COMM_WORLD, &requests[6]));
  EXPECT_OK(MPI_Rsend_init(out[3], sizes[3], MPI_BYTE, to, 3, MPI_COMM_WORLD, &requests[7]));

  // Inactive: complete at once, empty status, and the request stays.
  MPI_Status status, statuses[8];
  int flag = 0;
  EXPECT_OK(MPI_Wait(&requests[0], &status));
  EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
  EXPECT_OK(MPI_Test(&requests[4], &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT(requests[0] != MPI_REQUEST_NULL);

  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 4; ++i) {
      fill(out[i], sizes[i], seed_of(rank, round, i));
      memset(in[i], 0, sizes[i]);
    }
    EXPECT_OK(MPI_Startall(4, requests));
    MPI_Barrier(MPI_COMM_WORLD);  // the ready send needs its receive
    for (int i = 4; i < 8; ++i) EXPECT_OK(MPI_Start(&requests[i]));
    if (round % 2) {
      EXPECT_OK(MPI_Waitall(8, requests, statuses));
    } else {
      for (int done = 0; done < 8; ++done) {
        int index = -1;
        EXPECT_OK(MPI_Waitany(8, requests, &index, &status));
        EXPECT(index >= 0 && index < 8);
        if (index < 0) break;
        statuses[index] = status;
      }
      int index;
      EXPECT_OK(MPI_Waitany(8, requests, &index, &status));  // all inactive now
      EXPECT_EQ(index, MPI_UNDEFINED);
    }
    for (int i = 0; i < 4; ++i) {
      int count;
      // Open MPI's persistent buffered send repeats the data of its first start.
      if (!(kOpenMpi && i == 2))
        EXPECT_EQ(first_difference(in[i], sizes[i], seed_of(from, round, i)), -1);
      EXPECT_EQ(statuses[i].MPI_SOURCE, from);
      EXPECT_EQ(statuses[i].MPI_TAG, i);
      MPI_Get_count(&statuses[i], MPI_BYTE, &count);
      EXPECT_EQ(count, sizes[i]);
    }
    for (int i = 0; i < 8; ++i) EXPECT(requests[i] != MPI_REQUEST_NULL);
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_OK(MPI_Request_free(&requests[i]));
    EXPECT(requests[i] == MPI_REQUEST_NULL);
  }

  // To and from nobody.
  int value = 3;
  EXPECT_OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]));
  EXPECT_OK(MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]));
  for (int round = 0; round < 3; ++round) {
    EXPECT_OK(MPI_Startall(2, requests));
    EXPECT_OK(MPI_Waitall(2, requests, statuses));
    if (!kMpich) EXPECT_EQ(statuses[0].MPI_SOURCE, MPI_PROC_NULL);  // there an empty status
    EXPECT_EQ(value, 3);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  int bytes;
  MPI_Buffer_detach(&attached, &bytes);
  free(attached);
  for (int i = 0; i < 4; ++i) {
    free(out[i]);
    free(in[i]);
  }
  return end();
}
