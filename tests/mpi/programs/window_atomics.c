// The accumulates: every element is changed as a whole, whoever else changes it; by every operation
// and kind of type, aligned or not, in windows of each flavor.
#include "expect.h"

enum { kRounds = 40 };

struct Memory {
  long long counter;
  long long swaps;
  int sum;
  short small;
  char bits;
  double reals[4];
  long double wide;
  double complex_sum[2];
  struct {
    double value;
    int index;
  } most;
  struct {
    int value, index;
  } least;
  unsigned char gap;
  unsigned char unaligned[8];
  unsigned char end[7];
};

static struct Memory* memory;
static MPI_Win win;
#define DISPLACEMENT(field) ((MPI_Aint)offsetof(struct Memory, field))

static void open_window(int flavor) {
  if (flavor != 1) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (flavor == 2) MPI_Info_set(info, "mpi_accumulate_granularity", "8");
    EXPECT_OK(MPI_Win_allocate(sizeof *memory, 1, info, MPI_COMM_WORLD, &memory, &win));
    MPI_Info_free(&info);
  } else {
    memory = allocate(sizeof *memory);
    EXPECT_OK(MPI_Win_create(memory, sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  }
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  memset(memory, 0, sizeof *memory);
  memory->most.value = -1;
  memory->least.value = 1 << 30;
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void close_window(int flavor) {
  struct Memory* kept = memory;
  EXPECT_OK(MPI_Win_free(&win));
  if (flavor == 1) free(kept);
}

// Everybody counts at one place: nobody gets a number twice, and none is left out.
static void check_counter(void) {
  unsigned char* seen = allocate((size_t)size * kRounds);
  unsigned char* all = allocate((size_t)size * kRounds);
  memset(seen, 0, (size_t)size * kRounds);
  const long long one = 1;
  long long last = -1;
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < kRounds; ++i) {
    long long before = -1;
    EXPECT_OK(
        MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, 0, DISPLACEMENT(counter), MPI_SUM, win));
    MPI_Win_flush(0, win);
    if (before < 0 || before >= (long long)size * kRounds) {
      EXPECT_EQ(before, -2);
      break;
    }
    EXPECT(before > last);
    last = before;
    ++seen[before];
  }
  MPI_Win_unlock_all(win);
  MPI_Allreduce(seen, all, size * kRounds, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < size * kRounds; ++i)
    if (all[i] != 1) {
      EXPECT_EQ(all[i], 1);
      break;
    }
  free(seen);
  free(all);
}

// Additions by compare and swap.
static void check_swaps(void) {
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  for (int i = 0; i < kRounds; ++i) {
    long long expected = 0, found = 0;
    for (;;) {
      const long long wanted = expected + 1;
      EXPECT_OK(MPI_Compare_and_swap(&wanted, &expected, &found, MPI_LONG_LONG, 0,
                                     DISPLACEMENT(swaps), win));
      MPI_Win_flush(0, win);
      if (found == expected) break;
      expected = found;
    }
  }
  MPI_Win_unlock(0, win);
}

// What all have added is there.
static void check_sums(void) {
  EXPECT_EQ(memory->counter, size * kRounds);
  EXPECT_EQ(memory->swaps, size * kRounds);
  EXPECT_EQ(memory->sum, size * kRounds);
  EXPECT_EQ(memory->small, (short)(2 * size * kRounds));
  for (int i = 0; i < 4; ++i) EXPECT(memory->reals[i] == (i + 1.0) * size * kRounds);
  EXPECT(memory->wide == 0.5L * size * kRounds);
  EXPECT(memory->complex_sum[0] == size * kRounds && memory->complex_sum[1] == -size * kRounds);
  int sum;
  memcpy(&sum, memory->unaligned, sizeof sum);
  EXPECT_EQ(sum, size * kRounds);
  int bits = 0;
  for (int i = 0; i < size; ++i) bits |= 1 << i % 7;
  EXPECT_EQ(memory->bits, bits);
  EXPECT(memory->most.value == (size - 1) * 1.5 && memory->most.index == size - 1);
  EXPECT(memory->least.value == 1000 - (size - 1) && memory->least.index == size - 1);
}

