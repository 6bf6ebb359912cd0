// Short messages that are sent in a row arrive while their sender computes, with no call of MPI
// after them: a library may send them together, but not keep them until it is asked again. Files
// say what has arrived.
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { kRounds = 30, kRow = 5, kMost = 3000 };

static int wait_for(const char* file) {
  for (time_t start = time(NULL); access(file, F_OK) != 0;)
    if (time(NULL) - start > 10) return 0;
  return 1;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  static unsigned char data[kRow][kMost];
  char folder[] = "/tmp/in_a_row_XXXXXX", file[64];
  if (rank == 0) EXPECT(mkdtemp(folder) != NULL);
  EXPECT_OK(MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD));
  const int partner = rank ^ 1, lengths[] = {8, 1000, kMost};
  for (int round = 0; round < kRounds && partner < size; ++round) {
    const int length = lengths[round % 3];
    // Both know each other, and nothing is under way.
    EXPECT_OK(MPI_Sendrecv(&round, 1, MPI_INT, partner, 1, &data[0], 1, MPI_INT, partner, 1,
                           MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    snprintf(file, sizeof file, "%s/%d_%d", folder, rank & ~1, round);
    if (rank % 2 == 0) {
      MPI_Request requests[kRow];
      for (int i = 0; i < kRow; ++i) {
        fill(data[i], (size_t)length, (uint64_t)(round * kRow + i));
        EXPECT_OK(MPI_Isend(data[i], length, MPI_BYTE, partner, 2, MPI_COMM_WORLD, &requests[i]));
      }
      EXPECT(wait_for(file));
      EXPECT_OK(MPI_Waitall(kRow, requests, MPI_STATUSES_IGNORE));
      unlink(file);
    } else {
      for (int i = 0; i < kRow; ++i) {
        EXPECT_OK(
            MPI_Recv(data[i], length, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EXPECT_EQ(first_difference(data[i], (size_t)length, (uint64_t)(round * kRow + i)), -1);
      }
      FILE* made = fopen(file, "w");
      EXPECT(made != NULL);
      if (made != NULL) fclose(made);
    }
  }
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) EXPECT_EQ(rmdir(folder), 0);
  return end();
}
