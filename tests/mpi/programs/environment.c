// What the library says about itself, clocks, memory, and the calls allowed before and after.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static double monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void* not_main(void* flag) {
  MPI_Is_thread_main(flag);
  return NULL;
}

int main(void) {
  int flag = -1, version, subversion, length, provided = -1;
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  EXPECT_OK(MPI_Initialized(&flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Finalized(&flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Get_version(&version, &subversion));
  EXPECT_EQ(version, MPI_VERSION);
  EXPECT_EQ(subversion, MPI_SUBVERSION);
  EXPECT_OK(MPI_Get_library_version(text, &length));
  EXPECT(length > 0 && (int)strlen(text) + kOpenMpi == length);  // there with the final zero
  // argc and argv may be left out, and asking for MULTIPLE grants it.
  EXPECT_OK(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided));
  learn_place();
  EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
  EXPECT_OK(MPI_Query_thread(&provided));
  EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
  EXPECT(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED &&
         MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
  EXPECT_OK(MPI_Is_thread_main(&flag));
  EXPECT_EQ(flag, 1);
  pthread_t thread;
  pthread_create(&thread, NULL, not_main, &flag);
  pthread_join(thread, NULL);
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Initialized(&flag));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_Finalized(&flag));
  EXPECT_EQ(flag, 0);

  char host[MPI_MAX_PROCESSOR_NAME], expected[MPI_MAX_PROCESSOR_NAME];
  EXPECT_OK(MPI_Get_processor_name(host, &length));
  gethostname(expected, sizeof expected);
  EXPECT((int)strlen(host) == length);
  EXPECT(strcmp(host, expected) == 0);

  // The clock advances as another clock does, and its tick is a fraction of a second.
  double mine = monotonic(), theirs = MPI_Wtime();
  while (monotonic() - mine < 0.05) {
  }
  double passed = MPI_Wtime() - theirs;
  EXPECT(passed > 0.045 && passed < 1.01 * (monotonic() - mine) + 0.001);
  EXPECT(MPI_Wtick() > 0 && MPI_Wtick() < 0.001);

  void* memory = NULL;
  EXPECT_OK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory));
  EXPECT(memory != NULL);
  fill(memory, 1 << 20, 5);
  // Memory from here is as good as any for messages.
  unsigned char* in = allocate(1 << 20);
  EXPECT_OK(MPI_Sendrecv(memory, 1 << 20, MPI_BYTE, (rank + 1) % size, 0, in, 1 << 20, MPI_BYTE,
                         (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_EQ(first_difference(in, 1 << 20, 5), -1);
  EXPECT_OK(MPI_Free_mem(memory));
  free(in);

  MPI_Aint a, b;
  char bytes[100];
  EXPECT_OK(MPI_Get_address(bytes, &a));
  EXPECT_OK(MPI_Get_address(bytes + 42, &b));
  EXPECT_EQ(b - a, 42);
  EXPECT_EQ(MPI_Aint_diff(b, a), 42);
  EXPECT_EQ(MPI_Aint_add(a, 42), b);
  EXPECT_EQ(MPI_Pcontrol(1), MPI_SUCCESS);

  int status = end();
  MPI_Finalized(&flag);
  if (!flag) status = 1;
  MPI_Initialized(&flag);
  if (!flag) status = 1;
  if (MPI_Get_version(&version, &subversion) != MPI_SUCCESS) status = 1;
  return status;
}
