// p2p_huge MIB: a message and a broadcast of so many MiB through the functions with large counts.
// The list runs it short; with 4200 and two processes it takes 9 GB of memory and goes beyond the 4
// GiB that 32 bits count. It leaves with 77 where there is less memory.
#include "expect.h"

static long long available_mib(void) {
  char line[200];
  long long kib = 0;
  FILE* file = fopen("/proc/meminfo", "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL && sscanf(line, "MemAvailable: %lld", &kib) != 1) {
  }
  fclose(file);
  return kib / 1024;
}

static void write_words(uint64_t* data, MPI_Count words, uint64_t seed) {
  for (MPI_Count i = 0; i < words; ++i) data[i] = seed + (uint64_t)i * 0x9e3779b97f4a7c15u;
}
static void check_words(const uint64_t* data, MPI_Count words, uint64_t seed) {
  for (MPI_Count i = 0; i < words; ++i)
    if (data[i] != seed + (uint64_t)i * 0x9e3779b97f4a7c15u) {
      fprintf(stderr, "word %lld of %lld\n", (long long)i, (long long)words);
      failed(__FILE__, __LINE__, "wrong data");
      return;
    }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const MPI_Count mib = argc > 1 ? atoll(argv[1]) : 1, bytes = mib << 20, words = bytes / 8;
  if (available_mib() < mib * size * 11 / 10) {
    if (rank == 0) fprintf(stderr, "%lld MiB are not available\n", (long long)mib * size);
    MPI_Finalize();
    return 77;
  }
  uint64_t* data = allocate((size_t)bytes + 1);
  MPI_Count count = -1;
  int small = -1;
  MPI_Status status;
  // In bytes, so that the count itself is beyond 32 bits; received by a type of a few MB.
  if (rank == 0) {
    write_words(data, words, 1);
    for (int to = 1; to < size; ++to)
      EXPECT_OK(MPI_Send_c(data, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD));
  } else {
    memset(data, 0, (size_t)bytes);
    EXPECT_OK(MPI_Probe(0, 1, MPI_COMM_WORLD, &status));
    EXPECT_OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
    EXPECT_EQ(count, bytes);
    EXPECT_OK(MPI_Get_count(&status, MPI_BYTE, &small));
    EXPECT_EQ(small, bytes > INT32_MAX ? MPI_UNDEFINED : bytes);
    EXPECT_OK(MPI_Recv_c(data, words, MPI_UINT64_T, 0, 1, MPI_COMM_WORLD, &status));
    EXPECT_OK(MPI_Get_elements_c(&status, MPI_UINT64_T, &count));
    EXPECT_EQ(count, words);
    check_words(data, words, 1);
  }
  // A type of all of it, with a hole in front, sent back.
  MPI_Datatype row, all;
  EXPECT_OK(MPI_Type_contiguous_c(words - 1, MPI_UINT64_T, &row));
  EXPECT_OK(MPI_Type_create_hindexed_block_c(1, 1, &(MPI_Count){8}, row, &all));
  EXPECT_OK(MPI_Type_commit(&all));
  if (rank == 1) {
    write_words(data, words, 2);
    EXPECT_OK(MPI_Send_c(data, 1, all, 0, 2, MPI_COMM_WORLD));
  } else if (rank == 0 && size > 1) {
    EXPECT_OK(MPI_Recv_c(data, 1, all, 1, 2, MPI_COMM_WORLD, &status));
    EXPECT_OK(MPI_Get_elements_c(&status, all, &count));
    EXPECT_EQ(count, words - 1);
    check_words(data + 1, words - 1, 2 + 0x9e3779b97f4a7c15u);
    EXPECT_EQ(data[0], 1);
  }
  MPI_Type_free(&row);
  MPI_Type_free(&all);
  if (rank == 0) write_words(data, words, 3);
  EXPECT_OK(MPI_Bcast_c(data, words, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  check_words(data, words, 3);
  free(data);
  return end();
}
