// threads_one THREADS ROUNDS [tag] [source]: threads of each process that share one communicator,
// with the assertions that are named: mpi_assert_no_any_tag (tag), mpi_assert_no_any_source
// (source). Messages of one tag keep their order, of any length and by any way to send, receive and
// ask; wildcards see the order of sending where they are allowed, and are refused where they are
// not. Instead, with
//   death   rank 1 is killed, and the others go on, then revoke the communicator
//   fatal   the first wildcard ends the job
#include <mpi-ext.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "expect.h"

enum { kMaxThreads = 16, kMaxBytes = 150000, kWindow = 10 };
static MPI_Comm comm;
static int num_threads, num_rounds, no_any_tag, no_any_source, is_death, is_fatal;

static int bytes_of(unsigned i) {
  static const int sizes[] = {8, 12, 100, 305, 4096, 20001, 70000, kMaxBytes};
  return sizes[i % 8];
}

// Numbers of messages, from one thread to the thread of the same number, of one tag.
typedef struct {
  int thread, number;
} Head;

static void put(unsigned char* out, int thread, int number, int bytes) {
  const Head head = {thread, number};
  memset(out, (thread * 31 + number) % 251, (size_t)bytes);
  memcpy(out, &head, sizeof head);
}

static void check(const unsigned char* in, int thread, int number, int bytes) {
  Head head;
  memcpy(&head, in, sizeof head);
  EXPECT_EQ(head.thread, thread);
  EXPECT_EQ(head.number, number);
  if (bytes > (int)sizeof head) EXPECT_EQ(in[bytes - 1], (thread * 31 + number) % 251);
}

static int tag_of(int thread, int stream) { return thread * 1000 + stream; }

