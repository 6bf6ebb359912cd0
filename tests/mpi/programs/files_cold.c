// files_cold [refused]: nonblocking reads of what the kernel does not have in memory, and of what
// it has, more at a time than go through io_uring. The file is in /var/tmp, as there is nothing
// cold in memory. refused: there is no io_uring.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "expect.h"

enum { kWords = 1 << 20, kBytes = 4 * kWords, kMany = 300, kThreads = 4 };

static char name[200];
static MPI_File file;
static int refused;

static void make_file(void) {
  snprintf(name, sizeof name, "/var/tmp/files_cold.XXXXXX");
  close(mkstemp(name));
  EXPECT_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, &file));
  int* words = allocate(kBytes);
  for (int i = 0; i < kWords; ++i) words[i] = i;
  EXPECT_OK(MPI_File_write_at(file, 0, words, kWords, MPI_INT, MPI_STATUS_IGNORE));
  free(words);
}

// Whether a read that must not wait finds nothing there.
static int drop(void) {
  char byte;
  const struct iovec one = {&byte, 1};
  EXPECT_OK(MPI_File_sync(file));
  const int descriptor = open(name, O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  const int is_cold = preadv2(descriptor, &one, 1, kBytes / 2, RWF_NOWAIT) < 0 && errno == EAGAIN;
  EXPECT_EQ(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(descriptor);
  return is_cold;
}

struct Reads {
  MPI_Request requests[kMany];
  int words;
  int offsets[kMany];
  int* data[kMany];
};

static struct Reads* begin_reads(int words, uint64_t seed) {
  struct Reads* reads = allocate(sizeof *reads);
  reads->words = words;
  for (int i = 0; i < kMany; ++i) {
    reads->offsets[i] = (int)(next_random(&seed) % (kWords + 10));
    reads->data[i] = allocate(4 * (size_t)words);
    memset(reads->data[i], 0xff, 4 * (size_t)words);
    EXPECT_OK(MPI_File_iread_at(file, 4 * (MPI_Offset)reads->offsets[i], reads->data[i], words,
                                MPI_INT, &reads->requests[i]));
  }
  return reads;
}

static void check_read(struct Reads* reads, int i, const MPI_Status* status) {
  int count = -1, wrong = 0, there = kWords - reads->offsets[i];
  if (there > reads->words) there = reads->words;
  if (there < 0) there = 0;
  MPI_Get_count(status, MPI_INT, &count);
  EXPECT_EQ(count, there);
  for (int j = 0; j < reads->words; ++j)
    wrong += reads->data[i][j] != (j < there ? reads->offsets[i] + j : -1);
  EXPECT_EQ(wrong, 0);
  free(reads->data[i]);
}

static void end_reads(struct Reads* reads, int way) {
  MPI_Status statuses[kMany];
  int all = 0;
  switch (way % 3) {
    case 0:
      EXPECT_OK(MPI_Waitall(kMany, reads->requests, statuses));
      break;
    case 1:
      while (!all) EXPECT_OK(MPI_Testall(kMany, reads->requests, &all, statuses));
      break;
    default:
      for (int i = 0; i < kMany; ++i) {
        int index = -1;
        MPI_Status status;
        EXPECT_OK(MPI_Waitany(kMany, reads->requests, &index, &status));
        if (index >= 0) statuses[index] = status;
      }
  }
  for (int i = 0; i < kMany; ++i) check_read(reads, i, &statuses[i]);
  free(reads);
}

// Short ones, one that goes by threads, and those whose end the file does not have.
static const int kLengths[] = {1, 1000, 1024, 16384, 16385};

static void check_lengths(void) {
  for (int cold = 1; cold >= 0; --cold)
    for (int i = 0; i < (int)(sizeof kLengths / sizeof *kLengths); ++i) {
      if (cold) (void)drop();
      end_reads(begin_reads(kLengths[i], seed_of((uint64_t)i, (uint64_t)cold, 0)), i);
    }
}

// Two pieces, and one piece of a view that has several.
static void check_view(void) {
  MPI_Datatype halves;
  EXPECT_OK(MPI_Type_vector(2, 8, 16, MPI_INT, &halves));
  EXPECT_OK(MPI_Type_commit(&halves));
  EXPECT_OK(MPI_File_set_view(file, 64, MPI_INT, halves, "native", MPI_INFO_NULL));
  for (int cold = 1; cold >= 0; --cold) {
    if (cold) (void)drop();
    int one[6] = {0}, two[16] = {0};
    MPI_Request requests[2];
    EXPECT_OK(MPI_File_iread_at(file, 9, one, 6, MPI_INT, &requests[0]));
    EXPECT_OK(MPI_File_iread_at(file, 0, two, 16, MPI_INT, &requests[1]));
    EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(one[i], 16 + 17 + i);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(two[i], 16 + i + (i < 8 ? 0 : 8));
  }
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  MPI_Type_free(&halves);
}

// What the kernel cannot write to is an error, whoever reads.
static void check_errors(void) {
  for (int cold = 1; cold >= 0; --cold) {
    if (cold) (void)drop();
    MPI_Request request;
    EXPECT_OK(MPI_File_iread_at(file, 4096, (char*)0x10, 4096, MPI_BYTE, &request));
    EXPECT_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_IO);
  }
}

// Reads under way are no business of the program's own system calls.
static void check_calls(void) {
  (void)drop();
  struct Reads* reads = begin_reads(1024, 5);
  EXPECT_EQ(poll(NULL, 0, 50), 0);
  end_reads(reads, 0);
}

// Closing waits for what has begun.
static void check_closing(void) {
  (void)drop();
  struct Reads* reads = begin_reads(1024, 7);
  for (int i = 0; i < kMany; i += 2) MPI_Request_free(&reads->requests[i]);
  EXPECT_OK(MPI_File_close(&file));
  MPI_Status status;
  for (int i = 0; i < kMany; ++i) {
    if (i % 2 == 0)
      free(reads->data[i]);
    else {
      EXPECT_OK(MPI_Wait(&reads->requests[i], &status));
      check_read(reads, i, &status);
    }
  }
  free(reads);
}

static void* read_in_thread(void* number) {
  for (int i = 0; i < 6; ++i)
    end_reads(begin_reads(kLengths[i % 4], seed_of((uint64_t)(intptr_t)number, (uint64_t)i, 1)), i);
  return NULL;
}

static void check_threads(void) {
  (void)drop();
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(pthread_create(&threads[i], NULL, read_in_thread, (void*)i), 0);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

static int has_ring(void) {
  char path[64], target[64];
  for (int descriptor = 0; descriptor < 200; ++descriptor) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = 0;
    if (strstr(target, "io_uring") != NULL) return 1;
  }
  return 0;
}

static int is_built_with_uring(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[500];
  int found = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    found |= strstr(line, "liburing") != NULL;
  if (maps != NULL) fclose(maps);
  return found;
}

static int kernel_has_uring(void) {
  struct io_uring_params parameters;
  memset(&parameters, 0, sizeof parameters);
  const int ring = (int)syscall(SYS_io_uring_setup, 1, &parameters);
  if (ring < 0) return 0;
  close(ring);
  return 1;
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  refused = argc > 1;
  make_file();
  const int is_cold = drop();
  check_lengths();
  check_view();
  check_errors();
  check_calls();
  if (provided == MPI_THREAD_MULTIPLE) check_threads();
  EXPECT(!refused || !kernel_has_uring());
  // A file that could not be dropped from the cache may still leave it for lack of memory.
  const int may_have_ring = kernel_has_uring() && is_built_with_uring();
  EXPECT(is_cold ? has_ring() == may_have_ring : has_ring() <= may_have_ring);
  check_closing();
  make_file();
  (void)drop();
  // The end waits for what nobody has waited for.
  static struct Reads* reads;
  reads = begin_reads(1000, 11);
  for (int i = 0; i < kMany; ++i) MPI_Request_free(&reads->requests[i]);
  return end();
}
