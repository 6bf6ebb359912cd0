// threads_own THREADS ROUNDS [mixed|death]: threads of each process that use communicators of their
// own, which have locks, lanes and matching of their own in the library. Each works on its own one;
// all use each other's; one waits for what only progress on another's communicator lets go on.
//   mixed   rank 0 alone asks for MPI_THREAD_MULTIPLE, and so gives such communicators to processes
//           with one thread
//   death   rank 1 is killed in the middle; every thread of the others is told, and goes on without
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

enum { kMaxThreads = 16, kMaxBytes = 300000, kWindow = 12 };
static MPI_Comm comms[kMaxThreads];
static int num_threads, num_rounds;

static int bytes_of(int i) {
  static const int sizes[] = {0, 1, 8, 100, 305, 4096, 20001, 70000, kMaxBytes};
  return sizes[i % 9];
}

// Around the ring, in windows, by all ways to wait and to ask.
static void ring(MPI_Comm comm, int thread) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  unsigned char* out = allocate((size_t)kWindow * kMaxBytes);
  unsigned char* in = allocate((size_t)kWindow * kMaxBytes);
  MPI_Request requests[2 * kWindow];
  for (int round = 0; round < num_rounds; ++round) {
    const int num = 1 + (round + thread) % kWindow;
    for (int i = 0; i < num; ++i) {
      const int bytes = bytes_of(round + i);
      memset(out + (size_t)i * kMaxBytes, (rank * 7 + thread * 31 + round + i) % 251,
             (size_t)bytes);
      MPI_Irecv(in + (size_t)i * kMaxBytes, kMaxBytes, MPI_BYTE, i % 2 ? left : MPI_ANY_SOURCE, i,
                comm, &requests[i]);
      (round % 2 ? MPI_Isend : MPI_Issend)(out + (size_t)i * kMaxBytes, bytes, MPI_BYTE, right, i,
                                           comm, &requests[num + i]);
    }
    MPI_Status statuses[2 * kWindow];
    int done = 0, indices[2 * kWindow], count;
    switch (round % 4) {
      case 0:
        EXPECT_OK(MPI_Waitall(2 * num, requests, statuses));
        for (int i = 0; i < num; ++i) {
          MPI_Get_count(&statuses[i], MPI_BYTE, &count);
          EXPECT_EQ(count, bytes_of(round + i));
          EXPECT_EQ(statuses[i].MPI_SOURCE, left);
        }
        break;
      case 1:
        for (; done < 2 * num; ++done) EXPECT_OK(MPI_Waitany(2 * num, requests, &count, statuses));
        break;
      case 2:
        for (; done < 2 * num; done += count)
          EXPECT_OK(MPI_Waitsome(2 * num, requests, &count, indices, statuses));
        break;
      case 3:
        for (int flag = 0; !flag;) EXPECT_OK(MPI_Testall(2 * num, requests, &flag, statuses));
        break;
    }
    for (int i = 0; i < num; ++i) {
      const int bytes = bytes_of(round + i), value = (left * 7 + thread * 31 + round + i) % 251;
      for (int at = 0; at < bytes; at += 997) EXPECT_EQ(in[(size_t)i * kMaxBytes + at], value);
      if (bytes > 0) EXPECT_EQ(in[(size_t)i * kMaxBytes + bytes - 1], value);
    }
    int sum = 0, mine = rank + 1;
    MPI_Request request;
    if (round % 3 == 0) {
      EXPECT_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
    } else if (round % 3 == 1) {
      EXPECT_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request));
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      sum = size * (size + 1) / 2;
      MPI_Isend(&mine, 1, MPI_INT, right, 99, comm, &request);
      MPI_Status status;
      EXPECT_OK(MPI_Probe(MPI_ANY_SOURCE, 99, comm, &status));
      EXPECT_EQ(status.MPI_SOURCE, left);
      EXPECT_OK(MPI_Recv(&count, 1, MPI_INT, left, 99, comm, &status));
      EXPECT_EQ(count, left + 1);
      EXPECT_OK(MPI_Wait(&request, &status));
    }
    EXPECT_EQ(sum, size * (size + 1) / 2);
  }
  free(out);
  free(in);
}