// Around the ring: two streams of messages, whose windows are sent and received in all ways.
static void ring(int thread) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  unsigned char* out = allocate((size_t)2 * kWindow * kMaxBytes);
  unsigned char* in = allocate((size_t)2 * kWindow * kMaxBytes);
  int sent[2] = {0, 0}, received[2] = {0, 0};
  for (int round = 0; round < num_rounds; ++round) {
    MPI_Request requests[4 * kWindow];
    int num = 0;
    const int way = (round + thread) % 4;
    // Receives first, later, or after a probe.
    for (int turn = 0; turn < 2; ++turn) {
      const int receives = (turn == 0) == (way == 0);
      for (int i = 0; i < 2 * kWindow && (!receives || way < 2); ++i) {
        const int stream = i % 2, tag = tag_of(thread, stream);
        unsigned char* at = (receives ? in : out) + (size_t)i * kMaxBytes;
        if (receives) {
          MPI_Irecv(at, kMaxBytes, MPI_BYTE, no_any_source || i % 3 ? left : MPI_ANY_SOURCE, tag,
                    comm, &requests[num++]);
          continue;
        }
        const int bytes = bytes_of((unsigned)(round + sent[stream]));
        put(at, thread, sent[stream]++, bytes);
        switch (i % 5) {
          case 0:
            EXPECT_OK(MPI_Issend(at, bytes, MPI_BYTE, right, tag, comm, &requests[num++]));
            break;
          case 1:
            EXPECT_OK(MPI_Ibsend(at, bytes, MPI_BYTE, right, tag, comm, &requests[num++]));
            break;
          default:
            EXPECT_OK(MPI_Isend(at, bytes, MPI_BYTE, right, tag, comm, &requests[num++]));
        }
      }
    }
    for (int i = 0; i < 2 * kWindow && way >= 2; ++i) {
      const int tag = tag_of(thread, i % 2), from = no_any_source ? left : MPI_ANY_SOURCE;
      unsigned char* at = in + (size_t)i * kMaxBytes;
      MPI_Status status;
      MPI_Message message;
      int flag = 0;
      if (way == 2) {
        EXPECT_OK(MPI_Probe(from, tag, comm, &status));
        EXPECT_EQ(status.MPI_TAG, tag);
        EXPECT_OK(MPI_Recv(at, kMaxBytes, MPI_BYTE, left, tag, comm, &status));
      } else {
        while (!flag) EXPECT_OK(MPI_Improbe(from, tag, comm, &flag, &message, &status));
        EXPECT_OK(MPI_Mrecv(at, kMaxBytes, MPI_BYTE, &message, &status));
      }
      EXPECT_EQ(status.MPI_SOURCE, left);
      EXPECT_EQ(status.MPI_TAG, tag);
    }
    if (round % 2) {
      EXPECT_OK(MPI_Waitall(num, requests, MPI_STATUSES_IGNORE));
    } else {
      for (int index = 0; index != MPI_UNDEFINED;)
        EXPECT_OK(MPI_Waitany(num, requests, &index, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < 2 * kWindow; ++i) {
      const int stream = i % 2;
      const int bytes = bytes_of((unsigned)(round + received[stream]));
      check(in + (size_t)i * kMaxBytes, thread, received[stream]++, bytes);
    }
  }
  free(out);
  free(in);
}

// The other ways to make requests.
static void kinds(int thread) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  const int tag = tag_of(thread, 10);
  MPI_Request requests[2];
  MPI_Status status;
  int out = -1, in = -1, other = -1, flag = 0;
  EXPECT_OK(MPI_Send_init(&out, 1, MPI_INT, right, tag, comm, &requests[0]));
  EXPECT_OK(MPI_Recv_init(&in, 1, MPI_INT, left, tag, comm, &requests[1]));
  for (int i = 0; i < num_rounds; ++i) {
    out = rank * 1000 + i;
    EXPECT_OK(MPI_Startall(2, requests));
    EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_EQ(in, left * 1000 + i);
    EXPECT_OK(MPI_Sendrecv(&out, 1, MPI_INT, right, tag + 1, &other, 1, MPI_INT, left, tag + 1,
                           comm, &status));
    EXPECT_EQ(other, in);
    MPI_Request both;
    EXPECT_OK(MPI_Isendrecv(&out, 1, MPI_INT, right, tag + 2, &other, 1, MPI_INT, left, tag + 2,
                            comm, &both));
    EXPECT_OK(MPI_Wait(&both, &status));
    EXPECT_EQ(other, in);
    EXPECT_EQ(status.MPI_TAG, tag + 2);
  }
  for (int i = 0; i < 2; ++i) EXPECT_OK(MPI_Request_free(&requests[i]));
  // A receive that nobody sends to is cancelled, and a partitioned message has a context of its
  // own.
  EXPECT_OK(MPI_Irecv(&in, 1, MPI_INT, left, tag + 3, comm, &requests[0]));
  EXPECT_OK(MPI_Cancel(&requests[0]));
  EXPECT_OK(MPI_Wait(&requests[0], &status));
  EXPECT_OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 1);
  int parts_out[4], parts_in[4] = {0};
  for (int i = 0; i < 4; ++i) parts_out[i] = rank + i;
  EXPECT_OK(
      MPI_Psend_init(parts_out, 4, 1, MPI_INT, right, tag + 4, comm, MPI_INFO_NULL, &requests[0]));
  EXPECT_OK(
      MPI_Precv_init(parts_in, 4, 1, MPI_INT, left, tag + 4, comm, MPI_INFO_NULL, &requests[1]));
  EXPECT_OK(MPI_Startall(2, requests));
  for (int i = 0; i < 4; ++i) EXPECT_OK(MPI_Pready(3 - i, requests[0]));
  EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(parts_in[i], left + i);
  for (int i = 0; i < 2; ++i) EXPECT_OK(MPI_Request_free(&requests[i]));
}

static void* work(void* number) {
  ring((int)(intptr_t)number);
  kinds((int)(intptr_t)number);
  return NULL;
}

