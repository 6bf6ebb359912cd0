// survive_window WHAT...: rank 0 revokes a window or a file while the others are blocked on it, and
// the tool interface tells each of it.
//   WHAT   of windows: fence, lock, lock_all, start, wait (for the complete), test, rput, free, and
//          calls that are repeated: flush, fetch, accumulate, sync; of files: write_all, read_all,
//          write_ordered, read_ordered, split, set_size, file_sync, shared, close; misuse (what
//          wrong calls get); dies (rank 1 dies with a lock, and in a collective write); threads
//          (the waits are another thread's, also at rank 0; alone)
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "survive.h"

static const char* what = "";
static MPI_Win win;
static MPI_File file;
static int* memory;
static char name[100];

static int is(const char* it) { return strcmp(what, it) == 0; }

// ---- what a tool learns ----

static struct { int num, rank, handle; } seen;

static void on_revoked(MPI_T_event_instance instance, MPI_T_event_registration registration,
                       MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)safety, (void)user_data;
  ++seen.num;
  EXPECT_OK(MPI_T_event_read(instance, 0, &seen.rank));
  EXPECT_OK(MPI_T_event_read(instance, 1, &seen.handle));
}

static MPI_T_event_registration look_on(void) {
  MPI_T_event_registration registration;
  int provided, index;
  EXPECT_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  EXPECT_OK(MPI_T_event_get_index("revoked", &index));
  EXPECT_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
  EXPECT_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL,
                                          NULL, on_revoked));
  return registration;
}

// ---- windows ----

static MPI_Group only(int member) {
  MPI_Group world, made;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &member, &made);
  MPI_Group_free(&world);
  return made;
}

// Of memory that it allocates, or of the program's.
static void make_window(int is_allocated) {
  static int words[5];
  survive_at = "the making of a window";
  if (is_allocated) {
    EXPECT_OK(
        MPI_Win_allocate(sizeof words, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  } else {
    memory = words;
    EXPECT_OK(
        MPI_Win_create(words, sizeof words, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  }
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

// The calls of one kind, until one fails. Returns the error.
static int block_on_window(void) {
  int value = rank, result, flag, code = MPI_SUCCESS;
  const int last = size - 1;
  MPI_Group first;
  survive_at = what;
  if (is("fence")) return MPI_Win_fence(0, win);
  if (is("lock")) return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
  if (is("lock_all")) return MPI_Win_lock_all(0, win);
  if (is("start") || is("wait") || is("test")) {
    first = only(0);
    if (is("start")) code = MPI_Win_start(first, 0, win);
    if (!is("start")) code = MPI_Win_post(first, 0, win);
    MPI_Group_free(&first);
    if (code != MPI_SUCCESS || is("start")) return code;
    if (is("wait")) return MPI_Win_wait(win);
    do code = MPI_Win_test(win, &flag);
    while (code == MPI_SUCCESS && !flag);
    return code;
  }
  code = MPI_Win_lock(MPI_LOCK_SHARED, last, MPI_MODE_NOCHECK, win);
  while (code == MPI_SUCCESS) {
    MPI_Request request;
    if (is("rput")) {
      code = MPI_Rput(&value, 1, MPI_INT, last, 0, 1, MPI_INT, win, &request);
      if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is("fetch")) {
      code = MPI_Fetch_and_op(&value, &result, MPI_INT, last, 1, MPI_SUM, win);
    } else if (is("accumulate")) {
      code = MPI_Accumulate(memory, 2, MPI_INT, last, 2, 2, MPI_INT, MPI_SUM, win);
    } else if (is("flush")) {
      code = MPI_Get(&result, 1, MPI_INT, last, 0, 1, MPI_INT, win);
    }
    if (code == MPI_SUCCESS) code = is("sync") ? MPI_Win_sync(win) : MPI_Win_flush(last, win);
  }
  return code;
}

// What a revoked window gives for everything.
static void check_window(void) {
  int value = 1, result = 0, flag = 0, num = -1;
  const int expected = MPIX_ERR_REVOKED;
  MPI_Group group = only(0), dead;
  MPI_Request request;
  survive_at = "calls on a revoked window";
  EXPECT_OK(MPIX_Win_is_revoked(win, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_CLASS(MPI_Win_fence(0, win), expected);
  EXPECT_CLASS(MPI_Win_start(group, 0, win), expected);
  EXPECT_CLASS(MPI_Win_complete(win), expected);
  EXPECT_CLASS(MPI_Win_post(group, 0, win), expected);
  EXPECT_CLASS(MPI_Win_wait(win), expected);
  EXPECT_CLASS(MPI_Win_test(win, &flag), expected);
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), expected);
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win), expected);
  EXPECT_CLASS(MPI_Win_unlock(0, win), expected);
  EXPECT_CLASS(MPI_Win_lock_all(0, win), expected);
  EXPECT_CLASS(MPI_Win_unlock_all(win), expected);
  EXPECT_CLASS(MPI_Win_flush(0, win), expected);
  EXPECT_CLASS(MPI_Win_flush_local_all(win), expected);
  EXPECT_CLASS(MPI_Win_sync(win), expected);
  EXPECT_CLASS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), expected);
  EXPECT_CLASS(MPI_Get(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win), expected);
  EXPECT_CLASS(MPI_Rget(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), expected);
  EXPECT_CLASS(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), expected);
  EXPECT_CLASS(MPI_Fetch_and_op(&value, &result, MPI_INT, 0, 0, MPI_SUM, win), expected);
  EXPECT_CLASS(MPI_Compare_and_swap(&value, &value, &result, MPI_INT, 0, 0, win), expected);
  EXPECT_OK(MPI_Win_get_failed(win, &dead));
  EXPECT(dead == MPI_GROUP_EMPTY);
  EXPECT_OK(MPI_Win_ack_failed(win, 3, &num));
  EXPECT_EQ(num, 0);
  MPI_Group_free(&group);
  EXPECT_OK(MPI_Win_get_group(win, &group));
  MPI_Group_free(&group);
  EXPECT_OK(MPI_Win_revoke(win));
}

