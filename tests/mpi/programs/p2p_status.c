// Statuses: counts and elements of whole and broken types, and the calls that write them.
#include "expect.h"

typedef struct {
  int i;
  double d;
} Pair;

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int to = (rank + 1) % size, from = (rank + size - 1) % size, count, elements;
  MPI_Status status;
  MPI_Datatype pair;
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {offsetof(Pair, i), offsetof(Pair, d)};
  MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
  EXPECT_OK(MPI_Type_create_struct(2, lengths, places, types, &pair));
  EXPECT_OK(MPI_Type_commit(&pair));

  // With nobody at the other end the type may be null.
  if (!kOpenMpi) {
    MPI_Request nothing;
    EXPECT_OK(MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &nothing));
    EXPECT_OK(MPI_Wait(&nothing, &status));
    EXPECT(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    EXPECT_OK(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 3, MPI_COMM_WORLD));
  }

  // n whole pairs, then n and a half: the half has one element and makes the count undefined.
  for (int n = 0; n < 5; ++n) {
    Pair out[6], in[6];
    memset(in, 0, sizeof in);
    for (int i = 0; i < 6; ++i) {
      out[i].i = rank * 10 + i;
      out[i].d = rank + i * 0.5;
    }
    EXPECT_OK(MPI_Sendrecv(out, n, pair, to, n, in, 6, pair, from, n, MPI_COMM_WORLD, &status));
    EXPECT_OK(MPI_Get_count(&status, pair, &count));
    EXPECT_EQ(count, n);
    EXPECT_OK(MPI_Get_elements(&status, pair, &elements));
    EXPECT_EQ(elements, 2 * n);
    for (int i = 0; i < n; ++i) EXPECT(in[i].i == from * 10 + i && in[i].d == from + i * 0.5);
    MPI_Count large = -1;
    EXPECT_OK(MPI_Get_elements_x(&status, pair, &large));
    EXPECT_EQ(large, 2 * n);

    MPI_Datatype broken;
    int blocks[3] = {n, 1, 0};
    MPI_Aint at[3] = {0, n * (MPI_Aint)sizeof(Pair), 0};
    MPI_Datatype parts[3] = {pair, MPI_INT, MPI_INT};
    MPI_Type_create_struct(2, blocks, at, parts, &broken);
    MPI_Type_commit(&broken);
    EXPECT_OK(MPI_Sendrecv(out, 1, broken, to, n, in, 6, pair, from, n, MPI_COMM_WORLD, &status));
    EXPECT_OK(MPI_Get_count(&status, pair, &count));
    EXPECT_EQ(count, MPI_UNDEFINED);
    EXPECT_OK(MPI_Get_elements(&status, pair, &elements));
    EXPECT_EQ(elements, 2 * n + 1);
    EXPECT_EQ(in[n].i, from * 10 + n);
    MPI_Type_free(&broken);
  }

  // Bytes that do not divide.
  char bytes[7] = {0}, got[20];
  MPI_Sendrecv(bytes, 7, MPI_BYTE, to, 0, got, 20, MPI_BYTE, from, 0, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, MPI_UNDEFINED);
  MPI_Get_count(&status, MPI_BYTE, &count);
  EXPECT_EQ(count, 7);

  // What a program writes into a status is read back.
  memset(&status, 0, sizeof status);
  EXPECT_OK(MPI_Status_set_elements(&status, MPI_INT, 10));
  EXPECT_OK(MPI_Status_set_cancelled(&status, 0));
  EXPECT_OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT_EQ(count, 10);
  int flag = 1;
  EXPECT_OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Status_set_cancelled(&status, 1));
  EXPECT_OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_Status_set_elements_x(&status, MPI_INT, 12));
  EXPECT_OK(MPI_Get_elements(&status, MPI_INT, &elements));
  EXPECT_EQ(elements, 12);
  // As many elements as only 64 bits hold.
  EXPECT_OK(MPI_Status_set_elements_x(&status, MPI_BYTE, (MPI_Count)5000000000));
  EXPECT_OK(MPI_Get_count(&status, MPI_BYTE, &count));
  EXPECT_EQ(count, MPI_UNDEFINED);
  MPI_Count large = 0;
  EXPECT_OK(MPI_Get_elements_x(&status, MPI_BYTE, &large));
  EXPECT_EQ(large, 5000000000);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  int value = -1;
  EXPECT_OK(MPI_Status_set_source(&status, 3));
  EXPECT_OK(MPI_Status_set_tag(&status, 4));
  EXPECT_OK(MPI_Status_set_error(&status, MPI_ERR_TAG));
  EXPECT_EQ(status.MPI_SOURCE, 3);
  EXPECT_OK(MPI_Status_get_source(&status, &value));
  EXPECT_EQ(value, 3);
  EXPECT_OK(MPI_Status_get_tag(&status, &value));
  EXPECT_EQ(value, 4);
  EXPECT_OK(MPI_Status_get_error(&status, &value));
  EXPECT_EQ(value, MPI_ERR_TAG);
#endif
  // MPI_ERROR is left alone by calls that return one status.
  status.MPI_ERROR = 4711;
  MPI_Sendrecv(bytes, 1, MPI_BYTE, to, 0, got, 20, MPI_BYTE, from, 0, MPI_COMM_WORLD, &status);
  EXPECT_EQ(status.MPI_ERROR, 4711);
  MPI_Type_free(&pair);
  return end();
}
