// Rank 1 ends by the signal that the argument asks for.
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITSELF __attribute__((noinline, no_sanitize_address, no_sanitize_undefined))

static volatile int zero = 0, is_endless = 1;
static int* volatile target;
static void (*volatile nothing)(void);

ITSELF static int divide(int value) { return value / zero; }

ITSELF static void write_there(int value) { *target = value; }

static inline __attribute__((always_inline)) void inlined(int value) { write_there(value); }

ITSELF static int recurse(int depth) {
  volatile char room[1000];
  room[depth % 1000] = (char)depth;
  return is_endless ? recurse(depth + 1) + room[0] : 0;
}

static void* give_up(void* argument) {
  if (argument == NULL) abort();
  return argument;
}

static void* both(void* barrier) {
  pthread_barrier_wait(barrier);
  write_there(1);
  return NULL;
}

static void broken_op(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)in, (void)inout, (void)length, (void)type;
  write_there(1);
}

static void own_handler(int number) {
  (void)number;
  static const char text[] = "its own handler\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(4);
  _exit(3);
}

static int in_child(void) {
  const pid_t child = fork();
  if (child == 0) abort();
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 0 : 5;
}

static int crash(const char* kind) {
  if (strcmp(kind, "write") == 0) inlined(1);
  if (strcmp(kind, "fpe") == 0) return divide(1);
  if (strcmp(kind, "full") == 0) return recurse(0);
  if (strcmp(kind, "null") == 0) nothing();
  if (strcmp(kind, "child") == 0) return in_child();
  if (strcmp(kind, "send") == 0) MPI_Send((void*)16, 10, MPI_INT, 0, 7, MPI_COMM_WORLD);
  if (strcmp(kind, "op") == 0) {
    MPI_Op op;
    int value = 1, sum = 0;
    MPI_Op_create(broken_op, 1, &op);
    MPI_Reduce_local(&value, &sum, 1, MPI_INT, op);
  }
  if (strcmp(kind, "before") == 0) raise(SIGSEGV);
  if (strcmp(kind, "after") == 0) {
    signal(SIGSEGV, own_handler);
    raise(SIGSEGV);
  }
  pthread_t threads[2];
  if (strcmp(kind, "thread") == 0) {
    pthread_create(&threads[0], NULL, give_up, NULL);
    pthread_join(threads[0], NULL);
  }
  if (strcmp(kind, "threads") == 0) {
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, both, &barrier);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "";
  // The sanitizers have handlers.
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE};
  for (int i = 0; i < 3; ++i) signal(numbers[i], SIG_DFL);
  if (strcmp(kind, "before") == 0) signal(SIGSEGV, own_handler);
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int status = rank == 1 ? crash(kind) : 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("as expected");
  MPI_Finalize();
  return status;
}
