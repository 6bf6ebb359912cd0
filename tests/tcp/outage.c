/* An MPI job for tests/tcp/outages, whose network fails now and then.
 *
 *   outage SECONDS   rounds of messages, collectives and remote memory, all results checked. Rank 0
 *                    says "ready" once they run, and "as expected" at the end.
 *   outage until     the same until an error, which every rank says, with the seconds since the
 *                    last good round: "error of rank R after N: TEXT". Exit status 3.
 *   outage parent    the same, by processes that have started a program: "child PID".
 *   outage forked    the same, by processes that have forked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { most = 300000 };

static int rank, size, until;
static double last_good;

static void fail(const char* what, int round) {
  printf("rank %d, round %d: %s\n", rank, round, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  printf("error of rank %d after %.1f: %s\n", rank, MPI_Wtime() - last_good, text);
  fflush(stdout);
  if (!until) MPI_Abort(MPI_COMM_WORLD, 1);
  sleep(4); /* the others are to find the same, and not this end */
  exit(3);
}

static void start_child(int starts_program) {
  const pid_t child = fork();
  if (child == 0) {
    if (!starts_program) sleep(120);
    execlp("sleep", "sleep", "120", NULL);
    _exit(1);
  }
  printf("child %d\n", (int)child);
  fflush(stdout);
}

static unsigned char byte_of(int from, int round, int i) {
  return (unsigned char)(from * 31 + round * 7 + i * 13 + i / 251);
}

static void pass_on(unsigned char* out, unsigned char* in, int round) {
  static const int lengths[] = {8, 0, 300, 5000, 70000, 16369, most};
  const int length = lengths[round % 7];
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Status status;
  int count = -1;
  for (int i = 0; i < length; ++i) out[i] = byte_of(rank, round, i);
  memset(in, 0, most);
  must(MPI_Sendrecv(out, length, MPI_BYTE, next, round % 1000, in, most, MPI_BYTE, before,
                    round % 1000, MPI_COMM_WORLD, &status));
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count != length) fail("a message of another length", round);
  for (int i = 0; i < length; ++i)
    if (in[i] != byte_of(before, round, i)) fail("a message of another content", round);
}

static void add_up(int round) {
  long own[4], sum[4];
  for (int i = 0; i < 4; ++i) own[i] = (long)rank * (i + 1) + round;
  must(MPI_Allreduce(own, sum, 4, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  for (int i = 0; i < 4; ++i)
    if (sum[i] != (long)size * (size - 1) / 2 * (i + 1) + (long)size * round) fail("a sum", round);
}

static void put(MPI_Win win, const long* memory, int round) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const long value = (long)rank << 32 | round, one = 1;
  long got = 0, count = -1;
  must(MPI_Win_lock_all(0, win));
  must(MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win));
  must(MPI_Fetch_and_op(&one, &count, MPI_LONG, next, 1, MPI_SUM, win));
  must(MPI_Win_flush(next, win));
  must(MPI_Get(&got, 1, MPI_LONG, next, 0, 1, MPI_LONG, win));
  must(MPI_Win_unlock_all(win));
  if (got != value) fail("a put is not there", round);
  if (count != round) fail("a sum in memory", round);
  must(MPI_Barrier(MPI_COMM_WORLD));
  if (memory[0] != ((long)before << 32 | round)) fail("a put from before", round);
  must(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1;
  unsigned char *out = malloc(most), *in = malloc(most);
  long* memory = NULL;
  MPI_Win win;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int forks = argc > 1 && strcmp(argv[1], "forked") == 0;
  const int is_parent = forks || (argc > 1 && strcmp(argv[1], "parent") == 0);
  until = is_parent || (argc > 1 && strcmp(argv[1], "until") == 0);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  must(MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                        &win));
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  memory[0] = memory[1] = 0;
  if (is_parent) start_child(!forks);
  must(MPI_Barrier(MPI_COMM_WORLD));
  const double begin = MPI_Wtime();
  for (int round = 0, go_on = 1; go_on; ++round) {
    last_good = MPI_Wtime();
    if (round == 1 && rank == 0) {
      printf("ready\n");
      fflush(stdout);
    }
    pass_on(out, in, round);
    add_up(round);
    put(win, memory, round);
    go_on = until || MPI_Wtime() - begin < seconds;
    must(MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD));
  }
  must(MPI_Win_free(&win));
  if (rank == 0) printf("as expected\n");
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