static void revoke_soon(int round) {
  const struct timespec while_they_block = {0, round == 2 ? 0 : 30000000};
  nanosleep(&while_they_block, NULL);
}

// The rest still works: another window, and the communicator.
static void use_window(void) {
  const int value = rank + 1;
  survive_use(MPI_COMM_WORLD, size);
  make_window(1);
  survive_at = "the use of another window";
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win));
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_EQ(*memory, (rank + size - 1) % size + 1);
  EXPECT_OK(MPI_Win_free(&win));
}

static void check_event(int handle, int before) {
  EXPECT_EQ(seen.num, before + 1);
  EXPECT_EQ(seen.handle, handle);
  EXPECT(rank == 0 ? seen.rank == 0 : seen.rank >= 0 && seen.rank < size && seen.rank != rank);
}

static void revoke_windows(void) {
  for (int round = 0; round < 3; ++round) {
    const int before = seen.num;
    make_window(round != 1);
    memory[4] = size + rank;
    // The second time everything that a fence needs is there.
    if (round == 1) EXPECT_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    const int held = is("lock") || is("lock_all");
    const int handle = MPI_Win_toint(win);
    if (held && rank == 0) EXPECT_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, win));
    if (held) EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
      revoke_soon(round);
      EXPECT_OK(MPI_Win_revoke(win));
    } else if (!is("free")) {
      EXPECT_CLASS(block_on_window(), MPIX_ERR_REVOKED);
    }
    if (!is("free") || rank == 0) check_window();
    survive_at = "MPI_Win_free of a revoked window";
    // What others have is not freed with it.
    if (rank != 0 && !is("free")) {
      EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
      EXPECT_EQ(memory[4], size + rank);
    }
    EXPECT_OK(MPI_Win_free(&win));
    EXPECT(win == MPI_WIN_NULL);
    if (rank == 0 && !is("free")) EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    check_event(handle, before);
    use_window();
  }
}

