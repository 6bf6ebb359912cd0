// Windows: making and ending them in every flavor, what programs hang on them and ask of them, and
// puts and gets between fences, contiguous and not.
#include "expect.h"

enum { kInts = 1000 };

static void check_attributes(MPI_Win win, void* base, MPI_Aint bytes, int unit, int flavor) {
  void* value;
  int flag;
  EXPECT_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
  EXPECT(flag);
  EXPECT(value == base);
  EXPECT_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag));
  EXPECT(flag);
  EXPECT_EQ(*(MPI_Aint*)value, bytes);
  EXPECT_OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
  EXPECT(flag);
  EXPECT_EQ(*(int*)value, unit);
  EXPECT_OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
  EXPECT(flag);
  EXPECT_EQ(*(int*)value, flavor);
  EXPECT_OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
  EXPECT(flag);
  EXPECT(*(int*)value == MPI_WIN_UNIFIED || kOpenMpi || kMpich);
}

static void check_group(MPI_Win win) {
  MPI_Group of_win, of_world;
  int result;
  EXPECT_OK(MPI_Win_get_group(win, &of_win));
  MPI_Comm_group(MPI_COMM_WORLD, &of_world);
  MPI_Group_compare(of_win, of_world, &result);
  EXPECT_EQ(result, MPI_IDENT);
  MPI_Group_free(&of_win);
  MPI_Group_free(&of_world);
}

static void check_name(MPI_Win win) {
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1;
  EXPECT_OK(MPI_Win_get_name(win, name, &length));
  EXPECT_EQ(length, 0);
  EXPECT_OK(MPI_Win_set_name(win, "halo"));
  EXPECT_OK(MPI_Win_get_name(win, name, &length));
  EXPECT_EQ(length, 4);
  EXPECT(strcmp(name, "halo") == 0);
}

static int num_deleted;
static int on_delete(MPI_Win win, int keyval, void* value, void* extra) {
  (void)win, (void)keyval;
  num_deleted += *(int*)value + *(int*)extra;
  return MPI_SUCCESS;
}

// Leaves an attribute there that the end of the window deletes.
static void check_keyvals(MPI_Win win) {
  static int value = 10, extra = 5;
  int keyval, flag;
  void* found;
  EXPECT_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &keyval, &extra));
  EXPECT_OK(MPI_Win_get_attr(win, keyval, &found, &flag));
  EXPECT(!flag);
  num_deleted = 0;
  EXPECT_OK(MPI_Win_set_attr(win, keyval, &value));
  EXPECT_OK(MPI_Win_get_attr(win, keyval, &found, &flag));
  EXPECT(flag && found == &value);
  EXPECT_OK(MPI_Win_delete_attr(win, keyval));
  EXPECT_EQ(num_deleted, 15);
  EXPECT_OK(MPI_Win_set_attr(win, keyval, &value));
  EXPECT_OK(MPI_Win_free_keyval(&keyval));
  EXPECT_EQ(keyval, MPI_KEYVAL_INVALID);
}

static void check_info(MPI_Win win) {
  MPI_Info info;
  char value[MPI_MAX_INFO_VAL + 1];
  int flag;
  MPI_Info_create(&info);
  MPI_Info_set(info, "no_locks", "true");
  EXPECT_OK(MPI_Win_set_info(win, info));
  MPI_Info_free(&info);
  EXPECT_OK(MPI_Win_get_info(win, &info));
  MPI_Info_get(info, "no_locks", MPI_MAX_INFO_VAL, value, &flag);
  EXPECT(flag || kOpenMpi);
  MPI_Info_free(&info);
}

static int num_handled;
static void on_error(MPI_Win* win, int* code, ...) {
  int class_of;
  (void)win;
  MPI_Error_class(*code, &class_of);
  num_handled += class_of == MPI_ERR_RANK;
}

static void check_errhandler(MPI_Win win) {
  MPI_Errhandler handler, found;
  EXPECT_OK(MPI_Win_get_errhandler(win, &found));
  EXPECT(found == MPI_ERRORS_ARE_FATAL);
  EXPECT_OK(MPI_Win_create_errhandler(on_error, &handler));
  EXPECT_OK(MPI_Win_set_errhandler(win, handler));
  num_handled = 0;
  EXPECT_OK(MPI_Win_call_errhandler(win, MPI_ERR_RANK));
  EXPECT_EQ(num_handled, 1);
  int value = 0;
  EXPECT(MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win) != MPI_SUCCESS);
  EXPECT_EQ(num_handled, 2);
  EXPECT_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL));
  MPI_Errhandler_free(&handler);
}

