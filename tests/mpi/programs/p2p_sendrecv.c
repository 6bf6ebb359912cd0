// Sendrecv and Sendrecv_replace: rings of every size, different sizes each way, with itself, and
// with a null process on either side.
#include "expect.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Status status;
  int count;
  for (int step = 0; step < size && step < 3; ++step) {
    int to = (rank + step) % size, from = (rank - step + size) % size;
    for (int i = 0; i < kNumSizes; ++i) {
      int bytes = kSizes[i];
      unsigned char* out = allocate(bytes);
      unsigned char* in = allocate(bytes);
      fill(out, bytes, seed_of(rank, to, i));
      EXPECT_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, to, i, in, bytes, MPI_BYTE, from, i,
                             MPI_COMM_WORLD, &status));
      EXPECT_EQ(first_difference(in, bytes, seed_of(from, rank, i)), -1);
      EXPECT_EQ(status.MPI_SOURCE, from);
      EXPECT_EQ(status.MPI_TAG, i);
      EXPECT_OK(MPI_Sendrecv_replace(out, bytes, MPI_BYTE, to, i, from, MPI_ANY_TAG, MPI_COMM_WORLD,
                                     &status));
      EXPECT_EQ(first_difference(out, bytes, seed_of(from, rank, i)), -1);
      MPI_Get_count(&status, MPI_BYTE, &count);
      EXPECT_EQ(count, bytes);
#if MPI_VERSION >= 4
      MPI_Request request;
      fill(out, bytes, seed_of(rank, to, i + 100));
      EXPECT_OK(MPI_Isendrecv(out, bytes, MPI_BYTE, to, i, in, bytes, MPI_BYTE, from, i,
                              MPI_COMM_WORLD, &request));
      EXPECT_OK(MPI_Wait(&request, &status));
      EXPECT_EQ(first_difference(in, bytes, seed_of(from, rank, i + 100)), -1);
      EXPECT_EQ(status.MPI_SOURCE, from);
      EXPECT_EQ(status.MPI_TAG, i);
      EXPECT_OK(
          MPI_Isendrecv_replace(out, bytes, MPI_BYTE, to, i, from, i, MPI_COMM_WORLD, &request));
      EXPECT_OK(MPI_Wait(&request, &status));
      EXPECT_EQ(first_difference(out, bytes, seed_of(from, rank, i + 100)), -1);
#endif
      free(out);
      free(in);
    }
  }

  // Odd processes send much and receive little; different tags each way.
  if (size % 2 == 0) {
    int peer = rank ^ 1, mine = rank % 2 ? 500000 : 3, theirs = rank % 2 ? 3 : 500000;
    unsigned char* out = allocate(mine);
    unsigned char* in = allocate(theirs + 10);
    fill(out, mine, rank);
    EXPECT_OK(MPI_Sendrecv(out, mine, MPI_BYTE, peer, rank, in, theirs + 10, MPI_BYTE,
                           MPI_ANY_SOURCE, peer, MPI_COMM_WORLD, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    EXPECT_EQ(count, theirs);
    EXPECT_EQ(first_difference(in, theirs, peer), -1);
    free(out);
    free(in);
  }

  // Replacing a strided vector leaves the gaps as they are.
  MPI_Datatype strided;
  int values[30], to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Type_vector(10, 1, 3, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  for (int i = 0; i < 30; ++i) values[i] = rank * 100 + i;
  EXPECT_OK(MPI_Sendrecv_replace(values, 1, strided, to, 9, from, 9, MPI_COMM_WORLD, &status));
  for (int i = 0; i < 30; ++i) EXPECT_EQ(values[i], (i % 3 ? rank : from) * 100 + i);
  MPI_Type_free(&strided);

  // A line rather than a ring: the ends talk to nobody.
  int left = rank > 0 ? rank - 1 : MPI_PROC_NULL,
      right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  int value = rank, got = -7;
  EXPECT_OK(MPI_Sendrecv(&value, 1, MPI_INT, right, 4, &got, 1, MPI_INT, left, 4, MPI_COMM_WORLD,
                         &status));
  EXPECT_EQ(got, rank > 0 ? rank - 1 : -7);
  if (rank == 0) {
    EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(count, 0);
  }
  EXPECT_OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(value, rank);
  return end();
}
