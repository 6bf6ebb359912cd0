// For weftrun --check: nothing here is wrong, and the data are what they are without it. Requests
// that are known to be complete; gets into a window and into larger buffers; two windows of one
// memory, one after the other; nobody at the other end; no elements of different types; failed
// waits; a child that ends; threads that only free memory; objects in blocks that hold several.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, failures;

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition) && failures++ < 5)                                      \
      printf("rank %d, line %d: %s is false\n", rank, __LINE__, #condition); \
  } while (0)

static void known_requests(void) {
  int value = 40 + rank, other = 0, is_complete = 0;
  MPI_Request request;
  MPI_Isend(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &request);
  MPI_Recv(&other, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  while (!is_complete) MPI_Request_get_status(request, &is_complete, MPI_STATUS_IGNORE);
  value = 0;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(other == 41 - rank);
}

static void gets(void) {
  int memory[8], twice[16], more[8], is_complete = 0;
  MPI_Win window, second;
  MPI_Request request;
  for (int i = 0; i < 8; ++i) memory[i] = 10 * rank + i, more[i] = -i;
  MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Get(&memory[4], 2, MPI_INT, 1 - rank, 0, 2, MPI_INT, window);
  MPI_Get(more, 8, MPI_INT, 1 - rank, 2, 2, MPI_INT, window);
  MPI_Get(twice, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Get(twice, 1, MPI_INT, 1 - rank, 4, 1, MPI_INT, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  CHECK(memory[4] == 10 * (1 - rank) && more[1] == 10 * (1 - rank) + 3 && more[2] == -2);
  CHECK(twice[0] == 10 * rank);
  MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &second);
  MPI_Win_lock_all(0, second);
  MPI_Rget(twice, 1, MPI_INT, 1 - rank, 1, 1, MPI_INT, second, &request);
  while (!is_complete) MPI_Request_get_status(request, &is_complete, MPI_STATUS_IGNORE);
  CHECK(twice[0] == 10 * (1 - rank) + 1);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(second);
  MPI_Win_free(&second);
  MPI_Win_free(&window);
}

static void nothing_to_send(void) {
  char none = 0;
  if (rank == 0)
    MPI_Gather(&none, 0, MPI_CHAR, &none, 0, MPI_INT, 0, MPI_COMM_WORLD);
  else
    MPI_Gather(&none, 0, MPI_DOUBLE, NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
}

static void failed_waits(void) {
  int values[4] = {1, 2, 3, 4}, one = 0, index = -1;
  if (rank == 0) {
    MPI_Send(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD);
    MPI_Send(values, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Irecv(&one, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
    CHECK(MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    MPI_Recv(&one, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK(one == 1);
  }
}

struct Shared {
  int number;
  double values[];
};

static void parts_of_blocks(void) {
  struct Shared* block = calloc(1, sizeof *block + 8 * sizeof(double));
  block->number = rank;
  MPI_Bcast(block->values, 8, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  free(block);
}

static volatile int is_over;
static void* use_memory(void* unused) {
  while (!is_over) free(malloc(100));
  return unused;
}

static void other_threads_and_children(void) {
  pthread_t thread;
  int values[64] = {0};
  pthread_create(&thread, NULL, use_memory, NULL);
  for (int i = 0; i < 200; ++i) {
    MPI_Request requests[2];
    MPI_Irecv(values, 32, MPI_INT, 1 - rank, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(values + 32, 32, MPI_INT, 1 - rank, 6, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  int* sent = calloc(4, sizeof(int));
  MPI_Request request;
  MPI_Isend(sent, 4, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, &request);
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    int status = -1;
    if (child == 0) {
      free(sent);
      free(malloc(10));
      _exit(0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  MPI_Recv(values, 4, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(sent);
  is_over = 1;
  pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  known_requests();
  gets();
  nothing_to_send();
  failed_waits();
  parts_of_blocks();
  other_threads_and_children();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0 && failures == 0) puts("as expected");
  return failures != 0;
}