// A wait on one communicator moves the others on: the long message to the right is taken there only
// after what this process waits for has been sent on the next communicator, and so around.
static void across(int thread) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Comm first = comms[thread], second = comms[(thread + 1) % num_threads];
  const int tag = 1000 + thread;
  unsigned char* out = allocate(kMaxBytes);
  unsigned char* in = allocate(kMaxBytes);
  for (int round = 0; round < num_rounds; ++round) {
    memset(out, (rank + round) % 251, kMaxBytes);
    MPI_Request requests[3];
    int token = 0, value = round;
    MPI_Isend(out, kMaxBytes, MPI_BYTE, right, tag, first, &requests[0]);
    if (rank % 2 == 0) {
      MPI_Irecv(in, kMaxBytes, MPI_BYTE, left, tag, first, &requests[1]);
      MPI_Irecv(&token, 1, MPI_INT, left, tag, second, &requests[2]);
      EXPECT_OK(MPI_Send(&value, 1, MPI_INT, right, tag, second));
    } else {
      EXPECT_OK(MPI_Recv(in, kMaxBytes, MPI_BYTE, left, tag, first, MPI_STATUS_IGNORE));
      EXPECT_OK(MPI_Send(&value, 1, MPI_INT, right, tag, second));
      MPI_Irecv(&token, 1, MPI_INT, left, tag, second, &requests[2]);
      requests[1] = MPI_REQUEST_NULL;
    }
    for (int done = 0, index = 0; index != MPI_UNDEFINED; ++done)
      EXPECT_OK(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE));
    EXPECT_EQ(token, round);
    EXPECT_EQ(in[0], (left + round) % 251);
    EXPECT_EQ(in[kMaxBytes - 1], (left + round) % 251);
  }
  free(out);
  free(in);
}

// More than there is room for waits to be sent on one communicator while this process receives on
// another, where there is always something, until the first has arrived.
static void behind(void) {
  enum { kMessages = 3000, kBytes = 4000, kMore = 1, kOver = 2 };
  MPI_Comm first = comms[0], second = comms[num_threads - 1];
  if (size < 3 || rank > 2) return;
  unsigned char* data = allocate(kBytes);
  int value = 0;
  MPI_Status status;
  if (rank == 0) {
    MPI_Request* requests = allocate(kMessages * sizeof *requests);
    for (int i = 0; i < kMessages; ++i)
      MPI_Isend(data, kBytes, MPI_BYTE, 1, 7, first, &requests[i]);
    do MPI_Recv(&value, 1, MPI_INT, 2, MPI_ANY_TAG, second, &status);
    while (status.MPI_TAG == kMore);
    EXPECT_OK(MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE));
    free(requests);
  } else if (rank == 1) {
    for (int i = 0; i < kMessages; ++i)
      EXPECT_OK(MPI_Recv(data, kBytes, MPI_BYTE, 0, 7, first, &status));
    EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 2, kOver, second));
  } else {
    for (int flag = 0; !flag;) {
      EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 0, kMore, second));
      EXPECT_OK(MPI_Iprobe(1, kOver, second, &flag, &status));
    }
    EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, 1, kOver, second, &status));
    EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 0, kOver, second));
  }
  free(data);
}

static void* work(void* number) {
  const int thread = (int)(intptr_t)number;
  ring(comms[thread], thread);
  across(thread);
  return NULL;
}

