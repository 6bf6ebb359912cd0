// Sessions: with and without the world model, several at once, one after the other, from threads.
// `sessions` runs them before, beside and after MPI_Init and MPI_Finalize; `sessions alone` never
// calls these; `sessions death` loses a process, after which the others end in order; `sessions
// exit` ends its session in an exit handler that is older than the session.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

static int last_code;
static MPI_Session last_session;
static void on_session_error(MPI_Session* session, int* code, ...) {
  last_session = *session;
  last_code = *code;
}

static MPI_Comm comm_of(MPI_Session session, const char* set, const char* tag) {
  MPI_Group group;
  MPI_Comm comm = MPI_COMM_NULL;
  EXPECT_OK(MPI_Group_from_session_pset(session, set, &group));
  EXPECT_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  MPI_Group_free(&group);
  return comm;
}

// Messages, collectives and what is derived from a session's communicator.
static void use(MPI_Comm comm) {
  int me, num, sum = 0, got = -1;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &num);
  const int one = 1;
  EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, num);
  EXPECT_OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % num, 3, &got, 1, MPI_INT, (me + num - 1) % num,
                         3, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(got, (me + num - 1) % num);
  MPI_Comm half;
  EXPECT_OK(MPI_Comm_split(comm, me % 2, 0, &half));
  EXPECT_OK(MPI_Barrier(half));
  EXPECT_OK(MPI_Comm_free(&half));
}

static void check_sets(MPI_Session session) {
  int num = 0, length = 0, flag = 0, me, all;
  char name[MPI_MAX_PSET_NAME_LEN], value[16];
  EXPECT_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &num));
  EXPECT(num >= 2);
  int world = 0, self = 0;
  for (int i = 0; i < num; ++i) {
    length = 0;
    EXPECT_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
    EXPECT(length > 1);
    EXPECT_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
    EXPECT_EQ(strlen(name) + 1, (size_t)length);
    world += strcmp(name, "mpi://WORLD") == 0;
    self += strcmp(name, "mpi://SELF") == 0;
    length = 4;
    EXPECT_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, value));
    EXPECT_EQ(strlen(value), 3u);
  }
  EXPECT_EQ(world, 1);
  EXPECT_EQ(self, 1);
  MPI_Info info;
  EXPECT_OK(MPI_Session_get_pset_info(session, "mpi://SELF", &info));
  length = sizeof value;
  EXPECT_OK(MPI_Info_get_string(info, "mpi_size", &length, value, &flag));
  EXPECT(flag && strcmp(value, "1") == 0);
  MPI_Info_free(&info);
  EXPECT_OK(MPI_Session_get_info(session, &info));
  length = MPI_MAX_PSET_NAME_LEN;
  EXPECT_OK(MPI_Info_get_string(info, "thread_level", &length, name, &flag));
  EXPECT(flag && strncmp(name, "MPI_THREAD_", 11) == 0);
  MPI_Info_free(&info);
  MPI_Group group;
  EXPECT_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  MPI_Group_size(group, &all);
  MPI_Group_rank(group, &me);
  EXPECT(me >= 0 && me < all);
  MPI_Group_free(&group);
}

