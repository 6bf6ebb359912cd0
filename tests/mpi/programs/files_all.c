// Every function of files that reads or writes, with int counts and with MPI_Count ones: what one
// way writes the corresponding one reads. And a data representation whose functions take an
// MPI_Count.
#include <unistd.h>

#include "expect.h"

enum { kInts = 100 };  // of one call

static MPI_File file;
static MPI_Status status;
static MPI_Request request;
static int num_ways;

static int value_of(int way, int member, int i) { return 10000 * way + kInts * member + i; }

static void fill_ints(int* data) {
  for (int i = 0; i < kInts; ++i) data[i] = value_of(num_ways, rank, i);
}

// What was read is what this process wrote; or, of a pointer that all share, what some did.
static void check(const int* data, int is_shared) {
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, kInts);
  const int member = is_shared ? (data[0] - value_of(num_ways, 0, 0)) / kInts : rank;
  for (int i = 0; i < kInts; ++i) EXPECT_EQ(data[i], value_of(num_ways, member, i));
  int sum = 0;
  MPI_Allreduce(&member, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, size * (size - 1) / 2);
}

static void go_to(MPI_Offset place) {
  EXPECT_OK(MPI_File_seek(file, place + kInts * rank, MPI_SEEK_SET));
}
static void go_to_shared(MPI_Offset place) {
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_seek_shared(file, place, MPI_SEEK_SET));
  MPI_Barrier(MPI_COMM_WORLD);
}

// `first` goes to the place, the steps write `out` or read `in` there.
#define CHECK_WAY(first, write, read, is_shared)                 \
  do {                                                           \
    const MPI_Offset base = (MPI_Offset)kInts * size * num_ways; \
    const MPI_Offset place = base + kInts * rank;                \
    (void)place;                                                 \
    fill_ints(out);                                              \
    memset(in, -1, sizeof in);                                   \
    first;                                                       \
    write;                                                       \
    check(out, 0);                                               \
    MPI_Barrier(MPI_COMM_WORLD);                                 \
    first;                                                       \
    memset(&status, 0, sizeof status);                           \
    read;                                                        \
    check(in, is_shared);                                        \
    ++num_ways;                                                  \
  } while (0)
#define DATA(buffer) buffer, kInts, MPI_INT
#define WAIT EXPECT_OK(MPI_Wait(&request, &status))

