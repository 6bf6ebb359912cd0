// Epochs: post and start among changing groups, locks that keep others out, lock_all, flushes, and
// a target that computes meanwhile without a call.
#include <sched.h>
#include <time.h>

#include "expect.h"

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static MPI_Group group_of(int first, int num) {
  MPI_Group world, made;
  int* ranks = allocate(sizeof(int) * (size_t)(num + 1));
  for (int i = 0; i < num; ++i) ranks[i] = (first + i) % size;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, num, ranks, &made);
  MPI_Group_free(&world);
  free(ranks);
  return made;
}

// A ring: everybody writes to its right neighbour, at times with nobody, at times with all.
static void check_post_start(MPI_Win win, int* memory) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Group to = group_of(right, 1), from = group_of(left, 1), all = group_of(0, size);
  for (int round = 1; round <= 50; ++round) {
    const int value = round * 100 + rank;
    EXPECT_OK(MPI_Win_post(from, 0, win));
    EXPECT_OK(MPI_Win_start(to, 0, win));
    EXPECT_OK(MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win));
    EXPECT_OK(MPI_Win_complete(win));
    if (round % 2 == 0) {
      EXPECT_OK(MPI_Win_wait(win));
    } else {
      int flag = 0;
      while (!flag) EXPECT_OK(MPI_Win_test(win, &flag));
    }
    EXPECT_EQ(memory[0], round * 100 + left);
  }
  const int mine = 7000 + rank;
  EXPECT_OK(MPI_Win_post(all, 0, win));
  EXPECT_OK(MPI_Win_start(all, 0, win));
  for (int target = 0; target < size; ++target)
    EXPECT_OK(MPI_Put(&mine, 1, MPI_INT, target, rank, 1, MPI_INT, win));
  EXPECT_OK(MPI_Win_complete(win));
  EXPECT_OK(MPI_Win_wait(win));
  for (int origin = 0; origin < size; ++origin) EXPECT_EQ(memory[origin], 7000 + origin);
  EXPECT_OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
  EXPECT_OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
  EXPECT_OK(MPI_Win_complete(win));
  EXPECT_OK(MPI_Win_wait(win));
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Group_free(&all);
}

