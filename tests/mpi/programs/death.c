// death WHO WHAT: one process is killed while the others are at work.
//   WHO   a rank; `all` (every process and the launcher); `launcher`
//   WHAT  what the others are doing: recv, any, send, barrier, allreduce, compute
// By default nobody says anything here: the launcher and the library must. With a third argument
// `return` the error handler is MPI_ERRORS_RETURN and the survivors go on (the launcher must have
// been told to let them).
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

#ifndef MPI_ERR_PROC_ABORTED
#define MPI_ERR_PROC_ABORTED 58  // new with MPI 4.0
#endif

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static int operation(const char* what, int victim) {
  static char data[1 << 20];
  int value = 1, sum;
  if (strcmp(what, "recv") == 0)
    return MPI_Recv(data, sizeof data, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "any") == 0)
    return MPI_Recv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE);
  if (strcmp(what, "send") == 0)
    return MPI_Ssend(data, sizeof data, MPI_BYTE, victim, 1, MPI_COMM_WORLD);
  if (strcmp(what, "barrier") == 0) return MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(what, "allreduce") == 0)
    return MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (;;) value++;  // computes and never calls the library
}

// The survivors, with MPI_ERRORS_RETURN: pending and later operations with the dead process fail,
// others go on as if nothing had happened.
static void survive(const char* what, int victim) {
  double start = seconds();
  int value = rank, got = -1;
  MPI_Request request;
  EXPECT_OK(MPI_Irecv(&got, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, &request));
  EXPECT_CLASS(operation(what, victim), MPI_ERR_PROC_ABORTED);
  EXPECT(seconds() - start < 5);
  // What the error says names the process.
  char text[MPI_MAX_ERROR_STRING], name[32];
  int length;
  MPI_Error_string(MPI_ERR_PROC_ABORTED, text, &length);
  snprintf(name, sizeof name, "rank %d (pid ", victim);
  EXPECT(strstr(text, name) != NULL);
  EXPECT_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
  for (int i = 0; i < 3; ++i) {
    EXPECT_CLASS(MPI_Ssend(&value, 1, MPI_INT, victim, 6, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    EXPECT_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                 MPI_ERR_PROC_ABORTED);
  }
  // Around the ring of the others.
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  if (next == victim) next = (next + 1) % size;
  if (before == victim) before = (before + size - 1) % size;
  static unsigned char out[300000], in[300000];
  for (int i = 0; i < 20; ++i) {
    int bytes = i % 2 ? (int)sizeof out : 100;
    fill(out, bytes, seed_of(rank, i, 0));
    EXPECT_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, next, 7, in, bytes, MPI_BYTE, before, 7,
                           MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_EQ(first_difference(in, bytes, seed_of(before, i, 0)), -1);
  }
  // No agreement needed to leave: nobody may wait for the dead.
  if (num_failures == 0 && rank == (victim == 0 ? 1 : 0)) {
    printf("as expected\n");
    fflush(stdout);
  }
  _exit(num_failures ? 1 : 0);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char *who = argc > 1 ? argv[1] : "0", *what = argc > 2 ? argv[2] : "recv";
  int returning = argc > 3 && strcmp(argv[3], "return") == 0;
  if (returning) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // Everybody is connected with everybody, with small and with large messages.
  static unsigned char out[200000], in[200000];
  for (int step = 0; step < size; ++step)
    MPI_Sendrecv(out, sizeof out, MPI_BYTE, (rank + step) % size, 0, in, sizeof in, MPI_BYTE,
                 (rank + size - step) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int* pids = allocate(size * sizeof(int));
  int pid = (int)getpid();
  MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  int victim = atoi(who);
  if (strcmp(who, "all") == 0) {
    if (rank == 0) {
      kill(getppid(), SIGKILL);
      for (int i = size - 1; i >= 0; --i) kill(pids[i], SIGKILL);
    }
    victim = 0;
  } else if (strcmp(who, "launcher") == 0) {
    if (rank == 0) kill(getppid(), SIGKILL);
    victim = (rank + 1) % size;
  } else if (rank == victim) {
    raise(SIGKILL);
  }
  if (returning) survive(what, victim);
  operation(what, victim);
  // Only reached if the library let an operation with the dead succeed.
  fprintf(stderr, "rank %d: %s succeeded\n", rank, what);
  return 9;
}
