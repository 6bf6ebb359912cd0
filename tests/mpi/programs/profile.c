// The profiling interface: a program's own MPI_Send and MPI_Allreduce are called in place of the
// library's, which is reached as PMPI_.
#include "expect.h"

static int sends, reductions;

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  sends++;
  return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  reductions++;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int value = rank, got = -1, sum = -1;
  MPI_Request request;
  MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &request);
  EXPECT_OK(MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(got, (rank + size - 1) % size);
  EXPECT_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT_EQ(sum, size * (size - 1) / 2);
  // The library itself calls neither.
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Barrier(copy);
  MPI_Comm_free(&copy);
  EXPECT_EQ(sends, 1);
  EXPECT_EQ(reductions, 1);
  return end();
}
