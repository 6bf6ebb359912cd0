// Messages of which profile_test.py knows how many ends are paired. The argument is a case below.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int rank, size, right, left;

// Receives that are too short have taken their messages all the same, also those whose requests a
// failing call completes: 4 messages to the right, each time.
static void fail(void) {
  int in[2], out[2] = {rank, rank};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 10; ++i) {
    MPI_Request requests[2];
    MPI_Irecv(in, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 2, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[1]);
    if (MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS) puts("no error");
    // Gets the handle of one of them, and is no message.
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    for (int length = 2; length >= 1; --length)
      MPI_Sendrecv(out, length, MPI_INT, right, 6, in, 1, MPI_INT, left, 6, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 1, MPI_INT, right, 6, in, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
}

enum { kThreads = 4, kCopies = 50 };
static MPI_Comm of_thread[kThreads];

// Makes communicators while other threads do: thread i sends i + 1 messages on each of its own.
static void* copy(void* thread) {
  const int own = (int)(MPI_Aint)thread;
  for (int i = 0; i < kCopies; ++i) {
    MPI_Comm made;
    MPI_Comm_dup(of_thread[own], &made);
    for (int k = 0; k <= own; ++k) {
      int in, out = k;
      MPI_Request requests[2];
      MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, made, &requests[0]);
      MPI_Isend(&out, 1, MPI_INT, right, 1, made, &requests[1]);
      int place;
      for (int done = 0; done < 2; ++done) MPI_Waitany(2, requests, &place, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&made);
  }
  return NULL;
}

static void thread(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[i]);
  for (MPI_Aint i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, copy, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&of_thread[i]);
}

// An intercommunicator between the first rank and the others, with a message each way, nobody's
// messages, one that is never received, and collectives with a root.
static void cross(void) {
  int in, out = rank, all[64];
  MPI_Comm half, across;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0, 9, &across);
  if (rank <= 1)
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, across,
                 MPI_STATUS_IGNORE);
  for (int i = 0; i < 5; ++i) MPI_Barrier(across);
  MPI_Bcast(&out, 1, MPI_INT, rank == 0 ? MPI_ROOT : 0, across);
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int num, places[2];
  MPI_Testsome(2, requests, &num, places, MPI_STATUSES_IGNORE);
  MPI_Isend(&out, 1, MPI_INT, MPI_PROC_NULL, 1, across, &requests[0]);
  MPI_Irecv(&in, 1, MPI_INT, MPI_PROC_NULL, 1, across, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
  if (rank == 0) MPI_Send(&out, 1, MPI_INT, 1, 777, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) {
    MPI_Bcast(&out, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Bcast(&out, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gather(&out, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  MPI_Comm_free(&across);
  MPI_Comm_free(&half);
}

// More messages than are logged: of each two ends here.
static void overflow(void) {
  enum { kMessages = (1 << 17) + 500 };
  int in, out = 1;
  for (int i = 0; i < kMessages; ++i)
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

// A session that began before the world ends after it: nothing of it is counted.
static void use(MPI_Session* session) {
  int in, out = rank;
  MPI_Group all;
  MPI_Comm made, copy;
  MPI_Group_from_session_pset(*session, "mpi://WORLD", &all);
  MPI_Comm_create_from_group(all, "paired", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
  MPI_Comm_dup(made, &copy);
  MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, copy, MPI_STATUS_IGNORE);
  if (in != left) puts("wrong");
  MPI_Comm_free(&copy);
  MPI_Comm_free(&made);
  MPI_Group_free(&all);
  MPI_Session_finalize(session);
}

int main(int argc, char** argv) {
  int level;
  MPI_Session session = MPI_SESSION_NULL;
  if (argc > 1 && strcmp(argv[1], "session") == 0)
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  const char* wanted = argc > 1 ? argv[1] : "";
  if (strcmp(wanted, "fail") == 0) fail();
  if (strcmp(wanted, "thread") == 0) thread();
  if (strcmp(wanted, "cross") == 0) cross();
  if (strcmp(wanted, "overflow") == 0) overflow();
  MPI_Finalize();
  if (session != MPI_SESSION_NULL) use(&session);
  return 0;
}