// Two words that are changed one after the other under an exclusive lock are never seen apart.
static void check_exclusion(MPI_Win win, int* memory) {
  enum { kRounds = 100 };
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  memory[0] = memory[1] = 0;
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kRounds; ++i) {
    int pair[2] = {-1, -2};
    if (i % 4 == 3) {
      EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
      EXPECT_OK(MPI_Get(&pair[0], 1, MPI_INT, 0, 0, 1, MPI_INT, win));
      MPI_Win_flush(0, win);
      sched_yield();
      EXPECT_OK(MPI_Get(&pair[1], 1, MPI_INT, 0, 1, 1, MPI_INT, win));
      EXPECT_OK(MPI_Win_unlock(0, win));
      EXPECT_EQ(pair[0], pair[1]);
      continue;
    }
    EXPECT_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    EXPECT_OK(MPI_Get(pair, 2, MPI_INT, 0, 0, 2, MPI_INT, win));
    MPI_Win_flush(0, win);
    EXPECT_EQ(pair[0], pair[1]);
    ++pair[0], ++pair[1];
    EXPECT_OK(MPI_Put(&pair[0], 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    MPI_Win_flush(0, win);
    if (i % 10 == 0) sched_yield();
    EXPECT_OK(MPI_Put(&pair[1], 1, MPI_INT, 0, 1, 1, MPI_INT, win));
    EXPECT_OK(MPI_Win_unlock(0, win));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  int sum = 0;
  MPI_Get(&sum, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
  MPI_Win_unlock(0, win);
  EXPECT_EQ(sum, size * (kRounds - kRounds / 4));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void check_lock_all(MPI_Win win, int* memory) {
  EXPECT_OK(MPI_Win_lock_all(0, win));
  const int value = 300 + rank;
  for (int target = 0; target < size; ++target)
    EXPECT_OK(MPI_Put(&value, 1, MPI_INT, target, rank, 1, MPI_INT, win));
  EXPECT_OK(MPI_Win_flush_local_all(win));
  EXPECT_OK(MPI_Win_flush_all(win));
  int got = 0;
  EXPECT_OK(MPI_Get(&got, 1, MPI_INT, (rank + 1) % size, rank, 1, MPI_INT, win));
  EXPECT_OK(MPI_Win_flush_local((rank + 1) % size, win));
  EXPECT_EQ(got, value);
  EXPECT_OK(MPI_Win_sync(win));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_Win_sync(win));
  for (int origin = 0; origin < size; ++origin) EXPECT_EQ(memory[origin], 300 + origin);
  EXPECT_OK(MPI_Win_unlock_all(win));
  EXPECT_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
  EXPECT_OK(MPI_Win_unlock_all(win));
  MPI_Barrier(MPI_COMM_WORLD);
}

// Several targets locked at a time, without and with a check.
static void check_many_locks(MPI_Win win, int* memory) {
  for (int target = 0; target < size; ++target)
    EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, target % 2 ? MPI_MODE_NOCHECK : 0, win));
  const int value = 500 + rank;
  for (int target = 0; target < size; ++target)
    EXPECT_OK(MPI_Put(&value, 1, MPI_INT, target, rank, 1, MPI_INT, win));
  for (int target = size - 1; target >= 0; --target) EXPECT_OK(MPI_Win_unlock(target, win));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  for (int origin = 0; origin < size; ++origin) EXPECT_EQ(memory[origin], 500 + origin);
  EXPECT_OK(MPI_Win_unlock(rank, win));
  MPI_Barrier(MPI_COMM_WORLD);
}

// Rank 0 computes and calls nothing until the others have changed its memory.
static void check_passive(MPI_Win win, int* memory) {
  if (size == 1) return;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  memory[0] = 0;
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const double limit = seconds() + 60;
    volatile int* count = memory;
    while (*count != size - 1 && seconds() < limit) {
    }
    EXPECT_EQ(*count, size - 1);
  } else {
    const int one = 1;
    EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    EXPECT_OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    EXPECT_OK(MPI_Win_unlock(0, win));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void check_window(MPI_Win win, int* memory) {
  check_post_start(win, memory);
  check_exclusion(win, memory);
  check_lock_all(win, memory);
  check_many_locks(win, memory);
  check_passive(win, memory);
}

// Memory that comes and goes.
static void check_dynamic(void) {
  MPI_Win win;
  EXPECT_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  for (int round = 0; round < 5; ++round) {
    int* pieces[4];
    MPI_Aint mine[4], *all = allocate(sizeof(MPI_Aint) * 4 * (size_t)size);
    for (int i = 0; i < 4; ++i) {
      pieces[i] = allocate(sizeof(int) * (size_t)(size + 1));
      EXPECT_OK(MPI_Win_attach(win, pieces[i], (MPI_Aint)sizeof(int) * size));
      MPI_Get_address(pieces[i], &mine[i]);
    }
    MPI_Allgather(mine, 4, MPI_AINT, all, 4, MPI_AINT, MPI_COMM_WORLD);
    EXPECT_OK(MPI_Win_lock_all(0, win));
    for (int target = 0; target < size; ++target)
      for (int i = 0; i < 4; ++i) {
        const int value = round * 1000 + rank * 10 + i;
        EXPECT_OK(MPI_Put(&value, 1, MPI_INT, target,
                          MPI_Aint_add(all[target * 4 + i], rank * (MPI_Aint)sizeof(int)), 1,
                          MPI_INT, win));
        MPI_Win_flush(target, win);
      }
    const int one = 1;
    EXPECT_OK(MPI_Accumulate(&one, 1, MPI_INT, (rank + 1) % size,
                             all[(rank + 1) % size * 4] + rank * (MPI_Aint)sizeof(int), 1, MPI_INT,
                             MPI_SUM, win));
    EXPECT_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    for (int origin = 0; origin < size; ++origin)
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(pieces[i][origin],
                  round * 1000 + origin * 10 + i + (i == 0 && (origin + 1) % size == rank));
    EXPECT_OK(MPI_Win_unlock(rank, win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; ++i) {
      EXPECT_OK(MPI_Win_detach(win, pieces[(i + round) % 4]));
      free(pieces[(i + round) % 4]);
    }
    free(all);
  }
  EXPECT_OK(MPI_Win_free(&win));
}

// Pieces that lie side by side are one to who writes across them, and others are reached together.
static void check_pieces(void) {
  MPI_Win win;
  int* data = allocate(sizeof(int) * 12);
  for (int i = 0; i < 12; ++i) data[i] = i;
  EXPECT_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  EXPECT_OK(MPI_Win_attach(win, data, 4 * sizeof(int)));
  EXPECT_OK(MPI_Win_attach(win, data + 4, 4 * sizeof(int)));
  EXPECT_OK(MPI_Win_attach(win, data + 10, 2 * sizeof(int)));
  MPI_Aint mine, there;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Get_address(data, &mine);
  MPI_Sendrecv(&mine, 1, MPI_AINT, left, 0, &there, 1, MPI_AINT, right, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  const int lengths[2] = {4, 1}, places[2] = {2, 11};
  MPI_Datatype apart;
  MPI_Type_indexed(2, lengths, places, MPI_INT, &apart);
  MPI_Type_commit(&apart);
  const int values[5] = {100, 101, 102, 103, 104};
  int got[5] = {0};
  EXPECT_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  EXPECT_OK(MPI_Put(values, 5, MPI_INT, right, there, 1, apart, win));
  EXPECT_OK(MPI_Win_flush(right, win));
  EXPECT_OK(MPI_Accumulate(values, 5, MPI_INT, right, there, 1, apart, MPI_SUM, win));
  EXPECT_OK(MPI_Win_flush(right, win));
  EXPECT_OK(MPI_Get(got, 5, MPI_INT, right, there, 1, apart, win));
  EXPECT_OK(MPI_Win_unlock(right, win));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(got[i], 2 * (100 + i));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(data[i], i >= 2 && i < 6 ? 2 * (98 + i) : i == 11 ? 208 : i);
  EXPECT_OK(MPI_Win_unlock(rank, win));
  MPI_Type_free(&apart);
  EXPECT_OK(MPI_Win_free(&win));
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Win win;
  int* memory;
  const MPI_Aint bytes = (MPI_Aint)sizeof(int) * (size + 2);
  EXPECT_OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  check_window(win, memory);
  EXPECT_OK(MPI_Win_free(&win));
  memory = allocate((size_t)bytes);
  EXPECT_OK(MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  check_window(win, memory);
  EXPECT_OK(MPI_Win_free(&win));
  free(memory);
  check_dynamic();
  if (!kOpenMpi) check_pieces();  // which has one piece at a time
  return end();
}
