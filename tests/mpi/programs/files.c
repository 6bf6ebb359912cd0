// Every function of files does what the standard says, and wrong arguments are errors that leave
// all as it was.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

static char name[200];

static void make_name(void) {
  if (rank == 0) {
    snprintf(name, sizeof name, "/tmp/files.XXXXXX");
    close(mkstemp(name));
    unlink(name);
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static MPI_File open_file(int amode) {
  MPI_File file = MPI_FILE_NULL;
  EXPECT_OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file));
  return file;
}

static void check_opening(void) {
  MPI_File file = MPI_FILE_NULL;
  EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
               MPI_ERR_NO_SUCH_FILE);
  EXPECT(file == MPI_FILE_NULL);
  EXPECT_CLASS(
      MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
      MPI_ERR_AMODE);
  EXPECT_CLASS(
      MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file),
      MPI_ERR_AMODE);
  if (size > 1)
    EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, name,
                               MPI_MODE_CREATE | (rank == 0 ? MPI_MODE_RDWR : MPI_MODE_WRONLY),
                               MPI_INFO_NULL, &file),
                 MPI_ERR_NOT_SAME);
  EXPECT_CLASS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
  MPI_Barrier(MPI_COMM_WORLD);
  // One member's null pointer ends the call for all.
  EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                             rank == 0 ? NULL : &file),
               MPI_ERR_ARG);
  // A pipe without another end does not block.
  if (rank == 0) EXPECT_EQ(mkfifo(name, 0600), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int writes = 0; writes < 2; ++writes)
    EXPECT(MPI_File_open(MPI_COMM_WORLD, name, writes ? MPI_MODE_WRONLY : MPI_MODE_RDONLY,
                         MPI_INFO_NULL, &file) != MPI_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(name);
  MPI_Barrier(MPI_COMM_WORLD);
  file = open_file(MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY);
  int amode = 0, number = 0;
  EXPECT_OK(MPI_File_get_amode(file, &amode));
  EXPECT_EQ(amode, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY);
  MPI_Group group;
  EXPECT_OK(MPI_File_get_group(file, &group));
  MPI_Group_size(group, &number);
  EXPECT_EQ(number, size);
  MPI_Group_free(&group);
  EXPECT(MPI_File_f2c(MPI_File_c2f(file)) == file);
  EXPECT_CLASS(MPI_File_read(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
  EXPECT_OK(MPI_File_close(&file));
  EXPECT(file == MPI_FILE_NULL);
  EXPECT_CLASS(MPI_File_close(&file), MPI_ERR_FILE);
  EXPECT_CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
                             MPI_INFO_NULL, &file),
               MPI_ERR_FILE_EXISTS);
  file = open_file(MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
  EXPECT_CLASS(MPI_File_write(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  EXPECT_CLASS(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY);
  EXPECT_OK(MPI_File_close(&file));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT(access(name, F_OK) != 0);
}

static void expect_ints(MPI_Status* status, int expected) {
  int count = -1;
  MPI_Get_count(status, MPI_INT, &count);
  EXPECT_EQ(count, expected);
}

static void check_pointers(void) {
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_Offset offset = -1, bytes = -1;
  MPI_Status status;
  int out[4], in[8];
  for (int i = 0; i < 4; ++i) out[i] = 100 * rank + i;
  // Explicit: everybody's four numbers, by rank.
  EXPECT_OK(MPI_File_write_at(file, 16 * rank, out, 4, MPI_INT, &status));
  expect_ints(&status, 4);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_get_size(file, &bytes));
  EXPECT_EQ(bytes, 16 * size);
  const int next = (rank + 1) % size;
  EXPECT_OK(MPI_File_read_at(file, 16 * next, in, 4, MPI_INT, &status));
  expect_ints(&status, 4);
  EXPECT_EQ(in[3], 100 * next + 3);
  // Beyond the end there is nothing.
  EXPECT_OK(MPI_File_read_at(file, 16 * size - 8, in, 4, MPI_INT, &status));
  expect_ints(&status, 2);
  EXPECT_EQ(in[1], 100 * (size - 1) + 3);
  // Individual.
  EXPECT_OK(MPI_File_seek(file, 16 * rank + 4, MPI_SEEK_SET));
  EXPECT_OK(MPI_File_read(file, in, 2, MPI_INT, &status));
  EXPECT_EQ(in[0], 100 * rank + 1);
  EXPECT_OK(MPI_File_get_position(file, &offset));
  EXPECT_EQ(offset, 16 * rank + 12);
  EXPECT_OK(MPI_File_seek(file, -4, MPI_SEEK_CUR));
  EXPECT_OK(MPI_File_read_all(file, in, 1, MPI_INT, &status));
  EXPECT_EQ(in[0], 100 * rank + 2);
  EXPECT_OK(MPI_File_seek(file, -4, MPI_SEEK_END));
  EXPECT_OK(MPI_File_get_position(file, &offset));
  EXPECT_EQ(offset, 16 * size - 4);
  EXPECT_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_read_at(file, -1, in, 1, MPI_INT, &status), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_read_at(file, 0, in, -1, MPI_INT, &status), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_File_read_at(file, 0, in, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_File_read_at(MPI_FILE_NULL, 0, in, 1, MPI_INT, &status), MPI_ERR_FILE);
  // One member's mistake ends the call for all.
  EXPECT_CLASS(MPI_File_read_at_all(file, 0, in, rank == 0 ? -1 : 1, MPI_INT, &status),
               MPI_ERR_COUNT);
  // In order of ranks, then each some number of the file, all of them once.
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_seek_shared(file, 4, MPI_SEEK_SET));
  EXPECT_OK(MPI_File_write_ordered(file, &rank, 1, MPI_INT, &status));
  EXPECT_OK(MPI_File_get_position_shared(file, &offset));
  EXPECT_EQ(offset, 4 + 4 * size);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_seek_shared(file, -4 * size, MPI_SEEK_CUR));
  int own = -1, sum = 0;
  EXPECT_OK(MPI_File_read_shared(file, &own, 1, MPI_INT, &status));
  MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, size * (size - 1) / 2);
  EXPECT_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  MPI_Request request;
  EXPECT_OK(MPI_File_iwrite_shared(file, &rank, 1, MPI_INT, &request));
  EXPECT_OK(MPI_Wait(&request, &status));
  expect_ints(&status, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  EXPECT_OK(MPI_File_read_ordered_begin(file, &own, 1, MPI_INT));
  EXPECT_CLASS(MPI_File_read_all_end(file, &own, &status), MPI_ERR_OTHER);
  EXPECT_CLASS(MPI_File_write_all_begin(file, &own, 1, MPI_INT), MPI_ERR_OTHER);
  EXPECT_OK(MPI_File_read_ordered_end(file, &own, &status));
  expect_ints(&status, 1);
  MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, size * (size - 1) / 2);
  // Size.
  EXPECT_OK(MPI_File_set_size(file, 5));
  EXPECT_OK(MPI_File_get_size(file, &bytes));
  EXPECT_EQ(bytes, 5);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_preallocate(file, 4096));
  EXPECT_OK(MPI_File_get_size(file, &bytes));
  EXPECT_EQ(bytes, 4096);
  EXPECT_CLASS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
  if (size > 1) {
    EXPECT_CLASS(MPI_File_set_size(file, rank), MPI_ERR_NOT_SAME);
    EXPECT_CLASS(MPI_File_seek_shared(file, rank == 0 ? (MPI_Offset)1 << 48 : 0,
                                      rank == 0 ? MPI_SEEK_CUR : MPI_SEEK_SET),
                 MPI_ERR_NOT_SAME);
  }
  EXPECT_OK(MPI_File_sync(file));
  int flag = -1;
  EXPECT_OK(MPI_File_get_atomicity(file, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_File_set_atomicity(file, 1));
  EXPECT_OK(MPI_File_get_atomicity(file, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, &status));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_read_at(file, 4 * next, &own, 1, MPI_INT, &status));
  EXPECT_EQ(own, next);
  EXPECT_OK(MPI_File_close(&file));
  file = open_file(MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_SEQUENTIAL);
  EXPECT_CLASS(MPI_File_write_at(file, 0, &rank, 1, MPI_INT, &status),
               MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_OK(MPI_File_write_shared(file, &rank, 1, MPI_INT, &status));
  EXPECT_OK(MPI_File_close(&file));
  struct stat found;
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(stat(name, &found), 0);
  EXPECT_EQ(found.st_size, 4096 + 4 * size);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) EXPECT_OK(MPI_File_delete(name, MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void check_views(void) {
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  MPI_Datatype column, resized, etype, filetype;
  MPI_Offset disp = -1, offset = -1;
  MPI_Status status;
  char datarep[MPI_MAX_DATAREP_STRING];
  MPI_Type_vector(2, 1, size, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, 8 * size, &resized);
  EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_INT, column, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
  MPI_Type_commit(&resized);
  EXPECT_CLASS(MPI_File_set_view(file, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nothing", MPI_INFO_NULL),
               MPI_ERR_UNSUPPORTED_DATAREP);
  EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL),
               MPI_ERR_TYPE);
  // Its second tile would lie before its first.
  MPI_Datatype back;
  MPI_Type_create_resized(MPI_INT, 0, -8, &back);
  MPI_Type_commit(&back);
  EXPECT_CLASS(MPI_File_set_view(file, 64, MPI_INT, back, "native", MPI_INFO_NULL), MPI_ERR_IO);
  MPI_Type_free(&back);
  // Data before the beginning, data that go back, and data that overlap in a file for writing.
  const int places[3][2] = {{-2, 2}, {3, 0}, {0, 1}}, lengths[2] = {2, 1};
  for (int i = 0; i < 3; ++i) {
    MPI_Datatype wrong;
    MPI_Type_indexed(2, lengths, places[i], MPI_INT, &wrong);
    MPI_Type_commit(&wrong);
    EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_INT, wrong, "native", MPI_INFO_NULL), MPI_ERR_IO);
    MPI_Type_free(&wrong);
  }
  // A number that shrinks beside one that does not.
  EXPECT_CLASS(MPI_File_set_view(file, 0, MPI_LONG_INT, MPI_LONG_INT, "external32", MPI_INFO_NULL),
               MPI_ERR_UNSUPPORTED_DATAREP);
  EXPECT_OK(MPI_File_set_view(file, 8 + 4 * rank, MPI_INT, resized, "native", MPI_INFO_NULL));
  EXPECT_OK(MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
  EXPECT_EQ(disp, 8 + 4 * rank);
  EXPECT(etype == MPI_INT);
  EXPECT(strcmp(datarep, "native") == 0);
  int integers = -1, addresses = -1, types = -1, combiner = -1;
  EXPECT_OK(MPI_Type_get_envelope(filetype, &integers, &addresses, &types, &combiner));
  EXPECT_EQ(combiner, MPI_COMBINER_RESIZED);
  EXPECT_OK(MPI_Type_free(&filetype));
  // The view keeps what it needs.
  MPI_Type_free(&column);
  MPI_Type_free(&resized);
  EXPECT_OK(MPI_File_get_byte_offset(file, 3, &offset));
  EXPECT_EQ(offset, 8 + 4 * rank + 12 * size);
  int out[6], in[6];
  for (int i = 0; i < 6; ++i) out[i] = 1000 * rank + i;
  EXPECT_OK(MPI_File_write_all(file, out, 6, MPI_INT, &status));
  expect_ints(&status, 6);
  EXPECT_CLASS(MPI_File_write(file, out, 3, MPI_CHAR, &status), MPI_ERR_IO);
  EXPECT_OK(MPI_File_sync(file));
  MPI_Barrier(MPI_COMM_WORLD);
  // As it lies in the file.
  const int descriptor = open(name, O_RDONLY);
  for (int i = 0; i < 6; ++i)
    for (int member = 0; member < size; ++member) {
      int value = -1;
      EXPECT_EQ(pread(descriptor, &value, 4, 8 + 4 * (i * size + member)), 4);
      EXPECT_EQ(value, 1000 * member + i);
    }
  close(descriptor);
  EXPECT_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
  EXPECT_OK(MPI_File_get_position(file, &offset));
  EXPECT_EQ(offset, 6);
  MPI_Request requests[2];
  EXPECT_OK(MPI_File_iread_at(file, 1, in, 2, MPI_INT, &requests[0]));
  EXPECT_OK(MPI_File_iread_at_all(file, 3, in + 2, 3, MPI_INT, &requests[1]));
  EXPECT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(in[i], out[i + 1]);
  EXPECT_OK(MPI_File_close(&file));
}

