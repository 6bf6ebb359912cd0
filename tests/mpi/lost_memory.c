// A bit of everything that Weft gets memory for, and gives back.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm twin;
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, twin);
  // Short ones, and one that is announced.
  const int longest = 200000;
  char* data = calloc((size_t)longest, 1);
  for (int bytes = 1; bytes <= longest; bytes = bytes * 7 + 1) {
    MPI_Request request;
    MPI_Isend(data, bytes, MPI_CHAR, (rank + 1) % size, 1, twin, &request);
    MPI_Recv(data, bytes, MPI_CHAR, MPI_ANY_SOURCE, 1, twin, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Datatype column;
  MPI_Type_vector(10, 1, 10, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Type_free(&column);
  int* memory;
  MPI_Win window;
  MPI_Win_allocate(64, 4, MPI_INFO_NULL, twin, &memory, &window);
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  MPI_Comm_free(&twin);
  free(data);
  MPI_Finalize();
  return sum == size * (size - 1) / 2 ? 0 : 1;
}
