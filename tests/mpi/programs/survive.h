// What the programs about fault tolerance share.
#ifndef WEFT_TESTS_SURVIVE_H
#define WEFT_TESTS_SURVIVE_H
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

enum { kLimitSeconds = 60 };

static const char* survive_at = "the beginning";
static void survive_hang(int signal) {
  (void)signal;
  char text[200];
  const int length = snprintf(text, sizeof text, "rank %d hangs in %s\n", rank, survive_at);
  if (write(2, text, (size_t)length) < 0) _exit(8);
  _exit(9);
}

// Begins, with errors that return, and with a bound for hangs.
static UNUSED void survive_begin_level(int* argc, char*** argv, int level) {
  int provided = -1;
  MPI_Init_thread(argc, argv, level, &provided);
  learn_place();
  EXPECT(provided >= level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  signal(SIGALRM, survive_hang);
  alarm(kLimitSeconds);
}
static UNUSED void survive_begin(int* argc, char*** argv) {
  survive_begin_level(argc, argv, MPI_THREAD_SINGLE);
}

static UNUSED void die(void) {
  raise(SIGKILL);
  for (;;) pause();
}

static UNUSED int class_of(int code) {
  int its_class = -1;
  MPI_Error_class(code, &its_class);
  return its_class;
}

// Ends the program: all members of a communicator say whether they saw failures.
static UNUSED int survive_end(MPI_Comm living) {
  int mine = num_failures == 0, all = 0, place = -1;
  survive_at = "the end";
  MPI_Comm_rank(living, &place);
  EXPECT_OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, living));
  if (place == 0 && all && num_failures == 0) {
    printf("as expected\n");
    fflush(stdout);
  }
  MPI_Finalize();
  return num_failures != 0;
}

// Everything that a communicator is for, on one of this size.
static UNUSED void survive_use(MPI_Comm comm, int expected_size) {
  int place = -1, its_size = -1, sum = 0, one = 1;
  survive_at = "the use of a communicator";
  MPI_Comm_rank(comm, &place);
  MPI_Comm_size(comm, &its_size);
  EXPECT_EQ(its_size, expected_size);
  EXPECT_OK(MPI_Barrier(comm));
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, expected_size);
  int from = -1;
  EXPECT_OK(MPI_Sendrecv(&place, 1, MPI_INT, (place + 1) % its_size, 3, &from, 1, MPI_INT,
                         (place + its_size - 1) % its_size, 3, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(from, (place + its_size - 1) % its_size);
  MPI_Comm copy = MPI_COMM_NULL, half = MPI_COMM_NULL, created = MPI_COMM_NULL;
  EXPECT_OK(MPI_Comm_dup(comm, &copy));
  EXPECT_OK(MPI_Comm_split(copy, place % 2, place, &half));
  MPI_Group group;
  EXPECT_OK(MPI_Comm_group(comm, &group));
  EXPECT_OK(MPI_Comm_create(comm, group, &created));
  MPI_Group_free(&group);
  sum = 0;
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half));
  EXPECT_EQ(sum, (expected_size + (place % 2 == 0)) / 2);
  EXPECT_OK(MPI_Barrier(created));
  MPI_Comm_free(&copy);
  MPI_Comm_free(&half);
  MPI_Comm_free(&created);
}
#endif
