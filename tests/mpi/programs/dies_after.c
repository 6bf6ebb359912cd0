// dies_after sends|receives: rank 1 dies as soon as its last long message is complete there, while
// rank 0 is outside the library. The message is complete at rank 0, too; later ones are not.
#include <signal.h>
#include <unistd.h>

#include "expect.h"

int main(int argc, char** argv) {
  EXPECT_OK(MPI_Init(&argc, &argv));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int victim_sends = argc > 1 && strcmp(argv[1], "sends") == 0;
  static unsigned char data[3][400000];
  const int bytes = (int)sizeof data[0];
  MPI_Request requests[3];
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 1) {
    for (int i = 0; i < 3; ++i) {
      fill(data[i], bytes, seed_of(1, i, 0));
      EXPECT_OK(victim_sends
                    ? MPI_Isend(data[i], bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i])
                    : MPI_Irecv(data[i], bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]));
    }
    EXPECT_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    raise(SIGKILL);
  }
  // The peer's part comes first, so that the answer leaves with the call that posts.
  usleep(100000);
  for (int i = 0; i < 3; ++i) {
    if (!victim_sends) fill(data[i], bytes, seed_of(0, i, 0));
    EXPECT_OK(victim_sends
                  ? MPI_Irecv(data[i], bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i])
                  : MPI_Isend(data[i], bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]));
  }
  // The receiver's answer may take a call more.
  int flag = 0;
  if (victim_sends) EXPECT_OK(MPI_Iprobe(1, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  usleep(500000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    if (victim_sends) EXPECT_EQ(first_difference(data[i], bytes, seed_of(1, i, 0)), -1);
  }
  EXPECT_CLASS(MPI_Recv(data[0], bytes, MPI_BYTE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
               MPIX_ERR_PROC_FAILED);
  if (num_failures == 0) {
    printf("as expected\n");
    fflush(stdout);
  }
  _exit(num_failures ? 1 : 0);
}
