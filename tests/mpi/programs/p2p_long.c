// Messages of 64 MiB, over whose copy a process has long used up the time it waits awake: copying
// must go on at full speed. One way with the sender waiting, both ways at once, and with a sender
// that is busy elsewhere until the receiver is done.
#include "expect.h"

enum { kBytes = 64 << 20, kBackground = 7 };

static char *out, *in;

static void check(int from, int round) {
  EXPECT_EQ(first_difference(in, kBytes, seed_of(5, (uint64_t)from, (uint64_t)round)), -1);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  out = allocate(kBytes);
  in = allocate(kBytes);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;

  fill(out, kBytes, seed_of(5, (uint64_t)rank, 0));
  if (rank == 0) MPI_Send(out, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Recv(in, kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(0, 0);
  }

  fill(out, kBytes, seed_of(5, (uint64_t)rank, 1));
  MPI_Sendrecv(out, kBytes, MPI_CHAR, right, 1, in, kBytes, MPI_CHAR, left, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check(left, 1);

  // The sender waits for a small message that comes after the long one.
  fill(out, kBytes, seed_of(5, (uint64_t)rank, 2));
  if (rank == 0) {
    MPI_Request request;
    int word = 0;
    MPI_Isend(out, kBytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &request);
    MPI_Recv(&word, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(word, kBackground);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (rank == 1) {
    const int word = kBackground;
    MPI_Recv(in, kBytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(0, 2);
    MPI_Send(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
  }
  free(in);
  free(out);
  return end();
}
