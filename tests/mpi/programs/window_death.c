// window_death WHO WHAT [return]: one process is killed in an epoch of a window, and the others'
// epochs end with an error. WHAT the others are doing:
//   fence, start (waiting for its post), wait (for its complete)
//   start_some: the first of them starts an epoch with all others, who expose their memory to it
//   lock: waiting for a lock that it held; flush, put, accumulate: again and again, until it is
//   told
// In `lock` the victim dies with the lock, in `wait` in an access epoch, in all others at rest.
// By default the job ends with one message; with `return` the survivors' handlers return, and the
// others go on.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static MPI_Win win;
static int* memory;
static int victim;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static MPI_Group group_of(int member) {
  MPI_Group world, made;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &member, &made);
  MPI_Group_free(&world);
  return made;
}
static MPI_Group group_without(int member) {
  MPI_Group world, made;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, &member, &made);
  MPI_Group_free(&world);
  return made;
}

// The victim's last step, before it tells the others to go ahead.
static void prepare(const char* what) {
  if (strcmp(what, "lock") == 0) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, victim, 0, win);
}

static int operation(const char* what) {
  int value = rank, code = MPI_SUCCESS;
  const double limit = seconds() + 60;
  if (strcmp(what, "fence") == 0) return MPI_Win_fence(0, win);
  if (strcmp(what, "start") == 0) return MPI_Win_start(group_of(victim), 0, win);
  if (strcmp(what, "start_some") == 0) {
    if (rank == 0) return MPI_Win_start(group_without(0), 0, win);
    MPI_Win_post(group_of(0), 0, win);
    EXPECT_OK(MPI_Win_wait(win));  // ended by who could not begin
    return MPIX_ERR_PROC_FAILED;
  }
  if (strcmp(what, "wait") == 0) {
    MPI_Win_post(group_of(victim), 0, win);
    return MPI_Win_wait(win);
  }
  if (strcmp(what, "lock") == 0) return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, victim, 0, win);
  // With NOCHECK: nobody waits for anything that the victim holds.
  MPI_Win_lock(MPI_LOCK_SHARED, victim, MPI_MODE_NOCHECK, win);
  while (code == MPI_SUCCESS && seconds() < limit) {
    if (strcmp(what, "put") == 0)
      code = MPI_Put(&value, 1, MPI_INT, victim, rank, 1, MPI_INT, win);
    else if (strcmp(what, "accumulate") == 0)
      code = MPI_Accumulate(&value, 1, MPI_INT, victim, 0, 1, MPI_INT, MPI_SUM, win);
    if (code == MPI_SUCCESS) code = MPI_Win_flush(victim, win);
  }
  return code;
}

// The survivors' windows with each other still work.
static void go_on(void) {
  MPI_Comm others;
  MPI_Group without = group_without(victim);
  EXPECT_OK(MPI_Comm_create_group(MPI_COMM_WORLD, without, 3, &others));
  int me, num, *data;
  MPI_Comm_rank(others, &me);
  MPI_Comm_size(others, &num);
  MPI_Win next;
  EXPECT_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, others, &data, &next));
  EXPECT_OK(MPI_Win_fence(0, next));
  const int value = me + 1;
  EXPECT_OK(MPI_Put(&value, 1, MPI_INT, (me + 1) % num, 0, 1, MPI_INT, next));
  EXPECT_OK(MPI_Win_fence(0, next));
  EXPECT_EQ(*data, (me + num - 1) % num + 1);
  EXPECT_OK(MPI_Win_free(&next));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  victim = argc > 1 ? atoi(argv[1]) : 0;
  const char* what = argc > 2 ? argv[2] : "fence";
  const int returning = argc > 3 && strcmp(argv[3], "return") == 0;
  MPI_Win_allocate((MPI_Aint)sizeof(int) * size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &memory, &win);
  if (returning) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  }
  MPI_Win_lock_all(0, win);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == victim) prepare(what);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == victim) {
    if (strcmp(what, "wait") == 0) MPI_Win_start(group_without(victim), 0, win);
    raise(SIGKILL);
  }
  const int code = operation(what);
  if (!returning) {
    fprintf(stderr, "rank %d: %s succeeded\n", rank, what);
    return 9;
  }
  EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
  go_on();
  if (num_failures == 0 && rank == (victim == 0 ? 1 : 0)) {
    printf("as expected\n");
    fflush(stdout);
  }
  // No agreement needed to leave: nobody may wait for the dead.
  _exit(num_failures ? 1 : 0);
}
