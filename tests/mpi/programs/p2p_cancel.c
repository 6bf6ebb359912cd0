// Cancel takes back receives that have not matched, and only those; and sends whose message waits
// at the sender for its receive.
#include "expect.h"

// A send that nobody has matched comes back, and Wait returns though the receiver does nothing but
// take part in other communication; one that has matched arrives.
static void sends(void) {
  enum { kBytes = 3000000 };
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  char *out = allocate(kBytes), *in = allocate(kBytes);
  MPI_Request request, receive;
  MPI_Status status;
  int flag;
  for (int round = 0; round < 3; ++round) {
    // Long, or short and synchronous, or long and persistent.
    const int bytes = round == 1 ? 10 : kBytes;
    fill(out, kBytes, seed_of(1, (uint64_t)rank, (uint64_t)round));
    if (round == 0) MPI_Isend(out, bytes, MPI_CHAR, to, 20, MPI_COMM_WORLD, &request);
    if (round == 1) MPI_Issend(out, bytes, MPI_CHAR, to, 20, MPI_COMM_WORLD, &request);
    if (round == 2) {
      MPI_Send_init(out, bytes, MPI_CHAR, to, 20, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
    }
    EXPECT_OK(MPI_Cancel(&request));
    EXPECT_OK(MPI_Wait(&request, &status));
    EXPECT_OK(MPI_Test_cancelled(&status, &flag));
    EXPECT_EQ(flag, 1);
    if (round == 2) MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);  // nobody posts a receive before all have taken back their sends
    // The next message of that tag is the first that arrives.
    fill(out, kBytes, seed_of(2, (uint64_t)rank, (uint64_t)round));
    MPI_Irecv(in, kBytes, MPI_CHAR, from, 20, MPI_COMM_WORLD, &receive);
    MPI_Isend(out, bytes, MPI_CHAR, to, 20, MPI_COMM_WORLD, &request);
    EXPECT_OK(MPI_Wait(&receive, &status));
    EXPECT_EQ(first_difference(in, (size_t)bytes, seed_of(2, (uint64_t)from, (uint64_t)round)), -1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  // Cancelled while the receive is posted: either it arrives or it does not, and both sides agree.
  for (int round = 0; round < 20; ++round) {
    MPI_Irecv(in, kBytes, MPI_CHAR, from, 21, MPI_COMM_WORLD, &receive);
    if (round % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Issend(out, round * 1000, MPI_CHAR, to, 21, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    EXPECT_OK(MPI_Wait(&request, &status));
    EXPECT_OK(MPI_Test_cancelled(&status, &flag));
    int came = -1, sent = !flag;
    MPI_Sendrecv(&sent, 1, MPI_INT, to, 22, &came, 1, MPI_INT, from, 22, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (!came) MPI_Cancel(&receive);
    EXPECT_OK(MPI_Wait(&receive, &status));
    EXPECT_OK(MPI_Test_cancelled(&status, &flag));
    EXPECT_EQ(flag, !came);
  }
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int values[3] = {-1, -1, -1}, flag, out = rank + 5;
  MPI_Request requests[3], send;
  MPI_Status status;

  // The middle one of three is taken back; what is sent then goes to the others in order.
  for (int i = 0; i < 3; ++i)
    MPI_Irecv(&values[i], 1, MPI_INT, from, 4, MPI_COMM_WORLD, &requests[i]);
  EXPECT_OK(MPI_Cancel(&requests[1]));
  EXPECT(requests[1] != MPI_REQUEST_NULL);
  EXPECT_OK(MPI_Wait(&requests[1], &status));
  EXPECT_OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT(requests[1] == MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i) {
    MPI_Send(&out, 1, MPI_INT, to, 4, MPI_COMM_WORLD);
    out += 100;
  }
  MPI_Wait(&requests[0], &status);
  EXPECT_OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 0);
  MPI_Wait(&requests[2], &status);
  EXPECT_EQ(values[0], from + 5);
  EXPECT_EQ(values[1], -1);
  EXPECT_EQ(values[2], from + 105);

  // One that has matched completes as usual.
  out = rank;
  MPI_Irecv(&values[0], 1, MPI_INT, from, 6, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&out, 1, MPI_INT, to, 6, MPI_COMM_WORLD, &send);
  for (flag = 0; !flag;) MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
  EXPECT_OK(MPI_Cancel(&requests[0]));
  EXPECT_OK(MPI_Wait(&requests[0], &status));
  EXPECT_OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(values[0], from);
  MPI_Wait(&send, MPI_STATUS_IGNORE);

  // A persistent receive can be cancelled, then started again.
  values[0] = -1;
  MPI_Recv_init(&values[0], 1, MPI_INT, from, 8, MPI_COMM_WORLD, &requests[0]);
  MPI_Start(&requests[0]);
  EXPECT_OK(MPI_Cancel(&requests[0]));
  EXPECT_OK(MPI_Wait(&requests[0], &status));
  MPI_Test_cancelled(&status, &flag);
  EXPECT_EQ(flag, 1);
  MPI_Barrier(MPI_COMM_WORLD);  // nobody sends before everybody has cancelled
  MPI_Start(&requests[0]);
  MPI_Send(&out, 1, MPI_INT, to, 8, MPI_COMM_WORLD);
  EXPECT_OK(MPI_Wait(&requests[0], &status));
  MPI_Test_cancelled(&status, &flag);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(values[0], from);
  MPI_Request_free(&requests[0]);

  // Cancelled and freed at once; a wildcard receive taken back leaves nothing that matches.
  MPI_Irecv(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
  EXPECT_OK(MPI_Cancel(&requests[1]));
  EXPECT_OK(MPI_Request_free(&requests[1]));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Sendrecv(&out, 1, MPI_INT, to, 2, &values[0], 1, MPI_INT, from, 2, MPI_COMM_WORLD, &status);
  EXPECT_EQ(values[0], from);
  EXPECT_EQ(values[1], -1);
  if (!kOpenMpi && !kMpich) sends();
  return end();
}
