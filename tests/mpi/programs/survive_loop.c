// survive_loop SEED VICTIMS [ROUNDS]: a loop of allreduces in which processes die at random
// moments; the others revoke, agree, shrink and compute on. The result is that of a model: in each
// round every living process counts once.
#include <sys/time.h>
#include <time.h>

#include "survive.h"

static void die_later(uint64_t* state) {
  const struct itimerspec when = {{0, 0}, {0, 1 + (long)(next_random(state) % 150000000)}};
  struct sigevent event = {0};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  EXPECT_EQ(timer_settime(timer, 0, &when, NULL), 0);
}

int main(int argc, char** argv) {
  survive_begin(&argc, &argv);
  const int seed = argc > 1 ? atoi(argv[1]) : 1, num_victims = argc > 2 ? atoi(argv[2]) : 1;
  const int num_rounds = argc > 3 ? atoi(argv[3]) : 300;
  int is_victim[64] = {0};
  uint64_t state = (uint64_t)seed;
  for (int left = num_victims; left > 0;) {
    const int victim = (int)(next_random(&state) % (unsigned)size);
    left -= !is_victim[victim];
    is_victim[victim] = 1;
  }
  MPI_Comm comm;
  EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_Barrier(comm));
  if (is_victim[rank]) {
    uint64_t own = mix((uint64_t)seed * 64 + (unsigned)rank);
    die_later(&own);
  }
  int num_shrunken = 0;
  for (int round = 0;;) {
    int its_size, one = 1, sum = 0;
    MPI_Comm_size(comm, &its_size);
    survive_at = "MPI_Allreduce";
    int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code == MPI_SUCCESS) {
      EXPECT_EQ(sum, its_size);
    } else {
      if (class_of(code) != MPIX_ERR_PROC_FAILED) EXPECT_CLASS(code, MPIX_ERR_REVOKED);
      survive_at = "MPI_Comm_revoke";
      MPI_Comm_revoke(comm);
    }
    // Whether all of it worked: all, or nobody, goes on.
    int good = code == MPI_SUCCESS;
    if (!good || round % 10 == 9) {
      survive_at = "MPI_Comm_agree";
      code = MPI_Comm_agree(comm, &good);
      if (code != MPI_SUCCESS) {
        EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
        good = 0;
      }
      if (!good) {
        MPI_Comm next;
        survive_at = "MPI_Comm_shrink";
        EXPECT_OK(MPI_Comm_shrink(comm, &next));
        MPI_Comm_free(&comm);
        comm = next;
        ++num_shrunken;
        // All are in the same ten rounds, at whose end they agree.
        round -= round % 10;
        continue;
      }
    }
    if (++round >= num_rounds && its_size == size - num_victims) break;
  }
  EXPECT(num_shrunken >= 1);
  survive_use(comm, size - num_victims);
  return survive_end(comm);
}