// One thread of rank 0 takes what all threads of all others send, by wildcards where they are
// allowed: each sender's messages come in the order in which they were sent, whatever their tags.
typedef struct {
  int thread, number, tag;
} Numbered;

static void* send_numbered(void* number) {
  const int thread = (int)(intptr_t)number;
  for (int i = 0; i < num_rounds * 20; ++i) {
    // Tags that its own channel has and others; two of a thread, as those are its order.
    const Numbered out = {thread, i, no_any_tag ? tag_of(thread, 0) : tag_of(thread, i % 7)};
    EXPECT_OK(MPI_Send(&out, sizeof out, MPI_BYTE, 0, out.tag, comm));
  }
  return NULL;
}

static void take_numbered(void) {
  int* next = allocate(sizeof(int) * (size_t)size * kMaxThreads);
  memset(next, 0, sizeof(int) * (size_t)size * kMaxThreads);
  const int num = num_rounds * 20 * num_threads * (size - 1);
  for (int i = 0; i < num; ++i) {
    // Sources and tags in turn where they may not be any.
    const int turn = i % (num_threads * (size - 1));
    const int source = no_any_source ? 1 + turn % (size - 1) : MPI_ANY_SOURCE;
    const int tag = no_any_tag ? tag_of(turn / (size - 1), 0) : MPI_ANY_TAG;
    Numbered in;
    MPI_Status status;
    MPI_Request request;
    if (i % 3 == 0) {
      EXPECT_OK(MPI_Irecv(&in, sizeof in, MPI_BYTE, source, tag, comm, &request));
      EXPECT_OK(MPI_Wait(&request, &status));
    } else {
      if (i % 3 == 1) EXPECT_OK(MPI_Probe(source, tag, comm, &status));
      EXPECT_OK(MPI_Recv(&in, sizeof in, MPI_BYTE, source, tag, comm, &status));
    }
    EXPECT_EQ(status.MPI_TAG, in.tag);
    int* expected = &next[status.MPI_SOURCE * kMaxThreads + in.thread];
    EXPECT_EQ(in.number, *expected);
    *expected = in.number + 1;
  }
  free(next);
}

static void numbered(void) {
  pthread_t threads[kMaxThreads];
  if (rank == 0) return take_numbered();
  for (intptr_t i = 0; i < num_threads; ++i)
    pthread_create(&threads[i], NULL, send_numbered, (void*)i);
  for (int i = 0; i < num_threads; ++i) pthread_join(threads[i], NULL);
}

// Wildcards that are asserted not to be used.
static void refusals(MPI_Comm one) {
  int value = -1, flag;
  MPI_Request request;
  MPI_Message message;
  MPI_Errhandler before;
  MPI_Comm_get_errhandler(one, &before);
  MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN);
  const int sources[] = {0, MPI_ANY_SOURCE}, tags[] = {MPI_ANY_TAG, 0};
  const int refused[] = {no_any_tag, no_any_source}, classes[] = {MPI_ERR_TAG, MPI_ERR_RANK};
  for (int i = 0; i < 2; ++i) {
    if (!refused[i]) continue;
    const int source = sources[i], tag = tags[i], class = classes[i];
    EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, source, tag, one, MPI_STATUS_IGNORE), class);
    EXPECT_CLASS(MPI_Irecv(&value, 1, MPI_INT, source, tag, one, &request), class);
    EXPECT_CLASS(MPI_Recv_init(&value, 1, MPI_INT, source, tag, one, &request), class);
    EXPECT_CLASS(MPI_Probe(source, tag, one, MPI_STATUS_IGNORE), class);
    EXPECT_CLASS(MPI_Iprobe(source, tag, one, &flag, MPI_STATUS_IGNORE), class);
    EXPECT_CLASS(MPI_Mprobe(source, tag, one, &message, MPI_STATUS_IGNORE), class);
    EXPECT_CLASS(MPI_Improbe(source, tag, one, &flag, &message, MPI_STATUS_IGNORE), class);
    EXPECT_CLASS(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &value, 1, MPI_INT, source, tag,
                              one, MPI_STATUS_IGNORE),
                 class);
    EXPECT_CLASS(MPI_Isendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &value, 1, MPI_INT, source,
                               tag, one, &request),
                 class);
  }
  MPI_Comm_set_errhandler(one, before);
  MPI_Errhandler_free(&before);
}