// Everybody puts its part into everybody's memory, and gets it all back, between fences.
static void exchange(MPI_Win win, int* memory) {
  const int part = kInts / size;
  int* data = allocate(kInts * sizeof *data);
  EXPECT_OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  for (int i = 0; i < part; ++i) data[i] = rank * kInts + i;
  for (int target = 0; target < size; ++target)
    EXPECT_OK(MPI_Put(data, part, MPI_INT, target, rank * part, part, MPI_INT, win));
  EXPECT_OK(MPI_Win_fence(0, win));
  for (int i = 0; i < part * size; ++i)
    if (memory[i] != i / part * kInts + i % part) {
      EXPECT_EQ(memory[i], i / part * kInts + i % part);
      break;
    }
  int* got = allocate((size_t)size * kInts * sizeof *got);
  memset(got, 0, (size_t)size * kInts * sizeof *got);
  EXPECT_OK(MPI_Win_fence(MPI_MODE_NOPUT, win));
  for (int target = 0; target < size; ++target)
    EXPECT_OK(
        MPI_Get(got + target * kInts, part * size, MPI_INT, target, 0, part * size, MPI_INT, win));
  EXPECT_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  for (int target = 0; target < size; ++target)
    EXPECT(memcmp(got + target * kInts, memory, sizeof(int) * (size_t)(part * size)) == 0);
  free(got);
  free(data);
}

// Every second int here to every third there, and back into another layout.
static void exchange_strided(MPI_Win win, int* memory) {
  enum { kCount = 100 };
  MPI_Datatype second, third;
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &second);
  MPI_Type_vector(kCount, 1, 3, MPI_INT, &third);
  MPI_Type_commit(&second);
  MPI_Type_commit(&third);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int data[2 * kCount], plain[kCount], back[2 * kCount];
  for (int i = 0; i < 2 * kCount; ++i) data[i] = rank * 1000 + i;
  for (int i = 0; i < kInts; ++i) memory[i] = -1;
  memset(back, 0, sizeof back);
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Put(data, 1, second, right, 1, 1, third, win));
  EXPECT_OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 3 * kCount; ++i) {
    const int want = i % 3 == 1 ? left * 1000 + i / 3 * 2 : -1;
    if (memory[i] != want) {
      EXPECT_EQ(memory[i], want);
      break;
    }
  }
  EXPECT_OK(MPI_Get(plain, kCount, MPI_INT, right, 1, 1, third, win));
  EXPECT_OK(MPI_Get(back, 1, second, right, 1, 1, third, win));
  EXPECT_OK(MPI_Win_fence(0, win));
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(plain[i], data[2 * i]);
    EXPECT_EQ(back[2 * i], data[2 * i]);
    EXPECT_EQ(back[2 * i + 1], 0);
  }
  EXPECT_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  MPI_Type_free(&second);
  MPI_Type_free(&third);
}

