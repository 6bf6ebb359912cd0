// flood KIND: rank 0 is sent far more than it may keep before it receives anything. Its memory
// stays bounded (the senders wait), nothing is lost and the order holds.
//   small     400000 messages of 64 bytes from every other rank
//   medium    10000 messages of 8000 bytes
//   large     60 messages of 4 MB, as non-blocking sends
// How long rank 0 holds back is a matter of time alone: the senders may block in their first send
// as well as in their last, so no message could tell.
#include <time.h>

#include "expect.h"

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return resident * 4;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* kind = argc > 1 ? argv[1] : "small";
  int bytes = 64, messages = 400000;
  if (strcmp(kind, "medium") == 0) bytes = 8000, messages = 10000;
  if (strcmp(kind, "large") == 0) bytes = 4 << 20, messages = 60;
  int* data = allocate(bytes);
  memset(data, 0, bytes);
  if (rank == 0) {
    long before = resident_kib(), most = 0;
    int flag;
    // Half a second of making progress without receiving: tag 9 is never sent.
    for (double start = seconds(); seconds() - start < 0.5;) {
      MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      EXPECT_EQ(flag, 0);
    }
    most = resident_kib();
    // Each sender has 25 to 240 MB to send. For each there are here: its ring (4 MiB), what may
    // wait unmatched (4), what was in its ring when that was full and is taken out of it (4), and
    // the ring that tells it to announce only (2).
    if (!kOpenMpi && !kMpich) EXPECT(most - before < 1024L * (4 + 15 * (size - 1)));
    int* next = calloc(size, sizeof(int));
    for (long i = 0; i < (long)messages * (size - 1); ++i) {
      MPI_Status status;
      EXPECT_OK(MPI_Recv(data, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
      EXPECT_EQ(data[0], next[status.MPI_SOURCE]);
      EXPECT_EQ(data[bytes / 4 - 1], next[status.MPI_SOURCE]);
      next[status.MPI_SOURCE]++;
    }
    for (int i = 1; i < size; ++i) EXPECT_EQ(next[i], messages);
    free(next);
  } else if (bytes < 1 << 20) {
    for (int i = 0; i < messages; ++i) {
      data[0] = data[bytes / 4 - 1] = i;
      EXPECT_OK(MPI_Send(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
    }
  } else {
    enum { kAtOnce = 8 };
    int* buffers[kAtOnce];
    MPI_Request requests[kAtOnce];
    for (int i = 0; i < messages; ++i) {
      int slot = i % kAtOnce;
      if (i >= kAtOnce)
        EXPECT_OK(MPI_Wait(&requests[slot], MPI_STATUS_IGNORE));
      else
        buffers[slot] = calloc(1, bytes);
      buffers[slot][0] = buffers[slot][bytes / 4 - 1] = i;
      EXPECT_OK(MPI_Isend(buffers[slot], bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[slot]));
    }
    EXPECT_OK(MPI_Waitall(kAtOnce, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < kAtOnce; ++i) free(buffers[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(data);
  return end();
}