static MPI_Info make_info(int asserts) {
  MPI_Info info;
  MPI_Info_create(&info);
  if (no_any_tag) MPI_Info_set(info, "mpi_assert_no_any_tag", asserts ? "true" : "false");
  if (no_any_source) MPI_Info_set(info, "mpi_assert_no_any_source", asserts ? "true" : "false");
  MPI_Info_set(info, "mpi_assert_allow_overtaking", "false");
  return info;
}

// What only some members assert does not bind them: all wildcards work.
static void some_assert(void) {
  if (size == 1) return;
  MPI_Comm some;
  MPI_Info info = make_info(rank == 0);
  EXPECT_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &some));
  MPI_Info_free(&info);
  int value = -1;
  MPI_Request request;
  EXPECT_OK(MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 77, some, &request));
  EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, some, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, (rank + size - 1) % size);
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Comm_free(&some);
}

// An assertion that a communicator was made with cannot be taken back; the info says so, also that
// of duplicates.
static void withdraw(MPI_Comm one, MPI_Info withdrawn) {
  static const char* const keys[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source"};
  MPI_Comm made[3] = {one, MPI_COMM_NULL, MPI_COMM_NULL};
  MPI_Request request;
  EXPECT_OK(MPI_Comm_set_info(one, withdrawn));
  EXPECT_OK(MPI_Comm_dup(one, &made[1]));
  EXPECT_OK(MPI_Comm_idup(one, &made[2], &request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (int i = 0; i < 3; ++i) {
    MPI_Info used;
    EXPECT_OK(MPI_Comm_get_info(made[i], &used));
    for (int k = 0; k < 2; ++k) {
      char value[8] = "";
      int flag;
      EXPECT_OK(MPI_Info_get(used, keys[k], sizeof value - 1, value, &flag));
      EXPECT_EQ(flag && strcmp(value, "true") == 0, k == 0 ? no_any_tag : no_any_source);
    }
    MPI_Info_free(&used);
    refusals(made[i]);
    if (i > 0) MPI_Comm_free(&made[i]);
  }
}

// Rank 1 dies while the threads of the others wait for it on tags of their own.
static atomic_int num_told;

static void* wait_for_dead(void* number) {
  const int thread = (int)(intptr_t)number, peer = rank == 0 ? 2 : 0;
  int value = -1, code;
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, 1, tag_of(thread, 0), comm, MPI_STATUS_IGNORE),
               MPIX_ERR_PROC_FAILED);
  MPI_Request request;
  // One that waits for anybody pauses until the loss is acknowledged, whatever its channel.
  EXPECT_OK(MPI_Irecv(&value, 1, MPI_INT, no_any_source ? peer : MPI_ANY_SOURCE, tag_of(thread, 1),
                      comm, &request));
  if (rank == 2) EXPECT_OK(MPI_Send(&thread, 1, MPI_INT, peer, tag_of(thread, 1), comm));
  while ((code = MPI_Wait(&request, MPI_STATUS_IGNORE)) != MPI_SUCCESS) {
    EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED_PENDING);
    EXPECT_OK(MPIX_Comm_failure_ack(comm));
  }
  EXPECT_EQ(value, thread);
  // The living go on with each other.
  if (rank == 0) EXPECT_OK(MPI_Send(&thread, 1, MPI_INT, peer, tag_of(thread, 1), comm));
  // And hear of a revocation wherever they wait.
  atomic_fetch_add(&num_told, 1);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, peer, tag_of(thread, 2), comm, MPI_STATUS_IGNORE),
               MPIX_ERR_REVOKED);
  return NULL;
}

