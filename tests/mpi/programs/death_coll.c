// death_coll SEED HOW [VICTIMS]: some processes are killed at a random moment in a row of random
// collectives; everybody else must be told by an error of that communicator, and can go on.
//   HOW      blocking, nonblocking (completed by waiting or by testing), or mixed
//   VICTIMS  how many are killed, each at a moment of its own: 1, unless given
// Needs more processes than victims, and a launcher that lets the others go on.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { kMostRanks = 64, kLongest = 40000, kLimitSeconds = 90 };

static uint64_t state;
static int below(int n) { return (int)(next_random(&state) % (unsigned)n); }

static int a[kLongest * kMostRanks], b[kLongest * kMostRanks];

static const char* at = "the beginning";
static void hang(int signal) {
  (void)signal;
  char text[100];
  const int length = snprintf(text, sizeof text, "rank %d hangs in %s\n", rank, at);
  if (write(2, text, (size_t)length) < 0) _exit(8);
  _exit(9);
}

static int finish(MPI_Request* request, int tests) {
  if (!tests) return MPI_Wait(request, MPI_STATUS_IGNORE);
  for (int flag = 0;;) {
    const int code = MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || flag) return code;
  }
}

// One collective, drawn alike by all.
static int one(MPI_Comm comm, const char* how) {
  enum { kLengths = 5 };
  static const int lengths[kLengths] = {1, 10, 500, 5000, kLongest};
  const int what = below(9), root = below(size), draw = below(kLengths), length = lengths[draw];
  const int block = draw == kLengths - 1 ? 2000 : length;
  const int background = strcmp(how, "mixed") == 0 ? below(2) : strcmp(how, "nonblocking") == 0;
  const int tests = below(2);
  MPI_Request r = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
#define CALL(Name, INAME, ...)                                                            \
  at = "MPI_" #Name;                                                                      \
  code = background ? MPI_##INAME(__VA_ARGS__, comm, &r) : MPI_##Name(__VA_ARGS__, comm); \
  break
  switch (what) {
    case 0:
      at = "MPI_Barrier";
      code = background ? MPI_Ibarrier(comm, &r) : MPI_Barrier(comm);
      break;
    case 1:
      CALL(Bcast, Ibcast, a, length, MPI_INT, root);
    case 2:
      CALL(Reduce, Ireduce, a, b, length, MPI_INT, MPI_SUM, root);
    case 3:
      CALL(Allreduce, Iallreduce, a, b, length, MPI_INT, MPI_SUM);
    case 4:
      CALL(Gather, Igather, a, block, MPI_INT, b, block, MPI_INT, root);
    case 5:
      CALL(Scatter, Iscatter, a, block, MPI_INT, b, block, MPI_INT, root);
    case 6:
      CALL(Allgather, Iallgather, a, block, MPI_INT, b, block, MPI_INT);
    case 7:
      CALL(Alltoall, Ialltoall, a, block, MPI_INT, b, block, MPI_INT);
    default:
      CALL(Scan, Iscan, a, b, length, MPI_INT, MPI_SUM);
  }
  if (code == MPI_SUCCESS && background) code = finish(&r, tests);
  return code;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int seed = argc > 1 ? atoi(argv[1]) : 1, num_victims = argc > 3 ? atoi(argv[3]) : 1;
  const char* how = argc > 2 ? argv[2] : "mixed";
  state = (uint64_t)seed;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int is_victim[kMostRanks] = {0};
  for (int left = num_victims; left > 0;) {
    const int victim = below(size);
    left -= !is_victim[victim];
    is_victim[victim] = 1;
  }
  // Those that will live, with whom nothing is wrong.
  MPI_Comm living;
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_victim[rank] ? MPI_UNDEFINED : 1, 0, &living));
  if (living != MPI_COMM_NULL) MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  signal(SIGALRM, hang);
  alarm(kLimitSeconds);
  if (is_victim[rank]) {
    uint64_t own = mix((uint64_t)seed * 64 + (unsigned)rank);
    const struct itimerspec when = {{0, 0}, {0, 1 + (long)(next_random(&own) % 60000000)}};
    struct sigevent event = {0};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer;
    EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    EXPECT_EQ(timer_settime(timer, 0, &when, NULL), 0);
  }
  int code = MPI_SUCCESS;
  while (code == MPI_SUCCESS) code = one(MPI_COMM_WORLD, how);
  if (is_victim[rank]) pause();
  EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
  at = "a call after the loss";
  EXPECT_CLASS(MPI_Barrier(MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
  // The others go on without the dead.
  int number = 1, sum = 0, num_living = 0, place = 0;
  MPI_Comm_size(living, &num_living);
  MPI_Comm_rank(living, &place);
  for (int i = 0; i < 3; ++i) {
    at = "the barrier of those that live";
    EXPECT_OK(MPI_Barrier(living));
    at = "the allreduce of those that live";
    EXPECT_OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, living));
    EXPECT_EQ(sum, num_living);
  }
  // Nobody ends before all are through: whose process ends is lost to the others.
  at = "the end";
  int ok = num_failures == 0;
  if (place == 0) {
    for (int i = 1; i < num_living; ++i) {
      int theirs = 0;
      EXPECT_OK(MPI_Recv(&theirs, 1, MPI_INT, i, 1, living, MPI_STATUS_IGNORE));
      ok = ok && theirs;
    }
    for (int i = 1; i < num_living; ++i) EXPECT_OK(MPI_Ssend(&ok, 1, MPI_INT, i, 2, living));
    if (ok && num_failures == 0) printf("as expected\n");
    fflush(stdout);
  } else {
    EXPECT_OK(MPI_Ssend(&ok, 1, MPI_INT, 0, 1, living));
    EXPECT_OK(MPI_Recv(&ok, 1, MPI_INT, 0, 2, living, MPI_STATUS_IGNORE));
  }
  _exit(num_failures != 0);
}
