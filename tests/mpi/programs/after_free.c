// What goes on when a handle was freed: an operation's function still gets a type it can ask about,
// attributes under a freed key are still found, and an error handler stays that of its
// communicators however often its handle is freed. And error handlers may call what they were
// called from.
#include "forms.h"

static int wrong_types;
static MPI_Datatype given;  // to the call: the function is to get the same handle

// Adds pairs of ints with a gap, by what the type says of itself.
static void add(void* in, void* inout, int* num, MPI_Datatype* type) {
  MPI_Aint lb, extent;
  int bytes = -1;
  if (*type != given || MPI_Type_get_extent(*type, &lb, &extent) || MPI_Type_size(*type, &bytes) ||
      extent != 3 * (MPI_Aint)sizeof(int) || bytes != 2 * (int)sizeof(int)) {
    ++wrong_types;
    return;
  }
  for (int i = 0; i < *num; ++i)
    for (int k = 0; k < 3; k += 2) ((int*)inout)[3 * i + k] += ((const int*)in)[3 * i + k];
}

static void types(void) {
  enum { kElements = 4 };
  MPI_Datatype block, type;
  MPI_Op op;
  int mine[3 * kElements], all[3 * kElements];
  EXPECT_OK(MPI_Op_create(add, 1, &op));
  for (int way = 0; way < 3; ++way) {
    EXPECT_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &block));
    EXPECT_OK(MPI_Type_create_resized(block, 0, 3 * sizeof(int), &type));
    EXPECT_OK(MPI_Type_commit(&type));
    given = type;
    EXPECT_OK(MPI_Type_free(&block));
    for (int i = 0; i < 3 * kElements; ++i) {
      mine[i] = rank + i;
      all[i] = -1;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (way == 0)
      EXPECT_OK(MPI_Iallreduce(mine, all, kElements, type, op, MPI_COMM_WORLD, &request));
    if (way == 1) {
      EXPECT_OK(MPI_Iscan(mine, all, kElements, type, op, MPI_COMM_WORLD, &request));
    }
#if MPI_VERSION >= 4
    if (way == 2)
      EXPECT_OK(MPI_Allreduce_init(mine, all, kElements, type, op, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &request));
#endif
    EXPECT_OK(MPI_Type_free(&type));
    // What takes the freed place must not be taken for it.
    EXPECT_OK(MPI_Type_contiguous(5, MPI_DOUBLE, &block));
    if (way == 2) form = kPersistent, complete(&request);
    if (way < 2) EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Type_free(&block));
    EXPECT_EQ(wrong_types, 0);
    if (way == 2 && MPI_VERSION < 4) continue;
    const int num = way == 1 ? rank + 1 : size;
    for (int i = 0; i < 3 * kElements; ++i)
      EXPECT_EQ(all[i], i % 3 == 1 ? -1 : num * (num - 1) / 2 + num * i);
  }
  EXPECT_OK(MPI_Op_free(&op));
}

static void keys(void) {
  MPI_Datatype type;
  int key, number, value = 5, flag = -1;
  int* got = NULL;
  EXPECT_OK(MPI_Type_contiguous(2, MPI_INT, &type));
  EXPECT_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL));
  number = key;
  EXPECT_OK(MPI_Type_set_attr(type, key, &value));
  EXPECT_OK(MPI_Type_free_keyval(&key));
  EXPECT_OK(MPI_Type_get_attr(type, number, &got, &flag));
  EXPECT(flag == 1 && got == &value);
  EXPECT_OK(MPI_Type_delete_attr(type, number));
  if (!kOpenMpi && !kMpich)
    EXPECT_CLASS(MPI_Type_get_attr(type, number, &got, &flag), MPI_ERR_KEYVAL);
  EXPECT_OK(MPI_Type_free(&type));
}

static int calls;
static char room[1000];

// Calls what may have raised the error.
static void on_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  void* address;
  int bytes;
  if (++calls == 1) {
    EXPECT_OK(MPI_Buffer_detach(&address, &bytes));
    EXPECT_OK(MPI_Buffer_attach(room, sizeof room));
  }
  if (calls == 2) {
    EXPECT_OK(MPI_Buffer_attach(room, sizeof room));
    EXPECT_OK(MPI_Buffer_detach(&address, &bytes));
  }
}

static void handlers(void) {
  MPI_Errhandler handler, copy;
  void* address;
  int bytes;
  EXPECT_OK(MPI_Comm_create_errhandler(on_error, &handler));
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
  EXPECT_OK(MPI_Buffer_attach(room, sizeof room));
  EXPECT_CLASS(MPI_Buffer_attach(room, sizeof room), MPI_ERR_BUFFER);
  EXPECT_EQ(calls, 1);
  EXPECT_OK(MPI_Buffer_detach(&address, &bytes));
  EXPECT_CLASS(MPI_Buffer_detach(&address, &bytes), MPI_ERR_BUFFER);
  EXPECT_EQ(calls, 2);

  // The program's two handles, and one too many.
  MPI_Errhandler again;
  EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &copy));
  again = copy;
  EXPECT_OK(MPI_Errhandler_free(&handler));
  EXPECT_OK(MPI_Errhandler_free(&copy));
  for (int i = 0; i < 3; ++i) {
    copy = again;
    EXPECT_CLASS(MPI_Errhandler_free(&copy), MPI_ERR_ERRHANDLER);
    EXPECT_EQ(calls, 3 + i);
  }
  EXPECT_CLASS(MPI_Send(NULL, 0, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  EXPECT_EQ(calls, 6);
  EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &copy));
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, copy));
  EXPECT_OK(MPI_Errhandler_free(&copy));
  EXPECT_CLASS(MPI_Send(NULL, 0, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  EXPECT_EQ(calls, 7);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  types();
  keys();
  handlers();
  return end();
}