static int death(void) {
  MPI_Comm living;
  pthread_t threads[kMaxThreads];
  int value = 0, one = 1, sum = 0;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  if (rank == 1) kill(getpid(), SIGKILL);
  for (intptr_t i = 0; i < num_threads; ++i)
    pthread_create(&threads[i], NULL, wait_for_dead, (void*)i);
  while (atomic_load(&num_told) < num_threads) usleep(1000);
  if (rank == 2) {
    EXPECT_OK(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
  } else {
    EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_OK(MPIX_Comm_revoke(comm));
  }
  for (int i = 0; i < num_threads; ++i) pthread_join(threads[i], NULL);
  EXPECT_OK(MPIX_Comm_shrink(comm, &living));
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, living));
  EXPECT_EQ(sum, size - 1);
  MPI_Comm_free(&living);
  MPI_Comm_free(&comm);
  return end();
}

int main(int argc, char** argv) {
  num_threads = atoi(argv[1]);
  num_rounds = atoi(argv[2]);
  for (int i = 3; i < argc; ++i) {
    no_any_tag |= strcmp(argv[i], "tag") == 0;
    no_any_source |= strcmp(argv[i], "source") == 0;
    is_death |= strcmp(argv[i], "death") == 0;
    is_fatal |= strcmp(argv[i], "fatal") == 0;
  }
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
  MPI_Info info = make_info(1);
  MPI_Comm first;
  EXPECT_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &first));
  EXPECT_OK(MPI_Comm_dup(first, &comm));
  MPI_Comm_free(&first);
  if (is_death) return death();
  if (is_fatal) {
    MPI_Recv(&provided, 1, MPI_INT, no_any_source ? MPI_ANY_SOURCE : 0,
             no_any_tag ? MPI_ANY_TAG : 0, comm, MPI_STATUS_IGNORE);
    return end();
  }
  static char buffer[1 << 25];
  EXPECT_OK(MPI_Buffer_attach(buffer, sizeof buffer));
  pthread_t threads[kMaxThreads];
  for (intptr_t i = 0; i < num_threads; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < num_threads; ++i) pthread_join(threads[i], NULL);
  void* detached;
  int bytes;
  EXPECT_OK(MPI_Buffer_detach(&detached, &bytes));
  numbered();
  some_assert();
  refusals(comm);
  MPI_Info none = make_info(0);
  withdraw(comm, none);
  withdraw(comm, MPI_INFO_NULL);
  MPI_Info_free(&none);
  // By other ways to make it, and often, so that contexts come again.
  for (int i = 0; i < 30; ++i) {
    MPI_Comm made[4];
    MPI_Request request;
    EXPECT_OK(MPI_Comm_idup(comm, &made[0], &request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, info, &made[1]));
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &made[2]));
    EXPECT_OK(MPI_Comm_set_info(made[2], info));
    EXPECT_OK(MPI_Comm_dup(made[2], &made[3]));
    for (int k = 0; k < 4; ++k) {
      int n, me, value = -1;
      MPI_Comm_size(made[k], &n);
      MPI_Comm_rank(made[k], &me);
      for (int tag = 0; tag < 20; tag += 3) {
        EXPECT_OK(MPI_Sendrecv(&tag, 1, MPI_INT, (me + 1) % n, tag, &value, 1, MPI_INT,
                               (me + n - 1) % n, tag, made[k], MPI_STATUS_IGNORE));
        EXPECT_EQ(value, tag);
      }
      if (i == 0 && k != 2) refusals(made[k]);
      MPI_Comm_free(&made[k]);
    }
  }
  MPI_Info_free(&info);
  MPI_Comm_free(&comm);
  return end();
}