static void check_accumulates(void) {
  const int one = 1;
  const short two = 2;
  const double reals[4] = {1, 2, 3, 4};
  const long double wide = 0.5L;
  const double complex_one[2] = {1, -1};
  const char bit = (char)(1 << rank % 7);
  struct {
    double value;
    int index;
  } mine = {rank * 1.5, rank};
  struct {
    int value, index;
  } low = {1000 - rank, rank};
  MPI_Win_fence(0, win);
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_OK(MPI_Accumulate(&one, 1, MPI_INT, 0, DISPLACEMENT(sum), 1, MPI_INT, MPI_SUM, win));
    EXPECT_OK(
        MPI_Accumulate(&two, 1, MPI_SHORT, 0, DISPLACEMENT(small), 1, MPI_SHORT, MPI_SUM, win));
    EXPECT_OK(
        MPI_Accumulate(reals, 4, MPI_DOUBLE, 0, DISPLACEMENT(reals), 4, MPI_DOUBLE, MPI_SUM, win));
    EXPECT_OK(MPI_Accumulate(&wide, 1, MPI_LONG_DOUBLE, 0, DISPLACEMENT(wide), 1, MPI_LONG_DOUBLE,
                             MPI_SUM, win));
    EXPECT_OK(MPI_Accumulate(complex_one, 1, MPI_C_DOUBLE_COMPLEX, 0, DISPLACEMENT(complex_sum), 1,
                             MPI_C_DOUBLE_COMPLEX, MPI_SUM, win));
    EXPECT_OK(
        MPI_Accumulate(&one, 1, MPI_INT, 0, DISPLACEMENT(unaligned), 1, MPI_INT, MPI_SUM, win));
  }
  EXPECT_OK(MPI_Accumulate(&bit, 1, MPI_BYTE, 0, DISPLACEMENT(bits), 1, MPI_BYTE, MPI_BOR, win));
  EXPECT_OK(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, DISPLACEMENT(most), 1, MPI_DOUBLE_INT,
                           MPI_MAXLOC, win));
  EXPECT_OK(
      MPI_Accumulate(&low, 1, MPI_2INT, 0, DISPLACEMENT(least), 1, MPI_2INT, MPI_MINLOC, win));
  MPI_Win_fence(0, win);
  if (rank == 0) check_sums();
  MPI_Barrier(MPI_COMM_WORLD);
}

// Every predefined operation, one process after the other, against the same computed here.
static void check_operations(void) {
  const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_BAND,    MPI_BOR,
                        MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE, MPI_NO_OP};
  for (int i = 0; i < (int)(sizeof ops / sizeof *ops); ++i) {
    const int start = 6 + i, operand = 3;
    int before = 0, after = 0, wanted = start;
    if (ops[i] == MPI_REPLACE)
      wanted = operand;
    else if (ops[i] != MPI_NO_OP)
      MPI_Reduce_local(&operand, &wanted, 1, MPI_INT, ops[i]);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, 0, win);
    const int target = (rank + 1) % size;
    EXPECT_OK(MPI_Put(&start, 1, MPI_INT, target, DISPLACEMENT(sum), 1, MPI_INT, win));
    MPI_Win_flush(target, win);
    EXPECT_OK(MPI_Get_accumulate(&operand, 1, MPI_INT, &before, 1, MPI_INT, target,
                                 DISPLACEMENT(sum), 1, MPI_INT, ops[i], win));
    MPI_Win_flush(target, win);
    EXPECT_OK(MPI_Fetch_and_op(NULL, &after, MPI_INT, target, DISPLACEMENT(sum), MPI_NO_OP, win));
    MPI_Win_unlock(target, win);
    EXPECT_EQ(before, start);
    EXPECT_EQ(after, wanted);
  }
}

// Elements apart from each other, with a result in yet another layout, and requests.
static void check_layouts(void) {
  enum { kCount = 50 };
  int* data;
  MPI_Win strided;
  EXPECT_OK(MPI_Win_allocate(3 * kCount * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                             &data, &strided));
  MPI_Datatype second, third;
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &second);
  MPI_Type_vector(kCount, 1, 3, MPI_INT, &third);
  MPI_Type_commit(&second);
  MPI_Type_commit(&third);
  for (int i = 0; i < 3 * kCount; ++i) data[i] = i;
  int operand[2 * kCount], result[2 * kCount];
  for (int i = 0; i < 2 * kCount; ++i) operand[i] = i, result[i] = -1;
  MPI_Barrier(MPI_COMM_WORLD);
  const int target = (rank + 1) % size;
  MPI_Win_lock_all(0, strided);
  EXPECT_OK(MPI_Get_accumulate(operand, 1, second, result, 1, second, target, 0, 1, third, MPI_SUM,
                               strided));
  MPI_Win_flush(target, strided);
  for (int i = 0; i < 2 * kCount; ++i) EXPECT_EQ(result[i], i % 2 == 0 ? i / 2 * 3 : -1);
  MPI_Request requests[4];
  EXPECT_OK(
      MPI_Raccumulate(operand, 1, second, target, 0, 1, third, MPI_SUM, strided, &requests[0]));
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Win_flush(target, strided);
  int all[3 * kCount], one = 7, three = 0;
  EXPECT_OK(
      MPI_Rget(all, 3 * kCount, MPI_INT, target, 0, 3 * kCount, MPI_INT, strided, &requests[0]));
  EXPECT_OK(MPI_Rget_accumulate(NULL, 0, MPI_INT, &three, 1, MPI_INT, target, 3, 1, MPI_INT,
                                MPI_NO_OP, strided, &requests[1]));
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3 * kCount; ++i) EXPECT_EQ(all[i], i % 3 == 0 ? i + 2 * (i / 3 * 2) : i);
  EXPECT_EQ(three, 3 + 2 * 2);
  EXPECT_OK(MPI_Rput(&one, 1, MPI_INT, target, 1, 1, MPI_INT, strided, &requests[0]));
  MPI_Status status;
  int flag = 0;
  while (!flag) EXPECT_OK(MPI_Test(&requests[0], &flag, &status));
  MPI_Win_unlock_all(strided);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(data[1], 7);
  EXPECT_OK(MPI_Win_free(&strided));
  MPI_Type_free(&second);
  MPI_Type_free(&third);
}

