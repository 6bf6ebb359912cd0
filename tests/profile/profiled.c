// Calls whose numbers profile_test.py knows. With "leave", rank 1 ends before MPI_Finalize; with
// "late", ranks 0 and 1 wait for each other, and receives of all kinds get messages.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMessages = 8 };  // to the right

static void be_late(int rank) {
  const useconds_t kLate = 500000;
  char byte = 0;
  if (rank == 0) {
    MPI_Send(&byte, 1, MPI_CHAR, 1, 70, MPI_COMM_WORLD);
    MPI_Recv(&byte, 1, MPI_CHAR, 1, 71, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(kLate);
    MPI_Recv(&byte, 1, MPI_CHAR, 1, 72, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(&byte, 1, MPI_CHAR, 0, 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(kLate);
    MPI_Send(&byte, 1, MPI_CHAR, 0, 71, MPI_COMM_WORLD);
    MPI_Ssend(&byte, 1, MPI_CHAR, 0, 72, MPI_COMM_WORLD);
  }
}

static void receive_in_all_ways(int right, int left) {
  char out = 0, in[kMessages];
  MPI_Request sends[kMessages], requests[3];
  for (int i = 0; i < kMessages; ++i)
    MPI_Isend(&out, 1, MPI_CHAR, right, i / 2, MPI_COMM_WORLD, &sends[i]);
  int place, flag = 0, num, places[2];
  for (int i = 0; i < 2; ++i)
    MPI_Irecv(&in[i], 1, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
  MPI_Irecv(&in[2], 1, MPI_CHAR, left, 999, MPI_COMM_WORLD, &requests[2]);  // nobody sends it
  MPI_Cancel(&requests[2]);
  for (int i = 0; i < 2; ++i) MPI_Waitany(2, requests, &place, MPI_STATUS_IGNORE);
  MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
  for (int i = 0; i < 2; ++i)
    MPI_Irecv(&in[i], 1, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[i]);
  for (int left_over = 2; left_over > 0; left_over -= num)
    MPI_Waitsome(2, requests, &num, places, MPI_STATUSES_IGNORE);
  MPI_Irecv(&in[0], 1, MPI_CHAR, left, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
  while (!flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
  MPI_Message message;
  MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Mrecv(&in[0], 1, MPI_CHAR, &message, MPI_STATUS_IGNORE);
  MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(&in[0], 1, MPI_CHAR, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Irecv(&in[0], 1, MPI_CHAR, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
  MPI_Waitall(kMessages, sends, MPI_STATUSES_IGNORE);
}

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

  if (argc > 1 && strcmp(argv[1], "late") == 0) {
    be_late(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    receive_in_all_ways(right, left);
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