static void* block_in_thread(void* code) {
  const MPI_Group next = only((rank + 1) % size);
  int* const result = code;
  if (is("fence") && rank != 0) {
    *result = MPI_Win_fence(0, win);
  } else if (is("lock") && rank != 0) {
    *result = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  } else {
    *result = MPI_Win_post(next, 0, win);
    if (*result == MPI_SUCCESS) *result = MPI_Win_wait(win);
  }
  return NULL;
}

static void revoke_of_threads(void) {
  const char* const waits[] = {"fence", "lock", "wait"};
  for (int round = 0; round < 6; ++round) {
    pthread_t thread;
    int code = -1;
    what = waits[round % 3];
    make_window(1);
    if (rank == 0) EXPECT_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
    EXPECT_EQ(pthread_create(&thread, NULL, block_in_thread, &code), 0);
    revoke_soon(round < 3 ? 0 : 2);
    survive_at = "a revocation while another thread waits";
    if (rank == 0) EXPECT_OK(MPI_Win_revoke(win));
    pthread_join(thread, NULL);
    EXPECT_CLASS(code, MPIX_ERR_REVOKED);
    EXPECT_OK(MPI_Win_free(&win));
  }
  use_window();
}

// ---- files ----

static void open_file(int amode) {
  survive_at = "the opening of a file";
  EXPECT_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | amode,
                          MPI_INFO_NULL, &file));
}

static int block_on_file(void) {
  int value = rank, code = MPI_SUCCESS;
  MPI_Status* none = MPI_STATUS_IGNORE;
  survive_at = what;
  if (is("write_all")) return MPI_File_write_all(file, &value, 1, MPI_INT, none);
  if (is("read_all")) return MPI_File_read_at_all(file, 4 * rank, &value, 1, MPI_INT, none);
  if (is("write_ordered")) return MPI_File_write_ordered(file, &value, 1, MPI_INT, none);
  if (is("read_ordered")) return MPI_File_read_ordered(file, &value, 1, MPI_INT, none);
  if (is("split")) return MPI_File_write_all_begin(file, &value, 1, MPI_INT);
  if (is("set_size")) return MPI_File_set_size(file, 100);
  if (is("file_sync")) return MPI_File_sync(file);
  while (code == MPI_SUCCESS) code = MPI_File_write_shared(file, &value, 1, MPI_INT, none);
  return code;
}

static void check_file(void) {
  int value = 1, flag = 0, num = -1;
  const int expected = MPIX_ERR_REVOKED;
  MPI_Status* none = MPI_STATUS_IGNORE;
  MPI_Offset offset;
  MPI_Group dead;
  MPI_Request request;
  survive_at = "calls on a revoked file";
  EXPECT_OK(MPIX_File_is_revoked(file, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_CLASS(MPI_File_write_all(file, &value, 1, MPI_INT, none), expected);
  EXPECT_CLASS(MPI_File_write_at(file, 0, &value, 1, MPI_INT, none), expected);
  EXPECT_CLASS(MPI_File_iread_at(file, 0, &value, 1, MPI_INT, &request), expected);
  EXPECT_CLASS(MPI_File_read_shared(file, &value, 1, MPI_INT, none), expected);
  EXPECT_CLASS(MPI_File_write_ordered(file, &value, 1, MPI_INT, none), expected);
  EXPECT_CLASS(MPI_File_read_all_begin(file, &value, 1, MPI_INT), expected);
  EXPECT_CLASS(MPI_File_write_all_end(file, &value, none), expected);
  EXPECT_CLASS(MPI_File_set_size(file, 0), expected);
  EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), expected);
  EXPECT_CLASS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), expected);
  EXPECT_CLASS(MPI_File_get_position_shared(file, &offset), expected);
  EXPECT_CLASS(MPI_File_set_info(file, MPI_INFO_NULL), expected);
  EXPECT_CLASS(MPI_File_sync(file), expected);
  EXPECT_OK(MPI_File_get_size(file, &offset));
  EXPECT_OK(MPI_File_get_failed(file, &dead));
  EXPECT(dead == MPI_GROUP_EMPTY);
  EXPECT_OK(MPI_File_ack_failed(file, 0, &num));
  EXPECT_EQ(num, 0);
  EXPECT_OK(MPI_File_revoke(file));
}

