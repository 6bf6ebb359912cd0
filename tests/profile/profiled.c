// Calls whose numbers profile_test.py knows. With "leave", rank 1 ends before MPI_Finalize.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  int rank, size, level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  char out[100] = "x", in[100];
  if (argc > 1 && strcmp(argv[1], "leave") == 0) {
    if (rank == 1) _Exit(7);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS) {
    }
    MPI_Finalize();
    return 0;
  }

  // 3 messages of 100 bytes to the right, and one of 10 to nobody.
  for (int i = 0; i < 3; ++i)
    MPI_Sendrecv(out, 100, MPI_CHAR, right, 0, in, 100, MPI_CHAR, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  MPI_Send(out, 10, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  // 2 of 5 ints to the right in the reverse order of ranks, which is the left in the world.
  MPI_Comm reverse;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reverse);
  MPI_Comm_set_name(reverse, "reverse");
  int numbers[5] = {1, 2, 3, 4, 5}, got[5], place;
  MPI_Comm_rank(reverse, &place);
  MPI_Request requests[2];
  MPI_Comm once;  // freed before they start
  MPI_Comm_dup(reverse, &once);
  MPI_Send_init(numbers, 5, MPI_INT, (place + 1) % size, 1, once, &requests[0]);
  MPI_Recv_init(got, 5, MPI_INT, (place + size - 1) % size, 1, once, &requests[1]);
  MPI_Comm_free(&once);
  for (int i = 0; i < 2; ++i) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  // In place, what stands for the data to send means nothing.
  MPI_Allreduce(MPI_IN_PLACE, numbers, 5, MPI_INT, MPI_MAX, reverse);
  MPI_Allreduce(numbers, got, 5, MPI_INT, MPI_MAX, reverse);
  MPI_Comm_free(&reverse);
  // Not counted, nor is what fails counted with a communicator.
  MPI_Pcontrol(0);
  for (int i = 0; i < 50; ++i) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Pcontrol(1);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Send(out, 1, MPI_CHAR, size, 0, MPI_COMM_WORLD);
  // More communicators than the report tells apart, each called differently.
  for (int i = 0; i < 100; ++i) {
    MPI_Comm copy;
    char name[32];
    snprintf(name, sizeof name, "copy %d", i);
    if (i == 1 && rank == size - 1) strcpy(name, "caf\xe9");  // no UTF-8
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_name(copy, name);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
  }
  if (rank == 0) puts("as expected");
  MPI_Finalize();
  return 0;
}
