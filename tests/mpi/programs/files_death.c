// files_death WHO WHAT: one process is killed at some moment of what all do with a file, again and
// again: write (in two phases; write_all, split, iwrite are its other forms), atomic (all write the
// same page in atomic mode), read (in two phases), ordered (of nothing), ordered_data, size
// (MPI_File_set_size), open (and close). The others get an error, can close the file, and go on; in
// the file is only what was written, and of the page what one of them wrote, whole. Or, with WHAT
// `lock` and one process: somebody who is stopped holds a lock, for which nobody waits without end.
#define _GNU_SOURCE  // locks of open files
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum { kInts = 20000, kPageInts = 1024 };

static char name[100];
static MPI_File file;
static int victim;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void die(int number) {
  (void)number;
  raise(SIGKILL);
}

static int open_file(void) {
  return MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
}

// Every int of the file belongs to a member: place % size.
static void set_view(void) {
  MPI_Datatype type;
  MPI_Info info;
  MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * size, &type);
  MPI_Type_commit(&type);
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "cb_buffer_size", "65536");
  EXPECT_OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * rank, MPI_INT, type, "native", info));
  MPI_Info_free(&info);
  MPI_Type_free(&type);
}

static int operation(const char* what, int round) {
  static int data[kInts];
  int code = MPI_SUCCESS;
  for (int i = 0; i < kInts; ++i) data[i] = 64 * round + rank;
  if (strcmp(what, "write") == 0)
    return MPI_File_write_at_all(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE);
  if (strcmp(what, "write_all") == 0) {
    code = MPI_File_seek(file, 0, MPI_SEEK_SET);
    return code != MPI_SUCCESS ? code
                               : MPI_File_write_all(file, data, kInts, MPI_INT, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "split") == 0) {
    code = MPI_File_write_at_all_begin(file, 0, data, kInts, MPI_INT);
    return code != MPI_SUCCESS ? code : MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "iwrite") == 0) {
    MPI_Request request;
    code = MPI_File_iwrite_at_all(file, 0, data, kInts, MPI_INT, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    // The write may do without the dead; the barrier does not.
    return code != MPI_SUCCESS ? code : MPI_Barrier(MPI_COMM_WORLD);
  }
  if (strcmp(what, "atomic") == 0) {
    code = MPI_File_write_at_all(file, 0, data, kPageInts, MPI_INT, MPI_STATUS_IGNORE);
    return code != MPI_SUCCESS ? code : MPI_Barrier(MPI_COMM_WORLD);
  }
  if (strcmp(what, "ordered_data") == 0) {
    code = MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    return code != MPI_SUCCESS
               ? code
               : MPI_File_write_ordered(file, data, kInts, MPI_INT, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "read") == 0)
    return MPI_File_read_at_all(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE);
  if (strcmp(what, "ordered") == 0)
    return MPI_File_write_ordered(file, &rank, 0, MPI_INT, MPI_STATUS_IGNORE);
  if (strcmp(what, "size") == 0) return MPI_File_set_size(file, 4096 * (round % 2 + 1));
  code = MPI_File_close(&file);
  return code == MPI_SUCCESS ? open_file() : code;
}

// Whose the int at a place is by its value: of the page, that of its first.
static int owner(const char* what, const int* found, int place) {
  if (strcmp(what, "atomic") == 0) return found[0] % 64;
  return strcmp(what, "ordered_data") == 0 ? place / kInts : place % size;
}

static void check_file(const char* what) {
  int* found = malloc(sizeof(int) * kInts * (size_t)size);
  const int descriptor = open(name, O_RDONLY);
  const ssize_t bytes = pread(descriptor, found, sizeof(int) * kInts * (size_t)size, 0);
  close(descriptor);
  EXPECT(bytes > 0);
  for (int i = 0; i < bytes / (ssize_t)sizeof(int); ++i)
    if (found[i] % 64 != owner(what, found, i)) {
      EXPECT_EQ(found[i] % 64, owner(what, found, i));
      break;
    }
  for (int i = 1; strcmp(what, "atomic") == 0 && i < kPageInts; ++i)
    if (found[i] != found[0]) {
      EXPECT_EQ(found[i], found[0]);
      break;
    }
  free(found);
}

// The survivors' files still work.
static void go_on(void) {
  MPI_Group world, without;
  MPI_Comm others;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, &victim, &without);
  EXPECT_OK(MPI_Comm_create_group(MPI_COMM_WORLD, without, 3, &others));
  EXPECT_OK(MPI_File_open(others, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, &file));
  int value = -1;
  EXPECT_OK(MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_File_read_at_all(file, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, rank);
  EXPECT_OK(MPI_File_close(&file));
}

static int check_lock(void) {
  int told[2], value = 0;
  if (pipe(told) != 0) return 9;
  EXPECT_OK(open_file());
  EXPECT_OK(MPI_File_set_atomicity(file, 1));
  const pid_t other = fork();
  if (other == 0) {
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int descriptor = open(name, O_RDWR);
    const char is_locked = fcntl(descriptor, F_OFD_SETLK, &all) == 0;
    if (write(told[1], &is_locked, 1) != 1) _exit(1);
    raise(SIGSTOP);
    _exit(1);
  }
  char is_locked = 0;
  EXPECT_EQ(read(told[0], &is_locked, 1), 1);
  EXPECT_EQ(is_locked, 1);
  EXPECT_CLASS(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_IO);
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  EXPECT_OK(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_File_close(&file));
  EXPECT_OK(MPI_File_delete(name, MPI_INFO_NULL));
  return end();
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  victim = argc > 1 ? atoi(argv[1]) : 0;
  const char* what = argc > 2 ? argv[2] : "write";
  if (rank == 0) {
    snprintf(name, sizeof name, "/tmp/files_death.XXXXXX");
    close(mkstemp(name));
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (strcmp(what, "lock") == 0) return check_lock();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  EXPECT_OK(open_file());
  const int writes = strcmp(what, "write") == 0 || strcmp(what, "write_all") == 0 ||
                     strcmp(what, "split") == 0 || strcmp(what, "iwrite") == 0;
  const int is_atomic = strcmp(what, "atomic") == 0;
  const int is_ordered = strcmp(what, "ordered_data") == 0;
  // A page that all write, and what the shared pointer leads to, is of the file as it is.
  if (is_atomic)
    EXPECT_OK(MPI_File_set_atomicity(file, 1));
  else if (!is_ordered)
    set_view();
  EXPECT_OK(operation(what, 1));
  if (rank == victim) {
    // At some moment of some round.
    const struct itimerval soon = {.it_value = {.tv_usec = 20000 + getpid() % 30000}};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &soon, NULL);
  }
  int code = MPI_SUCCESS;
  const double limit = seconds() + 60;
  for (int round = 2; code == MPI_SUCCESS && (rank == victim || seconds() < limit); ++round)
    code = operation(what, round);
  EXPECT_CLASS(code, MPIX_ERR_PROC_FAILED);
  if (writes || is_atomic || is_ordered) check_file(what);
  // The file can still be closed, but not by all together.
  if (file != MPI_FILE_NULL) {
    EXPECT_CLASS(MPI_File_close(&file), MPIX_ERR_PROC_FAILED);
    EXPECT(file == MPI_FILE_NULL);
  }
  go_on();
  if (num_failures == 0 && rank == (victim == 0 ? 1 : 0)) {
    printf("as expected\n");
    fflush(stdout);
  }
  // No agreement needed to leave: nobody may wait for the dead.
  _exit(num_failures ? 1 : 0);
}