static void check_errors(void) {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Errhandler handler, got;
  EXPECT_OK(MPI_Session_create_errhandler(on_session_error, &handler));
  EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
  EXPECT_OK(MPI_Session_get_errhandler(session, &got));
  EXPECT(got == handler);
  MPI_Errhandler_free(&got);
  MPI_Group group;
  last_code = 0;
  MPI_Group_from_session_pset(session, "mpi://NOWHERE", &group);
  EXPECT_EQ(last_code, MPI_ERR_ARG);
  EXPECT(last_session == session);
  last_code = 0;
  EXPECT_OK(MPI_Session_call_errhandler(session, MPI_ERR_TAG));
  EXPECT_EQ(last_code, MPI_ERR_TAG);
  EXPECT_OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
  int num, length = 0;
  EXPECT_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &length, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
  EXPECT_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &num));
  EXPECT_CLASS(MPI_Session_get_pset_info(session, "mpi://NOWHERE", NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL), MPI_ERR_ARG);
  EXPECT(MPI_Session_fromint(MPI_Session_toint(session)) == session);
  // An empty group makes no communicator, and the others none for who is not in it.
  MPI_Comm comm = MPI_COMM_SELF;
  EXPECT_OK(
      MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "none", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  EXPECT(comm == MPI_COMM_NULL);
  EXPECT_OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
  EXPECT_CLASS(MPI_Comm_create_from_group(group, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
               MPI_ERR_ARG);
  EXPECT_CLASS(
      MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
      MPI_ERR_GROUP);
  EXPECT_CLASS(MPI_Comm_create_from_group(group, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL),
               MPI_ERR_ARG);
  MPI_Group_free(&group);
  MPI_Errhandler_free(&handler);
  EXPECT_OK(MPI_Session_finalize(&session));
  EXPECT(session == MPI_SESSION_NULL);
}

static void check_buffers(MPI_Session session) {
  MPI_Comm comm = comm_of(session, "mpi://WORLD", "buffers");
  int me, num, value = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &num);
  char buffer[1000 + MPI_BSEND_OVERHEAD];
  EXPECT_OK(MPI_Session_attach_buffer(session, buffer, sizeof buffer));
  EXPECT_CLASS(MPI_Session_attach_buffer(session, buffer, sizeof buffer), MPI_ERR_BUFFER);
  EXPECT_OK(MPI_Bsend(&me, 1, MPI_INT, (me + 1) % num, 5, comm));
  EXPECT_OK(MPI_Recv(&value, 1, MPI_INT, (me + num - 1) % num, 5, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, (me + num - 1) % num);
  MPI_Request request;
  EXPECT_OK(MPI_Session_iflush_buffer(session, &request));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_OK(MPI_Session_flush_buffer(session));
  void* address = NULL;
  int size = 0;
  EXPECT_OK(MPI_Session_detach_buffer(session, &address, &size));
  EXPECT(address == buffer && size == (int)sizeof buffer);
  EXPECT_CLASS(MPI_Session_detach_buffer(session, &address, &size), MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Bsend(&me, 1, MPI_INT, me, 5, comm), MPI_ERR_BUFFER);
  MPI_Comm_free(&comm);
}

// Both halves of the world; one process alone has no other side.
static void check_intercomm(MPI_Session session) {
  MPI_Group world, low, high;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
  int me, num;
  MPI_Group_rank(world, &me);
  MPI_Group_size(world, &num);
  if (num > 1) {
    int ranges[2][3] = {{0, num / 2 - 1, 1}, {num / 2, num - 1, 1}};
    MPI_Group_range_incl(world, 1, &ranges[0], &low);
    MPI_Group_range_incl(world, 1, &ranges[1], &high);
    const int is_low = me < num / 2;
    MPI_Comm inter, merged;
    EXPECT_OK(MPI_Intercomm_create_from_groups(is_low ? low : high, 0, is_low ? high : low, 0,
                                               "halves", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
    int remote = 0, sum = 0;
    const int one = 1;
    MPI_Comm_remote_size(inter, &remote);
    EXPECT_EQ(remote, is_low ? num - num / 2 : num / 2);
    EXPECT_OK(MPI_Intercomm_merge(inter, !is_low, &merged));
    EXPECT_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged));
    EXPECT_EQ(sum, num);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Group_free(&low);
    MPI_Group_free(&high);
  }
  MPI_Comm none = MPI_COMM_SELF;
  EXPECT_OK(MPI_Intercomm_create_from_groups(world, 0, MPI_GROUP_EMPTY, 0, "none", MPI_INFO_NULL,
                                             MPI_ERRORS_RETURN, &none));
  EXPECT(none == MPI_COMM_NULL);
  MPI_Group_free(&world);
}

static void* in_thread(void* argument) {
  MPI_Session session;
  char tag[32];
  snprintf(tag, sizeof tag, "thread %d", (int)(intptr_t)argument);
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MPI_Comm comm = comm_of(session, "mpi://WORLD", tag);
    use(comm);
    MPI_Comm_free(&comm);
    EXPECT_OK(MPI_Session_finalize(&session));
  }
  return NULL;
}
// Sessions of several threads that know nothing of each other.
static void check_threads(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, in_thread, (void*)(intptr_t)i);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

static void check_one(const char* tag) {
  MPI_Session session;
  EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  MPI_Comm world = comm_of(session, "mpi://WORLD", tag);
  MPI_Comm self = comm_of(session, "mpi://SELF", tag);
  use(world);
  use(self);
  MPI_Comm_free(&self);
  MPI_Comm_free(&world);
  EXPECT_OK(MPI_Session_finalize(&session));
}

static MPI_Session kept;
static void end_kept(void) {
  EXPECT_OK(MPI_Session_finalize(&kept));
  if (num_failures != 0) _exit(1);
}
static int end_at_exit(void) {
  atexit(end_kept);
  EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &kept));
  MPI_Comm comm = comm_of(kept, "mpi://WORLD", "exit");
  MPI_Comm_rank(comm, &rank);
  use(comm);
  MPI_Comm_free(&comm);
  if (rank == 0 && num_failures == 0) printf("as expected\n");
  return num_failures ? 1 : 0;
}

static int survive_death(void) {
  MPI_Session session;
  EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  MPI_Comm comm = comm_of(session, "mpi://WORLD", "death");
  MPI_Comm_rank(comm, &rank);
  EXPECT_OK(MPI_Barrier(comm));
  if (rank == 1) raise(SIGKILL);
  EXPECT_CLASS(MPI_Barrier(comm), MPIX_ERR_PROC_FAILED);
  MPI_Comm_free(&comm);
  EXPECT_OK(MPI_Session_finalize(&session));
  if (rank == 0 && num_failures == 0) printf("as expected\n");
  return num_failures ? 1 : 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "death") == 0) return survive_death();
  if (argc > 1 && strcmp(argv[1], "exit") == 0) return end_at_exit();
  const int alone = argc > 1 && strcmp(argv[1], "alone") == 0;
  int flag = 1;
  MPI_Session session, other;
  check_errors();
  for (int i = 0; i < 3; ++i) check_one("one after the other");
  EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  EXPECT_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
  MPI_Comm of_other = comm_of(other, "mpi://WORLD", "other");
  MPI_Comm_rank(of_other, &rank);
  MPI_Comm_size(of_other, &size);
  check_sets(session);
  check_buffers(session);
  check_intercomm(session);
  check_threads();
  MPI_Initialized(&flag);
  EXPECT(!flag);
  if (!alone) {
    begin(&argc, &argv);
    use(MPI_COMM_WORLD);
    MPI_Is_thread_main(&flag);
    EXPECT(flag);
    use(of_other);
    check_one("beside the world");
    MPI_Finalize();
    MPI_Finalized(&flag);
    EXPECT(flag);
  }
  use(of_other);
  MPI_Comm_free(&of_other);
  EXPECT_OK(MPI_Session_finalize(&other));
  EXPECT_OK(MPI_Session_finalize(&session));
  check_one("after all");
  if (rank == 0 && num_failures == 0) printf("as expected\n");
  return num_failures ? 1 : 0;
}