static int doubled_extent(MPI_Datatype type, MPI_Aint* extent, void* state) {
  MPI_Aint lb;
  EXPECT(state == &num_failures);
  MPI_Type_get_extent(type, &lb, extent);
  *extent *= 2;
  return MPI_SUCCESS;
}
static int doubled_write(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
                         void* state) {
  (void)state;
  EXPECT(type == MPI_INT);
  // The position is one in the program's memory.
  for (int i = 0; i < count; ++i) ((long long*)file)[i] = ((int*)user)[position + i];
  return MPI_SUCCESS;
}
static int doubled_read(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
                        void* state) {
  (void)state;
  EXPECT(type == MPI_INT);
  for (int i = 0; i < count; ++i) ((int*)user)[position + i] = (int)((long long*)file)[i];
  return MPI_SUCCESS;
}

static void check_representations(void) {
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  MPI_Aint extent = 0;
  MPI_Status status;
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
  EXPECT_OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
  EXPECT_EQ(extent, 4);
  long out = 0x01020304 + rank, in = 0;
  EXPECT_OK(MPI_File_write_at_all(file, rank, &out, 1, MPI_LONG, &status));
  MPI_Barrier(MPI_COMM_WORLD);
  unsigned char bytes[4] = {0};
  const int descriptor = open(name, O_RDONLY);
  EXPECT_EQ(pread(descriptor, bytes, 4, 4 * rank), 4);
  close(descriptor);
  EXPECT_EQ(bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3], out);
  EXPECT_OK(MPI_File_read_at(file, rank, &in, 1, MPI_LONG, &status));
  EXPECT_EQ(in, out);
  int count = -1;
  MPI_Get_count(&status, MPI_LONG, &count);
  EXPECT_EQ(count, 1);
  out = 1l << 40;
  EXPECT_CLASS(MPI_File_write_at(file, rank, &out, 1, MPI_LONG, &status), MPI_ERR_CONVERSION);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(
      MPI_Register_datarep("doubled", doubled_read, doubled_write, doubled_extent, &num_failures));
  EXPECT_CLASS(MPI_Register_datarep("doubled", doubled_read, doubled_write, doubled_extent, NULL),
               MPI_ERR_DUP_DATAREP);
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "doubled", MPI_INFO_NULL));
  int numbers[3] = {rank, -rank, 7}, back[3] = {0, 0, 0};
  EXPECT_OK(MPI_File_write_at_all(file, 3 * rank, numbers, 3, MPI_INT, &status));
  expect_ints(&status, 3);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset length = 0;
  EXPECT_OK(MPI_File_get_size(file, &length));
  EXPECT_EQ(length, 24 * size);
  MPI_Request request;
  EXPECT_OK(MPI_File_iread_at(file, 3 * rank, back, 3, MPI_INT, &request));
  EXPECT_OK(MPI_Wait(&request, &status));
  expect_ints(&status, 3);
  EXPECT_EQ(back[1], -rank);
  EXPECT_EQ(back[2], 7);
  EXPECT_OK(MPI_File_close(&file));
}

