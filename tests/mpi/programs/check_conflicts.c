// For weftrun --check: two ranks write the same element between two fences, and one rank twice
// before it flushes; "right": each has its element, sums are by MPI_Accumulate, and what is written
// in turn is flushed first.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, memory[8] = {0};
  const int is_right = argc > 1, value = 3;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  if (rank > 0) MPI_Put(&value, 1, MPI_INT, 0, is_right ? rank : 1, 1, MPI_INT, window);
  MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_lock_all(0, window);
  for (int turn = 0; turn < size; ++turn) {
    if (rank == turn) {
      MPI_Put(&value, 1, MPI_INT, 0, 7, 1, MPI_INT, window);
      if (is_right) MPI_Win_flush(0, window);
      MPI_Put(&value, 1, MPI_INT, 0, 7, 1, MPI_INT, window);
      MPI_Win_flush(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
  if (rank == 0 && memory[0] == 3 * size && memory[1] == 3 && memory[7] == 3) puts("as expected");
  return 0;
}
