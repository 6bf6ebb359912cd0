// death WHO WHAT: one process is killed while the others are at work.
//   WHO   a rank; `all` (every process and the launcher); `launcher`
//   WHAT  what the others are doing: recv, any, send, barrier, allreduce, compute; test or probe:
//         asking again and again whether something has come, never waiting for it; windows: long
//         messages in both directions, in the middle of which the process dies; or unmet: of three,
//         rank 1 is dead before rank 0 says the first word to it
// By default nobody says anything here: the launcher and the library must. With a third argument
// `return` the error handler is MPI_ERRORS_RETURN and the survivors go on (the launcher must have
// been told to let them).
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

// Windows of long messages between the victim and everybody else, until an error; the victim dies
// with some of them under way.
static int windows(int victim) {
  enum { kWindow = 6, kBytes = 1 << 20, kMostPeers = 3 };
  static char out[kBytes], in[kBytes];
  MPI_Request requests[kMostPeers * kWindow * 2];
  MPI_Status statuses[kMostPeers * kWindow * 2];
  for (int round = 0;; ++round) {
    int num = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank || (rank != victim && peer != victim)) continue;
      for (int i = 0; i < kWindow; ++i) {
        MPI_Irecv(in, kBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[num++]);
        MPI_Isend(out, kBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[num++]);
      }
    }
    for (int left = num; rank == victim && round == 30; --left) {
      int done;
      if (left == num / 2) raise(SIGKILL);
      MPI_Waitany(num, requests, &done, MPI_STATUS_IGNORE);
    }
    if (MPI_Waitall(num, requests, statuses) == MPI_SUCCESS) continue;
    int code = MPI_SUCCESS;
    for (int i = 0; i < num && code == MPI_SUCCESS; ++i)
      if (statuses[i].MPI_ERROR != MPI_ERR_PENDING) code = statuses[i].MPI_ERROR;
    return code;
  }
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
  if (strcmp(what, "test") == 0) {
    MPI_Request request;
    MPI_Irecv(data, sizeof data, MPI_BYTE, victim, 1, MPI_COMM_WORLD, &request);
    for (int flag = 0, code = 0;;)
      if ((code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE)) != 0 || flag) return code;
  }
  if (strcmp(what, "probe") == 0)
    for (int flag = 0, code = 0;;)
      if ((code = MPI_Iprobe(victim, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE)) != 0 || flag)
        return code;
  if (strcmp(what, "windows") == 0) return windows(victim);
  if (strcmp(what, "barrier") == 0) return MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(what, "allreduce") == 0)
    return MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (volatile unsigned steps = 0;;) steps++;  // computes and never calls the library
}

// What a death may take to be told, in seconds. Between hosts only silence tells it, and whoever
// counts that may be late on a machine that starves.
static double patience(void) {
  const char* silence = getenv("WEFT_PEER_TIMEOUT_MS");
  return silence != NULL ? 2 * atof(silence) / 1000 : 10;
}

// The survivors, with MPI_ERRORS_RETURN: pending and later operations with the dead process fail,
// others go on as if nothing had happened.
static void survive(const char* what, int victim) {
  double start = seconds();
  int value = rank, got = -1;
  MPI_Request request;
  EXPECT_OK(MPI_Irecv(&got, 1, MPI_INT, victim, 5, MPI_COMM_WORLD, &request));
  EXPECT_CLASS(operation(what, victim), MPIX_ERR_PROC_FAILED);
  EXPECT(seconds() - start < patience());
  // What the error says names the process.
  char text[MPI_MAX_ERROR_STRING], name[32];
  int length;
  MPI_Error_string(MPIX_ERR_PROC_FAILED, text, &length);
  snprintf(name, sizeof name, "rank %d (pid ", victim);
  EXPECT(strstr(text, name) != NULL);
  EXPECT_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
  for (int i = 0; i < 3; ++i) {
    EXPECT_CLASS(MPI_Ssend(&value, 1, MPI_INT, victim, 6, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    EXPECT_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                 MPIX_ERR_PROC_FAILED);
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

// Rank 2 sees to it that rank 1 is dead and that rank 0, outside the library, has not noticed.
static void meet_the_dead(void) {
  int pid = (int)getpid(), pids[2];
  double start = seconds();
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, SIGUSR1);
  sigprocmask(SIG_BLOCK, &wake, NULL);
  if (rank == 2) {
    for (int i = 0; i < 2; ++i)
      MPI_Recv(&pids[i], 1, MPI_INT, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    kill(pids[1], SIGKILL);
    while (kill(pids[1], 0) == 0 && seconds() - start < 10) sched_yield();
    kill(pids[0], SIGUSR1);
  } else {
    MPI_Ssend(&pid, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
    while (rank == 1) pause();
    struct timespec limit = {10, 0};
    EXPECT_EQ(sigtimedwait(&wake, NULL, &limit), SIGUSR1);
    EXPECT_CLASS(MPI_Send(&pid, 1, MPI_INT, 1, 1, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    if (num_failures == 0) printf("as expected\n");
    fflush(stdout);
  }
  _exit(num_failures ? 1 : 0);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char *who = argc > 1 ? argv[1] : "0", *what = argc > 2 ? argv[2] : "recv";
  int returning = argc > 3 && strcmp(argv[3], "return") == 0;
  if (returning) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (strcmp(what, "unmet") == 0) meet_the_dead();
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
    if (strcmp(what, "windows") == 0) windows(victim);
    raise(SIGKILL);
  }
  if (returning) survive(what, victim);
  operation(what, victim);
  // Only reached if the library let an operation with the dead succeed.
  fprintf(stderr, "rank %d: %s succeeded\n", rank, what);
  return 9;
}
