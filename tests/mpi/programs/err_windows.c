// What wrong arguments to functions of windows give, and every misuse of epochs that one process
// can see. Nothing is done by a call that failed: the window goes on working.
#include "expect.h"

static MPI_Win win;
static int* memory;
static int data[8];

static void check_making(void) {
  MPI_Win made;
  void* base;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  EXPECT_CLASS(MPI_Win_create(data, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made), MPI_ERR_SIZE);
  EXPECT_CLASS(MPI_Win_create(data, 4, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &made), MPI_ERR_DISP);
  EXPECT_CLASS(MPI_Win_create(NULL, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made), MPI_ERR_BASE);
  EXPECT_CLASS(MPI_Win_create(data, 4, 1, MPI_INFO_NULL, MPI_COMM_NULL, &made), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Win_create(data, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Win_create(data, 4, 1, (MPI_Info)0x77777, MPI_COMM_WORLD, &made), MPI_ERR_INFO);
  EXPECT_CLASS(MPI_Win_allocate(-4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &made), MPI_ERR_SIZE);
  EXPECT_CLASS(MPI_Win_allocate(4, -1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &made), MPI_ERR_DISP);
  EXPECT_CLASS(MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, NULL, &made), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Win_allocate_shared(-4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &made),
               MPI_ERR_SIZE);
  EXPECT_CLASS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &made), MPI_ERR_COMM);
  // More than any process has, on one of them: all hear of it.
  EXPECT_CLASS(MPI_Win_allocate(rank == 0 ? (MPI_Aint)1 << 60 : 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                                &base, &made),
               MPI_ERR_NO_MEM);
}