// Until somebody is lost; then everybody is told on this communicator, too.
static void* work_to_death(void* number) {
  MPI_Comm comm = comms[(int)(intptr_t)number];
  static char data[kMaxBytes];
  int code = MPI_SUCCESS;
  for (int round = 0; code == MPI_SUCCESS; ++round) {
    if (rank == 1 && round == num_rounds) {
      // Some threads are in the middle of something.
      if (number == NULL) kill(getpid(), SIGKILL);
    }
    MPI_Status status;
    const int bytes = bytes_of(round);
    char in[1];
    if (round % 2 == 0) {
      int one = 1, sum = 0;
      code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    } else if (rank == 1) {
      for (int peer = 0; peer < size && code == MPI_SUCCESS; ++peer)
        if (peer != rank) code = MPI_Send(data, bytes, MPI_BYTE, peer, 1, comm);
    } else {
      char* room = allocate(kMaxBytes);
      code = MPI_Recv(room, kMaxBytes, MPI_BYTE, 1, 1, comm, &status);
      free(room);
    }
    (void)in;
  }
  EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
  EXPECT_CLASS(MPI_Send(data, 1, MPI_BYTE, 1, 5, comm), MPIX_ERR_PROC_FAILED);
  EXPECT_CLASS(MPI_Recv(data, 1, MPI_BYTE, 1, 5, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
  // The others go on with each other.
  if (rank == 0) {
    for (int peer = 2; peer < size; ++peer)
      EXPECT_OK(MPI_Send(data, kMaxBytes, MPI_BYTE, peer, 6, comm));
  } else {
    char* room = allocate(kMaxBytes);
    EXPECT_OK(MPI_Recv(room, kMaxBytes, MPI_BYTE, 0, 6, comm, MPI_STATUS_IGNORE));
    free(room);
  }
  return NULL;
}

int main(int argc, char** argv) {
  num_threads = atoi(argv[1]);
  num_rounds = atoi(argv[2]);
  const char* what = argc > 3 ? argv[3] : "";
  const int is_mixed = strcmp(what, "mixed") == 0, is_death = strcmp(what, "death") == 0;
  int wanted = MPI_THREAD_MULTIPLE, provided;
  // Who is rank 0 is not known before MPI_Init.
  const char* own = getenv("WEFT_RANK");
  if (is_mixed && own != NULL && atoi(own) != 0) wanted = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  learn_place();
  EXPECT(provided >= wanted);
  for (int i = 0; i < num_threads; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (is_death) MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
  }
  if (is_death) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  pthread_t threads[kMaxThreads];
  for (intptr_t i = 0; i < num_threads; ++i) {
    if (is_mixed)
      ring(comms[i], (int)i);
    else
      pthread_create(&threads[i], NULL, is_death ? work_to_death : work, (void*)i);
  }
  for (int i = 0; i < num_threads && !is_mixed; ++i) pthread_join(threads[i], NULL);
  if (is_death) {
    // A receive from any source of communicators that are made later has nothing to do with it.
    MPI_Group world, dead, living;
    const int victim = 1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &victim, &dead);
    MPI_Group_difference(world, dead, &living);
    for (int i = 0; i < 9; ++i) {
      MPI_Comm later;
      int value = -1, flag = 0, one = 1;
      MPI_Request request;
      EXPECT_OK(MPI_Comm_create_group(MPI_COMM_WORLD, living, i, &later));
      MPI_Comm_set_errhandler(later, MPI_ERRORS_RETURN);
      MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, later, &request);
      for (int tries = 0; tries < 20; ++tries) {
        EXPECT_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        EXPECT(!flag);
      }
      EXPECT_OK(MPI_Barrier(later));
      int me;
      MPI_Comm_rank(later, &me);
      EXPECT_OK(MPI_Send(&one, 1, MPI_INT, (me + 1) % (size - 1), 3, later));
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_EQ(value, 1);
      MPI_Comm_free(&later);
    }
    MPI_Group_free(&living);
    MPI_Group_free(&dead);
    MPI_Group_free(&world);
  }
  if (!is_death) {
    behind();
    for (int i = 0; i < num_threads; ++i) MPI_Comm_free(&comms[i]);
    // Contexts come again.
    for (int i = 0; i < 100; ++i) {
      MPI_Comm again;
      int sum = 0, one = 1;
      MPI_Comm_dup(MPI_COMM_WORLD, &again);
      EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again));
      EXPECT_EQ(sum, size);
      MPI_Comm_free(&again);
    }
  }
  return end();
}
