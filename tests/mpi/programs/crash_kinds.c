// Rank 1 ends by the signal that the argument asks for.
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int zero = 0, is_endless = 1;
static void (*volatile nothing)(void);

__attribute__((noinline)) static int divide(int value) { return value / zero; }

__attribute__((noinline)) static int recurse(int depth) {
  volatile char room[1000];
  room[depth % 1000] = (char)depth;
  return is_endless ? recurse(depth + 1) + room[0] : 0;
}

__attribute__((noinline)) static void* give_up(void* argument) {
  abort();
  return argument;
}

static void broken_op(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)in, (void)length, (void)type;
  raise(SIGSEGV);
  (void)inout;
}

static void own_handler(int number) {
  (void)number;
  static const char text[] = "its own handler\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(4);
  _exit(3);
}

static void in_mpi(void) {
  MPI_Op op;
  MPI_Op_create(broken_op, 1, &op);
  int value = 1, sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, op, MPI_COMM_SELF);
  MPI_Reduce_local(&value, &sum, 1, MPI_INT, op);
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "";
  if (strcmp(kind, "before") == 0) signal(SIGSEGV, own_handler);
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) {
    if (strcmp(kind, "fpe") == 0) return divide(rank);
    if (strcmp(kind, "full") == 0) return recurse(0);
    if (strcmp(kind, "null") == 0) nothing();
    if (strcmp(kind, "op") == 0) in_mpi();
    if (strcmp(kind, "before") == 0) raise(SIGSEGV);
    if (strcmp(kind, "after") == 0) {
      signal(SIGSEGV, own_handler);
      raise(SIGSEGV);
    }
    if (strcmp(kind, "thread") == 0) {
      pthread_t thread;
      pthread_create(&thread, NULL, give_up, NULL);
      pthread_join(thread, NULL);
    }
    if (strcmp(kind, "child") == 0) {
      const pid_t child = fork();
      if (child == 0) abort();
      int status = 0;
      waitpid(child, &status, 0);
      if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) return 5;
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("as expected");
  MPI_Finalize();
  return 0;
}