static void check_handles(void) {
  MPI_Win none = MPI_WIN_NULL;
  MPI_Group group;
  MPI_Aint bytes;
  int unit, flag;
  void* value;
  EXPECT_CLASS(MPI_Win_free(&none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_fence(0, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Get(data, 1, MPI_INT, 0, 0, 1, MPI_INT, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Accumulate(data, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Fetch_and_op(data, data + 1, MPI_INT, 0, 0, MPI_SUM, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Compare_and_swap(data, data + 1, data + 2, MPI_INT, 0, 0, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_unlock(0, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_flush(0, none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_flush_all(none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_sync(none), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_get_group(none, &group), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_attach(none, data, 4), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_shared_query(none, 0, &bytes, &unit, &value), MPI_ERR_WIN);
  EXPECT_CLASS(MPI_Win_get_attr(win, MPI_TAG_UB, &value, &flag), MPI_ERR_KEYVAL);
  EXPECT_CLASS(MPI_Win_set_attr(win, MPI_WIN_BASE, data), MPI_ERR_KEYVAL);
  EXPECT_CLASS(MPI_Win_attach(win, data, sizeof data), MPI_ERR_RMA_FLAVOR);
  EXPECT_CLASS(MPI_Win_shared_query(win, size, &bytes, &unit, &value), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Win_set_errhandler(win, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
}

static void check_arguments(void) {
  MPI_Datatype raw, mixed;
  MPI_Type_contiguous(2, MPI_INT, &raw);  // not committed
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {0, 8};
  const MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Type_create_struct(2, lengths, places, parts, &mixed);
  MPI_Type_commit(&mixed);
  MPI_Op own;
  MPI_Op_create((MPI_User_function*)(void*)check_handles, 1, &own);
  MPI_Request request;

  EXPECT_OK(MPI_Win_lock_all(0, win));
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, -7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Put(data, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Put(data, 1, raw, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 0, 1, raw, win), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Put(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP);
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 8, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  EXPECT_CLASS(MPI_Put(data, 2, MPI_INT, 0, 7, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
  EXPECT_CLASS(MPI_Get(data, 1, MPI_INT, 0, (MPI_Aint)1 << 62, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  EXPECT_CLASS(MPI_Put(data, 2, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE);
  EXPECT_CLASS(MPI_Get(data, 1, MPI_INT, 0, 0, 2, MPI_INT, win), MPI_ERR_TRUNCATE);
  EXPECT_CLASS(MPI_Rput(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win, NULL), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Rget(data, 1, MPI_INT, 0, 9, 1, MPI_INT, win, &request), MPI_ERR_RMA_RANGE);
  EXPECT_CLASS(MPI_Accumulate(data, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Accumulate(data, 1, MPI_INT, 0, 0, 1, MPI_INT, own, win), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Accumulate(data, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Accumulate(data, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BOR, win), MPI_ERR_OP);
  EXPECT_CLASS(MPI_Accumulate(data, 1, mixed, 0, 0, 1, mixed, MPI_SUM, win), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Fetch_and_op(data, data + 1, mixed, 0, 0, MPI_SUM, win), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Fetch_and_op(data, NULL, MPI_INT, 0, 0, MPI_SUM, win), MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Compare_and_swap(data, data + 1, data + 2, MPI_FLOAT, 0, 0, win), MPI_ERR_TYPE);
  EXPECT_CLASS(MPI_Compare_and_swap(data, NULL, data + 2, MPI_INT, 0, 0, win), MPI_ERR_BUFFER);
  EXPECT_CLASS(MPI_Win_flush(size, win), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Win_flush(-1, win), MPI_ERR_RANK);
  EXPECT_OK(MPI_Win_unlock_all(win));

  EXPECT_CLASS(MPI_Win_lock(0, 0, 0, win), MPI_ERR_LOCKTYPE);
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK);
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
  EXPECT_CLASS(MPI_Win_lock_all(1, win), MPI_ERR_ASSERT);
  EXPECT_CLASS(MPI_Win_fence(MPI_MODE_NOCHECK, win), MPI_ERR_ASSERT);
  EXPECT_CLASS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
  EXPECT_CLASS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
  EXPECT_CLASS(MPI_Win_post(MPI_GROUP_EMPTY, MPI_MODE_NOSUCCEED, win), MPI_ERR_ASSERT);
  MPI_Type_free(&raw);
  MPI_Type_free(&mixed);
  MPI_Op_free(&own);
}

static void check_epochs(void) {
  int flag;
  // Outside of any.
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Get(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Accumulate(data, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
  // With a lock.
  EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
  if (size > 1) {
    EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 1, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    EXPECT_CLASS(MPI_Win_unlock(1, win), MPI_ERR_RMA_SYNC);
    EXPECT_CLASS(MPI_Win_flush(1, win), MPI_ERR_RMA_SYNC);
  }
  EXPECT_OK(MPI_Win_unlock(0, win));
  // Started and posted for nobody.
  EXPECT_OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
  EXPECT_OK(MPI_Win_complete(win));
  EXPECT_OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
  EXPECT_CLASS(MPI_Win_post(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
  EXPECT_OK(MPI_Win_wait(win));
  // In a fence's epoch with operations.
  EXPECT_OK(MPI_Win_fence(0, win));
  EXPECT_OK(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
  EXPECT_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
  EXPECT_CLASS(MPI_Win_fence(MPI_MODE_NOPRECEDE, win), MPI_ERR_RMA_SYNC);
  EXPECT_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  EXPECT_CLASS(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
}

static void check_dynamic(void) {
  MPI_Win dynamic;
  static int more[4];
  MPI_Aint address, bytes;
  int unit;
  void* base;
  EXPECT_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
  EXPECT_OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
  EXPECT_OK(MPI_Win_attach(dynamic, data, sizeof data));
  EXPECT_CLASS(MPI_Win_attach(dynamic, data + 1, 4), MPI_ERR_RMA_ATTACH);
  EXPECT_CLASS(MPI_Win_attach(dynamic, more, -1), MPI_ERR_SIZE);
  EXPECT_CLASS(MPI_Win_detach(dynamic, more), MPI_ERR_BASE);
  EXPECT_CLASS(MPI_Win_shared_query(dynamic, 0, &bytes, &unit, &base), MPI_ERR_RMA_FLAVOR);
  MPI_Get_address(data, &address);
  EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, dynamic));
  EXPECT_OK(MPI_Put(more, 1, MPI_INT, rank, address, 1, MPI_INT, dynamic));
  EXPECT_CLASS(
      MPI_Put(more, 1, MPI_INT, rank, address + (MPI_Aint)sizeof data, 1, MPI_INT, dynamic),
      MPI_ERR_RMA_RANGE);
  EXPECT_CLASS(MPI_Put(more, 1, MPI_INT, rank, 4096, 1, MPI_INT, dynamic), MPI_ERR_RMA_RANGE);
  EXPECT_OK(MPI_Win_unlock(rank, dynamic));
  EXPECT_OK(MPI_Win_detach(dynamic, data));
  EXPECT_CLASS(MPI_Win_detach(dynamic, data), MPI_ERR_BASE);
  EXPECT_OK(MPI_Win_free(&dynamic));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  check_making();
  EXPECT_OK(
      MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  EXPECT_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  check_handles();
  check_arguments();
  check_epochs();
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(MPI_Win_free(&win));
  check_dynamic();
  return end();
}