static int handled;
static MPI_File handled_file;
// Members that have no part in what the others write and read together: their filetypes have no
// data.
static void check_empty_views(void) {
  enum { kInts = 6 };
  const int lengths[] = {1, 2};
  const MPI_Aint places[] = {2000, 4000};
  const int has_part = rank % 2 == 0;
  MPI_Datatype none, part;
  MPI_Type_contiguous(0, MPI_INT, &none);
  MPI_Type_commit(&none);
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &part);
  MPI_Type_commit(&part);
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  int out[3] = {rank + 1, rank + 2, rank + 3}, in[3] = {0, 0, 0}, bytes = -1;
  MPI_Status status;
  MPI_Offset place = 20 * rank, end = -1;
  EXPECT_OK(
      MPI_File_set_view(file, place, MPI_INT, has_part ? part : none, "native", MPI_INFO_NULL));
  EXPECT_OK(MPI_File_write_at_all(file, 0, out, has_part ? 3 : 0, MPI_INT, &status));
  EXPECT_OK(MPI_File_read_all(file, in, has_part ? 3 : 0, MPI_INT, &status));
  MPI_Get_count(&status, MPI_INT, &bytes);
  EXPECT_EQ(bytes, has_part ? 3 : 0);
  for (int i = 0; i < 3 && has_part; ++i) EXPECT_EQ(in[i], out[i]);
  if (!has_part) {
    EXPECT_CLASS(MPI_File_write_at(file, 0, out, 1, MPI_INT, &status), MPI_ERR_ARG);
    EXPECT_OK(MPI_File_get_position(file, &end));
    EXPECT_EQ(end, 0);
    EXPECT_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
  }
  // The last that has a part: its two ints end the file, and before the first part there is
  // nothing.
  EXPECT_OK(MPI_File_get_size(file, &end));
  EXPECT_EQ(end, 4008 + 20 * (size % 2 == 0 ? size - 2 : size - 1));
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  int before[kInts] = {1, 1, 1, 1, 1, 1};
  EXPECT_OK(MPI_File_read_at_all(file, 0, before, kInts, MPI_INT, &status));
  for (int i = 0; i < kInts; ++i) EXPECT_EQ(before[i], 0);
  EXPECT_OK(MPI_File_close(&file));
  MPI_Type_free(&none);
  MPI_Type_free(&part);
}