// Whole vectors and single elements of them at the same time.
static void check_many(void) {
  enum { kElements = 1000, kTimes = 300 };
  int* data;
  double* reals;
  MPI_Win ints, doubles;
  EXPECT_OK(MPI_Win_allocate(kElements * sizeof *data, sizeof *data, MPI_INFO_NULL, MPI_COMM_WORLD,
                             &data, &ints));
  EXPECT_OK(MPI_Win_allocate(kElements * sizeof *reals, sizeof *reals, MPI_INFO_NULL,
                             MPI_COMM_WORLD, &reals, &doubles));
  int ones[kElements];
  double halves[kElements];
  for (int i = 0; i < kElements; ++i) ones[i] = 1, halves[i] = 0.5;
  MPI_Win_lock_all(0, ints);
  MPI_Win_lock_all(0, doubles);
  for (int i = 0; i < kTimes; ++i) {
    const int place = (rank + i) % kElements, part = kElements - i;
    int before = 0;
    double half = 0.5, was = 0;
    if ((i + rank) % 4 == 0) {
      int all[kElements];
      EXPECT_OK(MPI_Get_accumulate(ones, kElements, MPI_INT, all, kElements, MPI_INT, 0, 0,
                                   kElements, MPI_INT, MPI_SUM, ints));
      EXPECT_OK(MPI_Accumulate(halves, part, MPI_DOUBLE, 0, 0, part, MPI_DOUBLE, MPI_SUM, doubles));
      MPI_Win_flush(0, ints);
      // Nobody adds to one element alone what was not there before.
      for (int k = 0; k < kElements; ++k)
        if (all[k] < 0 || all[k] > 2 * size * kTimes) EXPECT_EQ(all[k], -1);
      continue;
    }
    EXPECT_OK(MPI_Fetch_and_op(ones, &before, MPI_INT, 0, place, MPI_SUM, ints));
    EXPECT_OK(MPI_Fetch_and_op(&half, &was, MPI_DOUBLE, 0, place, MPI_SUM, doubles));
    for (int expected = before + 1, found = 0;; expected = found) {
      const int wanted = expected + 1;
      EXPECT_OK(MPI_Compare_and_swap(&wanted, &expected, &found, MPI_INT, 0, place, ints));
      MPI_Win_flush(0, ints);
      if (found == expected) break;
    }
  }
  MPI_Win_unlock_all(ints);
  MPI_Win_unlock_all(doubles);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    int wanted[kElements] = {0};
    double wanted_reals[kElements] = {0};
    for (int who = 0; who < size; ++who)
      for (int i = 0; i < kTimes; ++i)
        for (int k = 0; k < kElements; ++k) {
          const int is_vector = (i + who) % 4 == 0, is_place = k == (who + i) % kElements;
          wanted[k] += is_vector ? 1 : 2 * is_place;
          wanted_reals[k] += is_vector ? 0.5 * (k < kElements - i) : 0.5 * is_place;
        }
    for (int k = 0; k < kElements; ++k) {
      EXPECT_EQ(data[k], wanted[k]);
      EXPECT(reals[k] == wanted_reals[k]);
    }
  }
  EXPECT_OK(MPI_Win_free(&ints));
  EXPECT_OK(MPI_Win_free(&doubles));
}

// A structure that names a type of which it has no elements is one of the others' type.
static void check_empty_block(void) {
  int* data;
  EXPECT_OK(
      MPI_Win_allocate(2 * sizeof *data, sizeof *data, MPI_INFO_NULL, MPI_COMM_WORLD, &data, &win));
  data[0] = data[1] = 1;
  const int lengths[2] = {2, 0}, two[2] = {2, 2};
  const MPI_Aint places[2] = {0, 8};
  const MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  MPI_Win_fence(0, win);
  EXPECT_OK(MPI_Accumulate(two, 1, type, rank, 0, 1, type, MPI_SUM, win));
  MPI_Win_fence(0, win);
  EXPECT_EQ(data[0], 3);
  EXPECT_EQ(data[1], 3);
  MPI_Type_free(&type);
  EXPECT_OK(MPI_Win_set_info(win, MPI_INFO_NULL));
  EXPECT_OK(MPI_Win_free(&win));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int flavor = 0; flavor < 3; ++flavor) {
    open_window(flavor);
    check_counter();
    check_swaps();
    check_accumulates();
    check_operations();
    close_window(flavor);
  }
  check_layouts();
  check_many();
  check_empty_block();
  return end();
}