static void use_file(void) {
  int value = -1;
  open_file(0);
  survive_at = "the use of another file";
  EXPECT_OK(MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_File_read_at_all(file, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, rank);
  EXPECT_OK(MPI_File_close(&file));
}

static void name_file(void) {
  if (rank == 0) {
    snprintf(name, sizeof name, "/tmp/survive_window.XXXXXX");
    close(mkstemp(name));
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void revoke_files(void) {
  name_file();
  for (int round = 0; round < 3; ++round) {
    const int before = seen.num;
    open_file(is("close") ? MPI_MODE_DELETE_ON_CLOSE : 0);
    const int handle = MPI_File_toint(file), has_split = is("split") && round == 1;
    int flag = 0;
    if (has_split) EXPECT_OK(MPI_File_write_at_all_begin(file, 4 * rank, &rank, 1, MPI_INT));
    if (rank == 0) {
      revoke_soon(round);
      EXPECT_OK(MPI_File_revoke(file));
    } else if (has_split) {
      do EXPECT_OK(MPI_File_is_revoked(file, &flag));
      while (!flag);
    } else if (!is("close")) {
      EXPECT_CLASS(block_on_file(), MPIX_ERR_REVOKED);
    }
    // A split collective that has begun does not keep a revoked file open.
    if (!is("close") && !has_split) check_file();
    survive_at = "MPI_File_close of a revoked file";
    EXPECT_OK(MPI_File_close(&file));
    EXPECT(file == MPI_FILE_NULL);
    check_event(handle, before);
    survive_use(MPI_COMM_WORLD, size);
    use_file();
  }
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) unlink(name);
}

// ---- the rest ----

static void misuse(void) {
  int flag, num;
  MPI_Group group;
  MPI_Win no_window = MPI_WIN_NULL;
  MPI_File no_file = MPI_FILE_NULL;
  MPI_Comm comm;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Win_revoke(no_window), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_is_revoked(no_window, &flag), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_get_failed(no_window, &group), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_ack_failed(no_window, 0, &num), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_File_revoke(no_file), MPI_ERR_FILE);
  EXPECT_CLASS(MPI_File_is_revoked(no_file, &flag), MPI_ERR_FILE);
  EXPECT_CLASS(MPI_File_get_failed(no_file, &group), MPI_ERR_FILE);
  EXPECT_CLASS(MPI_File_ack_failed(no_file, 0, &num), MPI_ERR_FILE);
  name_file();
  EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  EXPECT_OK(MPI_Win_allocate(4, 4, MPI_INFO_NULL, comm, &memory, &win));
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  EXPECT_OK(
      MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  EXPECT_CLASS(MPI_Win_is_revoked(win, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Win_get_failed(win, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Win_ack_failed(win, 0, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Win_ack_failed(win, -1, &num), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_is_revoked(file, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_get_failed(file, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_ack_failed(file, 0, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_ack_failed(file, -1, &num), MPI_ERR_ARG);
  // A revoked communicator leaves what was made of it alone.
  // Before the barrier, in which another rank's revocation may already arrive.
  const int before = seen.num, handle = MPI_Comm_toint(comm);
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) EXPECT_OK(MPI_Comm_revoke(comm));
  do EXPECT_OK(MPI_Comm_is_revoked(comm, &flag));
  while (!flag);
  check_event(handle, before);
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Win_is_revoked(win, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_File_is_revoked(file, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Win_free(&win));
  EXPECT_OK(MPI_File_close(&file));
  EXPECT_CLASS(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win), MPIX_ERR_REVOKED);
  EXPECT_CLASS(MPI_File_open(comm, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPIX_ERR_REVOKED);
  EXPECT_OK(MPI_Comm_free(&comm));
}

static int is_end(int code) {
  return class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED;
}

// What a member has in a window stays there when another one frees it, which had a loss.
static void free_first(MPI_Win* kept, const int* own) {
  survive_at = "MPI_Win_free after a loss";
  if (rank != 0) {
    EXPECT_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_EQ(*own, size + rank);
  }
  EXPECT_CLASS(MPI_Win_free(kept), MPIX_ERR_PROC_FAILED);
  for (int other = 2; rank == 0 && other < size; ++other)
    EXPECT_OK(MPI_Send(NULL, 0, MPI_INT, other, 7, MPI_COMM_WORLD));
}

static MPI_Comm live_on(void) {
  MPI_Comm living;
  MPI_Group dead;
  int value = rank, num = 0, *own;
  MPI_Win kept;
  make_window(1);
  EXPECT_OK(MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &kept));
  MPI_Win_set_errhandler(kept, MPI_ERRORS_RETURN);
  *own = size + rank;
  name_file();
  open_file(MPI_MODE_DELETE_ON_CLOSE);
  if (rank == 1) EXPECT_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win));
  EXPECT_OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 1) die();
  survive_at = "what needs the dead";
  EXPECT(is_end(MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win)));
  EXPECT(is_end(MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE)));
  EXPECT_OK(MPI_Win_revoke(win));
  EXPECT_OK(MPI_File_revoke(file));
  EXPECT_CLASS(MPI_Win_fence(0, win), MPIX_ERR_REVOKED);
  while (num == 0) {
    EXPECT_OK(MPI_Win_get_failed(win, &dead));
    EXPECT_OK(MPI_Group_size(dead, &num));
    EXPECT_OK(MPI_Group_free(&dead));
  }
  EXPECT_EQ(num, 1);
  EXPECT_OK(MPI_File_get_failed(file, &dead));
  EXPECT_OK(MPI_Group_rank(dead, &num));
  EXPECT_EQ(num, MPI_UNDEFINED);
  EXPECT_OK(MPI_Group_free(&dead));
  EXPECT_OK(MPI_Win_ack_failed(win, 5, &num));
  EXPECT_EQ(num, 1);
  EXPECT_OK(MPI_File_ack_failed(file, 0, &num));
  EXPECT_EQ(num, 0);
  survive_at = "the end of what is revoked";
  EXPECT_OK(MPI_Win_free(&win));
  EXPECT_OK(MPI_File_close(&file));
  free_first(&kept, own);
  survive_at = "MPI_Comm_shrink";
  EXPECT_OK(MPI_Comm_shrink(MPI_COMM_WORLD, &living));
  survive_use(living, size - 1);
  return living;
}

static int is_of_files(void) {
  const char* const all[] = {"write_all", "read_all",  "write_ordered", "read_ordered", "split",
                             "set_size",  "file_sync", "shared",        "close"};
  int found = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) found = found || is(all[i]);
  return found;
}

int main(int argc, char** argv) {
  const int has_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  survive_begin_level(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  const MPI_T_event_registration registration = look_on();
  MPI_Comm living = MPI_COMM_WORLD;
  for (int i = 1; i < argc; ++i) {
    what = argv[i];
    if (is("threads"))
      revoke_of_threads();
    else if (is("misuse"))
      misuse();
    else if (is("dies"))
      living = live_on();
    else if (is_of_files())
      revoke_files();
    else
      revoke_windows();
  }
  EXPECT_OK(MPI_T_event_handle_free(registration, NULL, NULL));
  EXPECT_OK(MPI_T_finalize());
  return survive_end(living);
}
