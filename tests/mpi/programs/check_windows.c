// For weftrun --check: the buffer of a get is changed before the fence, and the window's memory is
// given back before the window; "right": afterwards.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, got = 0;
  const int is_right = argc > 1;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int* memory = calloc(1, sizeof(int));
  MPI_Win_create(memory, sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  if (rank == 0) MPI_Get(&got, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
  if (!is_right) got = 5;
  MPI_Win_fence(0, window);
  if (is_right) MPI_Win_free(&window);
  free(memory);
  if (!is_right) MPI_Win_free(&window);
  MPI_Finalize();
  if (rank == 0 && got == (is_right ? 0 : got)) puts("as expected");
  return 0;
}