// Reads that are long enough for several threads, also beyond the end of the file, several at once,
// and in pieces of a view.
static void check_long_reads(void) {
  enum { kBytes = 5 * 1024 * 1024 + 3, kMost = 6 * 1024 * 1024, kReads = 3 };
  static const int lengths[] = {512 * 1024, 512 * 1024 + 1, 1024 * 1024 + 4095, kMost};
  char* data = allocate(kMost);
  char* several[kReads];
  for (int i = 0; i < kReads; ++i) several[i] = allocate(kMost);
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
  fill(data, kBytes, 77);
  MPI_Status status;
  if (rank == 0) EXPECT_OK(MPI_File_write(file, data, kBytes, MPI_BYTE, &status));
  EXPECT_OK(MPI_File_sync(file));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_sync(file));
  for (int i = 0; i < 4; ++i)
    for (int place = 0; place < kBytes; place += 1234567) {
      int bytes = -1;
      const int expected = lengths[i] < kBytes - place ? lengths[i] : kBytes - place;
      memset(several[0], 'x', kMost);
      EXPECT_OK(MPI_File_read_at(file, place, several[0], lengths[i], MPI_BYTE, &status));
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      EXPECT_EQ(bytes, expected);
      EXPECT(memcmp(several[0], data + place, (size_t)expected) == 0);
      for (int k = expected; k < kMost; k += 1000) EXPECT_EQ(several[0][k], 'x');
    }
  MPI_Request requests[kReads];
  for (int i = 0; i < kReads; ++i)
    EXPECT_OK(MPI_File_iread_at(file, i, several[i], kMost, MPI_BYTE, &requests[i]));
  for (int i = 0; i < kReads; ++i) {
    int bytes = -1;
    EXPECT_OK(MPI_Wait(&requests[i], &status));
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    EXPECT_EQ(bytes, kBytes - i);
    EXPECT(memcmp(several[i], data + i, (size_t)(kBytes - i)) == 0);
  }
  MPI_Datatype pieces;
  MPI_Type_vector(3, 700000, 1400000, MPI_BYTE, &pieces);
  MPI_Type_commit(&pieces);
  EXPECT_OK(MPI_File_set_view(file, 5, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
  EXPECT_OK(MPI_File_read_all(file, several[0], 3 * 700000, MPI_BYTE, &status));
  for (int i = 0; i < 3; ++i)
    EXPECT(memcmp(several[0] + i * 700000, data + 5 + i * 1400000, 700000) == 0);
  MPI_Type_free(&pieces);
  EXPECT_OK(MPI_File_close(&file));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) EXPECT_OK(MPI_File_delete(name, MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kReads; ++i) free(several[i]);
  free(data);
}

static void handler(MPI_File* file, int* code, ...) {
  handled_file = *file;
  handled = *code;
}

static void check_handlers(void) {
  MPI_Errhandler errhandler, found;
  MPI_File file = MPI_FILE_NULL;
  EXPECT_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
  EXPECT(found == MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_File_create_errhandler(handler, &errhandler));
  EXPECT_OK(MPI_File_set_errhandler(MPI_FILE_NULL, errhandler));
  EXPECT_CLASS(MPI_File_delete("", MPI_INFO_NULL), MPI_ERR_BAD_FILE);
  EXPECT_EQ(handled, MPI_ERR_BAD_FILE);
  file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  EXPECT_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  EXPECT_EQ(handled, MPI_ERR_ARG);
  EXPECT(handled_file == file);
  EXPECT_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  EXPECT_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
  EXPECT_EQ(handled, MPI_ERR_IO);
  EXPECT_OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
  handled = 0;
  EXPECT_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  EXPECT_EQ(handled, 0);
  EXPECT_OK(MPI_Errhandler_free(&errhandler));
  MPI_Info info, used;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_buffer_size", "1048576");
  MPI_Info_set(info, "romio_cb_write", "enable");
  EXPECT_OK(MPI_File_set_info(file, info));
  EXPECT_OK(MPI_File_get_info(file, &used));
  char value[100] = "";
  int flag = 0;
  MPI_Info_get(used, "romio_cb_write", 99, value, &flag);
  EXPECT(flag && strcmp(value, "enable") == 0);
  MPI_Info_free(&used);
  MPI_Info_free(&info);
  EXPECT_OK(MPI_File_close(&file));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_name();
  check_opening();
  check_pointers();
  check_long_reads();
  check_empty_views();
  check_views();
  check_representations();
  check_handlers();
  // Who forgets to close loses nothing, and what was to be deleted is.
  MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  MPI_Request request;
  EXPECT_OK(MPI_File_iwrite_at(file, rank, name, 1, MPI_CHAR, &request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  return end();
}
