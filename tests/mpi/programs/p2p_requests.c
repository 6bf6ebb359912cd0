// Wait, Test and their any, some and all forms; null and inactive requests; Request_free and
// Request_get_status.
#include "expect.h"

enum { kNum = 12 };
static int to, from;
static int out[kNum], in[kNum];
static MPI_Request sends[kNum], receives[kNum];

static void post_receives(void) {
  for (int i = 0; i < kNum; ++i) {
    in[i] = -1;
    MPI_Irecv(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &receives[i]);
  }
}

static void post_sends(void) {
  for (int i = 0; i < kNum; ++i) {
    out[i] = rank * 100 + i;
    MPI_Isend(&out[i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &sends[i]);
  }
}

static void check_one(int i, const MPI_Status* status) {
  EXPECT_EQ(in[i], from * 100 + i);
  EXPECT_EQ(status->MPI_SOURCE, from);
  EXPECT_EQ(status->MPI_TAG, i);
  EXPECT(receives[i] == MPI_REQUEST_NULL);
}

static void any(int testing) {
  int seen[kNum] = {0}, index, flag;
  MPI_Status status;
  post_receives();
  post_sends();
  for (int done = 0; done < kNum; ++done) {
    if (testing) {
      for (flag = 0; !flag;) EXPECT_OK(MPI_Testany(kNum, receives, &index, &flag, &status));
    } else {
      EXPECT_OK(MPI_Waitany(kNum, receives, &index, &status));
    }
    EXPECT(index >= 0 && index < kNum && !seen[index]);
    seen[index] = 1;
    check_one(index, &status);
  }
  index = 7;
  flag = 0;
  // None active: an index of MPI_UNDEFINED and an empty status.
  if (testing) {
    EXPECT_OK(MPI_Testany(kNum, receives, &index, &flag, &status));
    EXPECT_EQ(flag, 1);
  } else {
    EXPECT_OK(MPI_Waitany(kNum, receives, &index, &status));
  }
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  MPI_Waitall(kNum, sends, MPI_STATUSES_IGNORE);
}

static void some(int testing) {
  int indices[kNum], count, done = 0;
  MPI_Status statuses[kNum];
  post_receives();
  post_sends();
  while (done < kNum) {
    if (testing)
      EXPECT_OK(MPI_Testsome(kNum, receives, &count, indices, statuses));
    else
      EXPECT_OK(MPI_Waitsome(kNum, receives, &count, indices, statuses));
    if (!testing) EXPECT(count >= 1);
    for (int i = 0; i < count; ++i) check_one(indices[i], &statuses[i]);
    done += count;
  }
  EXPECT_EQ(done, kNum);
  if (testing)
    EXPECT_OK(MPI_Testsome(kNum, receives, &count, indices, statuses));
  else
    EXPECT_OK(MPI_Waitsome(kNum, receives, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
  MPI_Waitall(kNum, sends, MPI_STATUSES_IGNORE);
}

static void all(int testing) {
  MPI_Status statuses[kNum];
  int flag = 0;
  post_receives();
  post_sends();
  if (testing)
    while (!flag) EXPECT_OK(MPI_Testall(kNum, receives, &flag, statuses));
  else
    EXPECT_OK(MPI_Waitall(kNum, receives, statuses));
  for (int i = 0; i < kNum; ++i) check_one(i, &statuses[i]);
  EXPECT_OK(MPI_Testall(kNum, receives, &flag, statuses));
  EXPECT_EQ(flag, 1);
  for (int i = 0; i < kNum; ++i) EXPECT_EQ(statuses[i].MPI_SOURCE, MPI_ANY_SOURCE);
  MPI_Waitall(kNum, sends, MPI_STATUSES_IGNORE);
}

// Questions about several requests, which leave them as they are.
static void ask(int all_done) {
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  int flag = -1, index = 5, count = 5, indices[kNum];
  MPI_Status status, statuses[kNum];
  EXPECT_OK(MPI_Request_get_status_all(kNum, receives, &flag, statuses));
  EXPECT_EQ(flag, all_done);
  for (int i = 0; all_done && i < kNum; ++i) EXPECT_EQ(statuses[i].MPI_TAG, i);
  EXPECT_OK(MPI_Request_get_status_any(kNum, receives, &index, &flag, &status));
  EXPECT_EQ(flag, all_done);
  if (all_done)
    EXPECT(index >= 0 && index < kNum && status.MPI_TAG == index);
  else
    EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_OK(MPI_Request_get_status_some(kNum, receives, &count, indices, statuses));
  EXPECT_EQ(count, all_done ? kNum : 0);
  for (int i = 0; all_done && i < kNum; ++i) EXPECT_EQ(statuses[i].MPI_TAG, indices[i]);
  for (int i = 0; i < kNum; ++i) EXPECT(receives[i] != MPI_REQUEST_NULL);
#else
  (void)all_done;
#endif
}

// Nothing has been sent: every test says so and leaves the requests as they are.
static void nothing_yet(void) {
  int flag = 1, index = 5, count = 5, indices[kNum];
  MPI_Status statuses[kNum];
  post_receives();
  EXPECT_OK(MPI_Test(&receives[0], &flag, &statuses[0]));
  EXPECT_EQ(flag, 0);
  EXPECT(receives[0] != MPI_REQUEST_NULL);
  flag = 1;
  EXPECT_OK(MPI_Testall(kNum, receives, &flag, statuses));
  EXPECT_EQ(flag, 0);
  flag = 1;
  EXPECT_OK(MPI_Testany(kNum, receives, &index, &flag, statuses));
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_OK(MPI_Testsome(kNum, receives, &count, indices, statuses));
  EXPECT_EQ(count, 0);
  flag = 1;
  EXPECT_OK(MPI_Request_get_status(receives[3], &flag, statuses));
  EXPECT_EQ(flag, 0);
  ask(0);
  MPI_Barrier(MPI_COMM_WORLD);
  post_sends();
  for (flag = 0; !flag;) EXPECT_OK(MPI_Request_get_status(receives[3], &flag, statuses));
  EXPECT(receives[3] != MPI_REQUEST_NULL);
  EXPECT_EQ(statuses[0].MPI_TAG, 3);
  for (int i = 0; i < kNum; ++i)
    for (flag = 0; !flag;) EXPECT_OK(MPI_Request_get_status(receives[i], &flag, statuses));
  ask(1);
  for (int i = 0; i < kNum; ++i) {
    for (flag = 0; !flag;) EXPECT_OK(MPI_Test(&receives[i], &flag, &statuses[i]));
    check_one(i, &statuses[i]);
  }
  MPI_Waitall(kNum, sends, MPI_STATUSES_IGNORE);
}

static void null_requests(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 0, count = -1, index;
  EXPECT_OK(MPI_Wait(&request, &status));
  EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  EXPECT_OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT_EQ(count, 0);
  EXPECT_OK(MPI_Test(&request, &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
  EXPECT_OK(MPI_Waitany(0, NULL, &index, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
  EXPECT_EQ(flag, 1);
}

// Requests of the program's own: complete when it says so, with the status it gives.
static int queries, frees;

static int query(void* extra, MPI_Status* status) {
  queries++;
  MPI_Status_set_elements(status, MPI_INT, *(int*)extra);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 4;
  status->MPI_TAG = 5;
  return MPI_SUCCESS;
}
static int free_own(void* extra) {
  frees += extra != NULL;
  return MPI_SUCCESS;
}
static int cancel_own(void* extra, int complete) {
  (void)extra;
  (void)complete;
  return MPI_SUCCESS;
}

static void own_requests(void) {
  int elements = 12, flag = -1, count = -1;
  MPI_Request request;
  MPI_Status status;
  EXPECT_OK(MPI_Grequest_start(query, free_own, cancel_own, &elements, &request));
  EXPECT_OK(MPI_Test(&request, &flag, &status));
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(queries, 0);
  EXPECT_OK(MPI_Grequest_complete(request));
  EXPECT_OK(MPI_Wait(&request, &status));
  EXPECT(request == MPI_REQUEST_NULL);
  EXPECT_EQ(queries, 1);
  EXPECT_EQ(frees, 1);
  EXPECT_OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT_EQ(count, 12);
  EXPECT(status.MPI_SOURCE == 4 && status.MPI_TAG == 5);

  // Freed before it is complete, and after: the program's function runs at the second of the two.
  for (int complete_first = 0; complete_first < 2; ++complete_first) {
    frees = 0;
    EXPECT_OK(MPI_Grequest_start(query, free_own, cancel_own, &elements, &request));
    MPI_Request freed = request;
    if (complete_first) EXPECT_OK(MPI_Grequest_complete(request));
    EXPECT_OK(MPI_Request_free(&freed));
    EXPECT(freed == MPI_REQUEST_NULL);
    if (!kMpich) EXPECT_EQ(frees, complete_first);  // MPICH: in any case
    if (!complete_first) EXPECT_OK(MPI_Grequest_complete(request));
    EXPECT_EQ(frees, 1);
  }
}

// Freeing costs the same however many were freed and are still under way.
static void many_freed(int num) {
  int* data = allocate(num * sizeof(int));
  for (int i = 0; i < num; ++i) {
    MPI_Request request;
    data[i] = -1;
    EXPECT_OK(MPI_Irecv(&data[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &request));
    EXPECT_OK(MPI_Request_free(&request));
  }
  for (int i = 0; i < num; ++i) EXPECT_OK(MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_SELF));
  int flag = 0;
  while (data[num - 1] == -1)
    EXPECT_OK(MPI_Iprobe(0, num, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
  for (int i = 0; i < num; ++i) EXPECT_EQ(data[i], i);
  free(data);
}

// A freed send still arrives.
static void freed(int bytes) {
  char* data = allocate(bytes);
  char* got = allocate(bytes);
  MPI_Request send, receive;
  fill(data, bytes, rank);
  MPI_Irecv(got, bytes, MPI_BYTE, from, 50, MPI_COMM_WORLD, &receive);
  MPI_Isend(data, bytes, MPI_BYTE, to, 50, MPI_COMM_WORLD, &send);
  EXPECT_OK(MPI_Request_free(&send));
  EXPECT(send == MPI_REQUEST_NULL);
  EXPECT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(first_difference(got, bytes, from), -1);
  MPI_Barrier(MPI_COMM_WORLD);  // the other side has received: `data` may go
  free(data);
  free(got);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (argc > 1) {
    many_freed(atoi(argv[1]));
    return end();
  }
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  for (int testing = 0; testing < 2; ++testing) {
    any(testing);
    some(testing);
    all(testing);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  nothing_yet();
  null_requests();
  own_requests();
  freed(10);
  freed(100000);
  freed(5000000);
  return end();
}
