// A ring in which nobody waits: all ask again and again. With more processes than cores a step must
// still take a change of context and not a slice of time, which would be minutes.
#include "expect.h"

enum { kSteps = 4000 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int step = 0; step < kSteps; ++step) {
    int out = rank * kSteps + step, in = -1, flag = 0, index, done = 0, indices[2];
    MPI_Request requests[2];
    EXPECT_OK(MPI_Isend(&out, 1, MPI_INT, next, step % 7, MPI_COMM_WORLD, &requests[1]));
    if (step % 5 == 4)
      while (flag == 0)
        EXPECT_OK(MPI_Iprobe(before, step % 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Irecv(&in, 1, MPI_INT, before, step % 7, MPI_COMM_WORLD, &requests[0]));
    flag = 0;
    switch (step % 4) {
      case 0:
        while (flag == 0) EXPECT_OK(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE));
        break;
      case 1:
        for (int i = 0; i < 2; ++i, flag = 0)
          while (flag == 0) EXPECT_OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
        break;
      case 2:
        for (int i = 0; i < 2; ++i, flag = 0)
          while (flag == 0) EXPECT_OK(MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE));
        break;
      default:
        while (done < 2) {
          EXPECT_OK(MPI_Testsome(2, requests, &index, indices, MPI_STATUSES_IGNORE));
          done += index;
        }
    }
    EXPECT_EQ(in, before * kSteps + step);
  }
  return end();
}
