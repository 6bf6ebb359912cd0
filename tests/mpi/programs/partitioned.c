// Partitioned communication: the two sides cut one message differently, partitions become ready in
// any order, some arrive while others are not ready yet; types with gaps; several threads;
// repeated.
#include <pthread.h>

#include "expect.h"

enum { kRounds = 4, kThreads = 3 };

static int number(int from, int round, int i) { return from * 1000000 + round * 10000 + i; }

static void ring(int send_cuts, int receive_cuts, int total, int stride) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Datatype spread;
  MPI_Type_create_resized(MPI_INT, 0, stride * (int)sizeof(int), &spread);
  MPI_Type_commit(&spread);
  int* out = allocate((size_t)(total * stride) * sizeof(int));
  int* in = allocate((size_t)(total * stride) * sizeof(int));
  MPI_Request requests[2];
  EXPECT_OK(MPI_Psend_init(out, send_cuts, total / send_cuts, spread, to, 3, MPI_COMM_WORLD,
                           MPI_INFO_NULL, &requests[0]));
  EXPECT_OK(MPI_Precv_init(in, receive_cuts, total / receive_cuts, spread, from, 3, MPI_COMM_WORLD,
                           MPI_INFO_NULL, &requests[1]));
  EXPECT_OK(MPI_Type_free(&spread));
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < total * stride; ++i) {
      out[i] = i % stride == 0 ? number(rank, round, i / stride) : -2;
      in[i] = -1;
    }
    EXPECT_OK(MPI_Startall(2, requests));
    // The first half of what is sent, in an order of its own; then the first partition of the
    // receiver arrives though the rest is not ready. All at once where a half is not a half.
    int half = round == kRounds - 1 ? send_cuts : (send_cuts + 1) / 2, flag = 0;
    for (int k = half - 1; k >= 0; --k) EXPECT_OK(MPI_Pready(k, requests[0]));
    if (half * (total / send_cuts) >= total / receive_cuts) {
      while (!flag) EXPECT_OK(MPI_Parrived(requests[1], 0, &flag));
      for (int i = 0; i < total / receive_cuts; ++i)
        EXPECT_EQ(in[i * stride], number(from, round, i));
    }
    if (half < send_cuts && round == 0)
      EXPECT_OK(MPI_Pready_range(half, send_cuts - 1, requests[0]));
    for (int k = half; k < send_cuts && round != 0; ++k)
      EXPECT_OK(MPI_Pready_list(1, &k, requests[0]));
    MPI_Status statuses[2];
    EXPECT_OK(MPI_Waitall(2, requests, statuses));
    EXPECT(statuses[1].MPI_SOURCE == from && statuses[1].MPI_TAG == 3);
    for (int i = 0; i < total * stride; ++i)
      EXPECT_EQ(in[i], i % stride == 0 ? number(from, round, i / stride) : -1);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  free(out);
  free(in);
}

static MPI_Request shared;

static void* make_ready(void* argument) {
  const int first = *(int*)argument;
  for (int i = first; i < 60; i += kThreads) EXPECT_OK(MPI_Pready(i, shared));
  return NULL;
}

static void threads(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int out[60 * 50], in[60 * 50], firsts[kThreads];
  MPI_Request receive;
  pthread_t ids[kThreads];
  for (int i = 0; i < 60 * 50; ++i) out[i] = number(rank, 0, i);
  MPI_Psend_init(out, 60, 50, MPI_INT, to, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &shared);
  MPI_Precv_init(in, 3, 1000, MPI_INT, from, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  for (int round = 0; round < kRounds; ++round) {
    memset(in, -1, sizeof in);
    MPI_Start(&receive);
    MPI_Start(&shared);
    for (int t = 0; t < kThreads; ++t) {
      firsts[t] = t;
      pthread_create(&ids[t], NULL, make_ready, &firsts[t]);
    }
    EXPECT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Wait(&shared, MPI_STATUS_IGNORE));
    for (int t = 0; t < kThreads; ++t) pthread_join(ids[t], NULL);
    for (int i = 0; i < 60 * 50; ++i) EXPECT_EQ(in[i], number(from, 0, i));
  }
  MPI_Request_free(&shared);
  MPI_Request_free(&receive);
}

// Matched in order of their making, apart from other tags and plain messages; some never started.
static void order(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int out[4], in[4], plain = rank, got = -1;
  MPI_Request sends[4], receives[4];
  for (int i = 0; i < 4; ++i) {
    out[i] = rank * 10 + i;
    in[i] = -1;
    MPI_Psend_init(&out[i], 1, 1, MPI_INT, to, i % 2, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
  }
  for (int i = 3; i >= 0; --i)  // the later ones first: of each tag the order is kept below
    MPI_Precv_init(&in[i], 1, 1, MPI_INT, from, (i + 1) % 2, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &receives[i]);
  // Made in the order 3, 2, 1, 0 with tags 0, 1, 0, 1; the sends of tag 0 are 0 and 2.
  const int expected[4] = {3, 2, 1, 0};
  for (int i = 0; i < 2; ++i) {  // the ones with tag 0 only
    MPI_Start(&sends[2 * i]);
    MPI_Start(&receives[3 - 2 * i]);
    MPI_Pready(0, sends[2 * i]);
  }
  MPI_Sendrecv(&plain, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  EXPECT_EQ(got, from);
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(MPI_Wait(&sends[2 * i], MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Wait(&receives[3 - 2 * i], MPI_STATUS_IGNORE));
    EXPECT_EQ(in[3 - 2 * i], from * 10 + expected[3 - 2 * i]);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_OK(MPI_Request_free(&sends[i]));
    EXPECT_OK(MPI_Request_free(&receives[i]));
  }
}

static void wrong(void) {
  int value = 0, flag;
  MPI_Request request, plain;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Precv_init(&value, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD,
                              MPI_INFO_NULL, &request),
               MPI_ERR_RANK);
  for (int partitions = -1; partitions < 1; ++partitions)
    EXPECT_CLASS(MPI_Psend_init(&value, partitions, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &request),
                 MPI_ERR_ARG);
  flag = 0;
  EXPECT_OK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_Psend_init(&value, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &request));
  EXPECT_CLASS(MPI_Pready(0, request), MPI_ERR_REQUEST);  // not started
  MPI_Start(&request);
  EXPECT_CLASS(MPI_Pready(2, request), MPI_ERR_ARG);
  EXPECT_OK(MPI_Pready(0, request));
  EXPECT_CLASS(MPI_Pready(0, request), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Parrived(request, 0, &flag), MPI_ERR_REQUEST);  // of a send
  EXPECT_OK(MPI_Pready(1, request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_Request_free(&request));
  MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &plain);
  MPI_Start(&plain);
  EXPECT_CLASS(MPI_Pready(0, plain), MPI_ERR_REQUEST);
  MPI_Wait(&plain, MPI_STATUS_IGNORE);
  MPI_Request_free(&plain);
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  ring(1, 1, 10, 1);
  ring(12, 3, 60, 1);
  ring(3, 12, 60, 1);
  ring(4, 5, 20, 2);
  ring(5, 2, 5000, 1);
  threads();
  order();
  wrong();
  return end();
}
