// For weftrun --check: a thread calls MPI that was not promised to; "right": the one that may.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

static void* call(void* unused) {
  MPI_Barrier(MPI_COMM_SELF);
  return unused;
}

int main(int argc, char** argv) {
  int provided, rank;
  const int is_right = argc > 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pthread_t thread;
  if (is_right) {
    call(NULL);
  } else {
    pthread_create(&thread, NULL, call, NULL);
    pthread_join(thread, NULL);
  }
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