#define CHECK_WAYS(c)                                                                              \
  static void check_ways##c(void) {                                                                \
    static int out[kInts], in[kInts];                                                              \
    CHECK_WAY(, EXPECT_OK(MPI_File_write_at##c(file, place, DATA(out), &status)),                  \
              EXPECT_OK(MPI_File_read_at##c(file, place, DATA(in), &status)), 0);                  \
    CHECK_WAY(, EXPECT_OK(MPI_File_write_at_all##c(file, place, DATA(out), &status)),              \
              EXPECT_OK(MPI_File_read_at_all##c(file, place, DATA(in), &status)), 0);              \
    CHECK_WAY(, EXPECT_OK(MPI_File_iwrite_at##c(file, place, DATA(out), &request));                \
              WAIT, EXPECT_OK(MPI_File_iread_at##c(file, place, DATA(in), &request)); WAIT, 0);    \
    CHECK_WAY(, EXPECT_OK(MPI_File_iwrite_at_all##c(file, place, DATA(out), &request));            \
              WAIT, EXPECT_OK(MPI_File_iread_at_all##c(file, place, DATA(in), &request));          \
              WAIT, 0);                                                                            \
    CHECK_WAY(, EXPECT_OK(MPI_File_write_at_all_begin##c(file, place, DATA(out)));                 \
              EXPECT_OK(MPI_File_write_at_all_end(file, out, &status)),                            \
              EXPECT_OK(MPI_File_read_at_all_begin##c(file, place, DATA(in)));                     \
              EXPECT_OK(MPI_File_read_at_all_end(file, in, &status)), 0);                          \
    CHECK_WAY(go_to(base), EXPECT_OK(MPI_File_write##c(file, DATA(out), &status)),                 \
              EXPECT_OK(MPI_File_read##c(file, DATA(in), &status)), 0);                            \
    CHECK_WAY(go_to(base), EXPECT_OK(MPI_File_write_all##c(file, DATA(out), &status)),             \
              EXPECT_OK(MPI_File_read_all##c(file, DATA(in), &status)), 0);                        \
    CHECK_WAY(go_to(base), EXPECT_OK(MPI_File_iwrite##c(file, DATA(out), &request));               \
              WAIT, EXPECT_OK(MPI_File_iread##c(file, DATA(in), &request)); WAIT, 0);              \
    CHECK_WAY(go_to(base), EXPECT_OK(MPI_File_iwrite_all##c(file, DATA(out), &request));           \
              WAIT, EXPECT_OK(MPI_File_iread_all##c(file, DATA(in), &request)); WAIT, 0);          \
    CHECK_WAY(go_to(base), EXPECT_OK(MPI_File_write_all_begin##c(file, DATA(out)));                \
              EXPECT_OK(MPI_File_write_all_end(file, out, &status)),                               \
              EXPECT_OK(MPI_File_read_all_begin##c(file, DATA(in)));                               \
              EXPECT_OK(MPI_File_read_all_end(file, in, &status)), 0);                             \
    CHECK_WAY(go_to_shared(base), EXPECT_OK(MPI_File_write_shared##c(file, DATA(out), &status)),   \
              EXPECT_OK(MPI_File_read_shared##c(file, DATA(in), &status)), 1);                     \
    CHECK_WAY(go_to_shared(base), EXPECT_OK(MPI_File_iwrite_shared##c(file, DATA(out), &request)); \
              WAIT, EXPECT_OK(MPI_File_iread_shared##c(file, DATA(in), &request)); WAIT, 1);       \
    CHECK_WAY(go_to_shared(base), EXPECT_OK(MPI_File_write_ordered##c(file, DATA(out), &status)),  \
              EXPECT_OK(MPI_File_read_ordered##c(file, DATA(in), &status)), 0);                    \
    CHECK_WAY(go_to_shared(base), EXPECT_OK(MPI_File_write_ordered_begin##c(file, DATA(out)));     \
              EXPECT_OK(MPI_File_write_ordered_end(file, out, &status)),                           \
              EXPECT_OK(MPI_File_read_ordered_begin##c(file, DATA(in)));                           \
              EXPECT_OK(MPI_File_read_ordered_end(file, in, &status)), 0);                         \
  }
CHECK_WAYS()
CHECK_WAYS(_c)

// Ints that are stored with all bits turned.
static int turned_extent(MPI_Datatype type, MPI_Aint* extent, void* state) {
  MPI_Aint lb;
  (void)state;
  return MPI_Type_get_extent(type, &lb, extent);
}
static int turn(void* user, MPI_Datatype type, MPI_Count count, void* stored, MPI_Offset position,
                void* state) {
  const int reads = *(int*)state;
  (void)position;
  EXPECT(type == MPI_INT);
  for (MPI_Count i = 0; i < count; ++i)
    if (reads)
      ((int*)user)[i] = ~((int*)stored)[i];
    else
      ((int*)stored)[i] = ~((int*)user)[i];
  return MPI_SUCCESS;
}
static int turn_back(void* user, MPI_Datatype type, MPI_Count count, void* stored,
                     MPI_Offset position, void* state) {
  int reads = 1;
  (void)state;
  return turn(user, type, count, stored, position, &reads);
}

static void check_large_representation(void) {
  static int writes = 0;
  EXPECT_OK(MPI_Register_datarep_c("turned", turn_back, turn, turned_extent, &writes));
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "turned", MPI_INFO_NULL));
  MPI_Count extent = 0;
  EXPECT_OK(MPI_File_get_type_extent_c(file, MPI_INT, &extent));
  EXPECT_EQ(extent, sizeof(int));
  const int out[3] = {rank, 5, -1};
  int in[3] = {0, 0, 0};
  EXPECT_OK(MPI_File_write_at_all(file, 3 * rank, out, 3, MPI_INT, &status));
  EXPECT_OK(MPI_File_read_at_all(file, 3 * rank, in, 3, MPI_INT, &status));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(in[i], out[i]);
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_OK(MPI_File_read_at_all(file, 3 * rank, in, 3, MPI_INT, &status));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(in[i], ~out[i]);
}

int main(int argc, char** argv) {
  char name[100] = "";
  begin(&argc, &argv);
  if (rank == 0) {
    snprintf(name, sizeof name, "/tmp/files_all.XXXXXX");
    close(mkstemp(name));
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, &file));
  EXPECT_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  check_ways();
  check_ways_c();
  check_large_representation();
  EXPECT_OK(MPI_File_close(&file));
  return end();
}