static void check_flavors(void) {
  MPI_Win win;
  int* memory = allocate(kInts * sizeof *memory);
  EXPECT_OK(MPI_Win_create(memory, kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                           &win));
  check_attributes(win, memory, kInts * sizeof(int), sizeof(int), MPI_WIN_FLAVOR_CREATE);
  check_group(win);
  check_name(win);
  check_keyvals(win);
  check_info(win);
  if (!kMpich && !kOpenMpi) check_errhandler(win);
  exchange(win, memory);
  exchange_strided(win, memory);
  num_deleted = 0;
  EXPECT_OK(MPI_Win_free(&win));
  EXPECT(win == MPI_WIN_NULL);
  EXPECT_EQ(num_deleted, 15);
  free(memory);

  EXPECT_OK(MPI_Win_allocate(kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                             &memory, &win));
  check_attributes(win, memory, kInts * sizeof(int), sizeof(int), MPI_WIN_FLAVOR_ALLOCATE);
  exchange(win, memory);
  exchange_strided(win, memory);
  EXPECT_OK(MPI_Win_free(&win));

  EXPECT_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  check_attributes(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
  EXPECT_OK(MPI_Win_free(&win));
}

// Sizes and units differ; some have no memory at all.
static void check_sizes(void) {
  MPI_Win win;
  char* memory = NULL;
  const int unit = rank % 3 + 1;
  const MPI_Aint bytes = rank % 2 == 0 ? 100 * (rank + 1) : 0;
  EXPECT_OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  EXPECT_OK(MPI_Win_fence(0, win));
  for (int target = 0; target < size; target += 2) {
    char byte = (char)(rank + 1);
    EXPECT_OK(MPI_Put(&byte, 1, MPI_CHAR, target, rank, 1, MPI_CHAR, win));
  }
  EXPECT_OK(MPI_Win_fence(0, win));
  if (bytes != 0)
    for (int origin = 0; origin < size; ++origin) EXPECT_EQ(memory[origin * unit], origin + 1);
  EXPECT_OK(MPI_Win_free(&win));
}

static void check_shared(void) {
  MPI_Comm host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int me, num;
  MPI_Comm_rank(host, &me);
  MPI_Comm_size(host, &num);
  for (int apart = 0; apart < 2; ++apart) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (apart) MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win win;
    int* memory;
    // The first has none.
    const MPI_Aint bytes = me == 0 && num > 1 ? 0 : 8 * (MPI_Aint)sizeof(int);
    EXPECT_OK(MPI_Win_allocate_shared(bytes, sizeof(int), info, host, &memory, &win));
    MPI_Info_free(&info);
    EXPECT_OK(MPI_Win_fence(0, win));
    if (bytes != 0)
      for (int i = 0; i < 8; ++i) memory[i] = me * 100 + i;
    EXPECT_OK(MPI_Win_fence(0, win));
    int* before = NULL;
    for (int other = num > 1 ? 1 : 0; other < num; ++other) {
      MPI_Aint there;
      int unit, *data;
      EXPECT_OK(MPI_Win_shared_query(win, other, &there, &unit, &data));
      EXPECT_EQ(there, 8 * sizeof(int));
      EXPECT_EQ(unit, sizeof(int));
      for (int i = 0; i < 8; ++i) EXPECT_EQ(data[i], other * 100 + i);
      if (before != NULL && !apart) EXPECT(data == before + 8);
      before = data;
    }
    MPI_Aint there;
    int unit, *first;
    EXPECT_OK(MPI_Win_shared_query(win, me, &there, &unit, &first));
    EXPECT_EQ(there, bytes);
    EXPECT(first == memory);
    // A member without memory has a place all the same, and in one piece the next begins there.
    EXPECT_OK(MPI_Win_shared_query(win, 0, &there, &unit, &first));
    EXPECT(first != NULL);
    if (num > 1) {
      int* next;
      EXPECT_EQ(there, 0);
      EXPECT_OK(MPI_Win_shared_query(win, 1, &there, &unit, &next));
      if (!apart) EXPECT(next == first);
    }
    EXPECT_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &there, &unit, &first));
    EXPECT_EQ(first[3], (num > 1 ? 100 : 0) + 3);
    EXPECT_OK(MPI_Win_fence(0, win));
    // Stores of others are seen without a call that moves data.
    EXPECT_OK(MPI_Win_shared_query(win, num - 1, &there, &unit, &first));
    EXPECT_OK(MPI_Win_lock_all(0, win));
    if (me == 0) first[0] = 4711;
    EXPECT_OK(MPI_Win_sync(win));
    MPI_Barrier(host);
    EXPECT_OK(MPI_Win_sync(win));
    EXPECT_EQ(first[0], 4711);
    EXPECT_OK(MPI_Win_unlock_all(win));
    EXPECT_OK(MPI_Win_free(&win));
  }
  MPI_Comm_free(&host);
}

// A window of some processes, and several at a time.
static void check_several(void) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  int me, num;
  MPI_Comm_rank(half, &me);
  MPI_Comm_size(half, &num);
  MPI_Win first, second;
  int *a, *b;
  EXPECT_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, half, &a, &first));
  EXPECT_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &b, &second));
  EXPECT_OK(MPI_Win_fence(0, first));
  EXPECT_OK(MPI_Win_fence(0, second));
  const int value = rank + 10;
  EXPECT_OK(MPI_Put(&value, 1, MPI_INT, (me + 1) % num, 0, 1, MPI_INT, first));
  EXPECT_OK(MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, second));
  EXPECT_OK(MPI_Win_fence(0, first));
  EXPECT_OK(MPI_Win_fence(0, second));
  EXPECT_EQ(*b, (rank + size - 1) % size + 10);
  int left = rank;
  MPI_Sendrecv(&rank, 1, MPI_INT, (me + 1) % num, 0, &left, 1, MPI_INT, (me + num - 1) % num, 0,
               half, MPI_STATUS_IGNORE);
  EXPECT_EQ(*a, left + 10);
  MPI_Comm_free(&half);
  EXPECT_OK(MPI_Win_free(&first));
  EXPECT_OK(MPI_Win_free(&second));
}

static void check_null(void) {
  MPI_Win win;
  char* memory;
  EXPECT_OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Put(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win));
  EXPECT_OK(MPI_Get(NULL, 0, MPI_INT, rank, 0, 0, MPI_INT, win));
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Win_free(&win));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  check_flavors();
  check_sizes();
  check_shared();
  check_several();
  check_null();
  return end();
}
