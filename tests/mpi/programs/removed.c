// Functions that MPI 3.0 removed, as old programs call them.
#include "expect.h"

typedef struct {
  int i;
  double d;
  char c[3];
} Record;

static int num_errors;

static void note_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  num_errors++;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  Record out = {rank, rank + 0.5, {1, 2, (char)rank}}, in = {-1, -1, {0, 0, 0}};
  int lengths[3] = {1, 1, 3};
  MPI_Aint places[3], base, extent, lb = -1, ub = -1;
  MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, record, rows;
  EXPECT_OK(MPI_Address(&out, &base));
  EXPECT_OK(MPI_Address(&out.i, &places[0]));
  EXPECT_OK(MPI_Address(&out.d, &places[1]));
  EXPECT_OK(MPI_Address(out.c, &places[2]));
  for (int i = 0; i < 3; ++i) places[i] -= base;
  EXPECT_OK(MPI_Type_struct(3, lengths, places, types, &record));
  EXPECT_OK(MPI_Type_commit(&record));
  EXPECT_OK(MPI_Type_extent(record, &extent));
  EXPECT_EQ(extent, sizeof(Record));
  EXPECT_OK(MPI_Sendrecv(&out, 1, record, to, 1, &in, 1, record, from, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
  EXPECT(in.i == from && in.d == from + 0.5 && in.c[2] == (char)from);
  EXPECT_OK(MPI_Type_hvector(2, 1, 100, record, &rows));
  EXPECT_OK(MPI_Type_lb(rows, &lb));
  EXPECT_OK(MPI_Type_ub(rows, &ub));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Type_lb(rows, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Type_ub(rows, NULL), MPI_ERR_ARG);
  EXPECT(lb == 0 && ub == 100 + (MPI_Aint)sizeof(Record));
  EXPECT_OK(MPI_Type_free(&rows));
  places[0] = 8;
  EXPECT_OK(MPI_Type_hindexed(1, lengths, places, MPI_INT, &rows));
  EXPECT_OK(MPI_Type_lb(rows, &lb));
  EXPECT_EQ(lb, 8);
  MPI_Type_free(&rows);
  MPI_Type_free(&record);

  MPI_Errhandler handler, set;
  EXPECT_OK(MPI_Errhandler_create(note_error, &handler));
  EXPECT_OK(MPI_Errhandler_set(MPI_COMM_WORLD, handler));
  EXPECT_OK(MPI_Errhandler_get(MPI_COMM_WORLD, &set));
  EXPECT(set == handler);
  EXPECT(MPI_Send(&rank, 1, MPI_INT, size, 1, MPI_COMM_WORLD) != MPI_SUCCESS);
  EXPECT_EQ(num_errors, 1);
  MPI_Errhandler_free(&set);
  MPI_Errhandler_free(&handler);
  return end();
}
