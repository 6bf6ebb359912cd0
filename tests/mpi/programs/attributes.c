// Attributes with keyvals: set, replaced, copied with a duplicate, deleted; callbacks that refuse;
// the predefined ones.
#include "expect.h"

static int copies, deletes, refuse_copy, refuse_delete;
static void* last_deleted;

static int copy(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm;
  (void)keyval;
  copies++;
  EXPECT(extra == (void*)&copies);
  if (refuse_copy == 2) return MPI_ERR_OTHER;
  *(void**)out = (char*)in + 1;
  *flag = !refuse_copy;
  return MPI_SUCCESS;
}

static int delete (MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm;
  (void)keyval;
  EXPECT(extra == (void*)&copies);
  deletes++;
  last_deleted = value;
  return refuse_delete ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int free_own(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm;
  (void)value;
  (void)extra;
  EXPECT_OK(MPI_Comm_free_keyval(&keyval));
  return MPI_SUCCESS;
}

static void* get(MPI_Comm comm, int keyval) {
  void* value = (void*)-1;
  int flag = -1;
  EXPECT_OK(MPI_Comm_get_attr(comm, keyval, &value, &flag));
  return flag ? value : NULL;
}

static int type_copies, type_deletes;

static int copy_of_type(MPI_Datatype type, int keyval, void* extra, void* in, void* out,
                        int* flag) {
  (void)type;
  (void)keyval;
  EXPECT(extra == (void*)&type_copies);
  type_copies++;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete_of_type(MPI_Datatype type, int keyval, void* value, void* extra) {
  (void)type;
  (void)keyval;
  EXPECT(extra == (void*)&type_copies);
  type_deletes++;
  last_deleted = value;
  return MPI_SUCCESS;
}

static void* get_of_type(MPI_Datatype type, int keyval) {
  void* value = (void*)-1;
  int flag = -1;
  EXPECT_OK(MPI_Type_get_attr(type, keyval, &value, &flag));
  return flag ? value : NULL;
}

// The same on datatypes.
static void types(void) {
  int key, dup_key, null_key;
  char place[10];
  MPI_Datatype type, second;
  EXPECT_OK(MPI_Type_create_keyval(copy_of_type, delete_of_type, &key, &type_copies));
  EXPECT_OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &dup_key, NULL));
  EXPECT_OK(
      MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &null_key, NULL));
  MPI_Type_contiguous(2, MPI_INT, &type);
  EXPECT(get_of_type(type, key) == NULL);
  EXPECT_OK(MPI_Type_set_attr(type, key, place));
  EXPECT_OK(MPI_Type_set_attr(type, dup_key, place + 5));
  EXPECT_OK(MPI_Type_set_attr(type, null_key, place + 6));
  EXPECT_OK(MPI_Type_set_attr(type, key, place + 1));
  EXPECT_EQ(type_deletes, 1);
  EXPECT(last_deleted == place);
  EXPECT_OK(MPI_Type_dup(type, &second));
  EXPECT_EQ(type_copies, 1);
  EXPECT(get_of_type(second, key) == place + 2);
  EXPECT(get_of_type(second, dup_key) == place + 5);
  EXPECT(get_of_type(second, null_key) == NULL);
  EXPECT_OK(MPI_Type_delete_attr(second, key));
  EXPECT_EQ(type_deletes, 2);
  EXPECT(last_deleted == place + 2);
  EXPECT(get_of_type(second, key) == NULL);
  EXPECT(get_of_type(type, key) == place + 1);
  MPI_Type_free(&second);
  EXPECT_EQ(type_deletes, 2);
  MPI_Type_free(&type);
  EXPECT_EQ(type_deletes, 3);
  EXPECT(last_deleted == place + 1);
  // Predefined types carry them as well.
  EXPECT_OK(MPI_Type_set_attr(MPI_INT, key, place + 7));
  EXPECT(get_of_type(MPI_INT, key) == place + 7);
  EXPECT(get_of_type(MPI_CHAR, key) == NULL);
  EXPECT_OK(MPI_Type_delete_attr(MPI_INT, key));
  EXPECT_EQ(type_deletes, 4);
  // A key is for one kind of objects.
  if (!kOpenMpi && !kMpich)
    EXPECT_CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, key, place), MPI_ERR_KEYVAL);
  EXPECT_OK(MPI_Type_free_keyval(&key));
  EXPECT_EQ(key, MPI_KEYVAL_INVALID);
  MPI_Type_free_keyval(&dup_key);
  MPI_Type_free_keyval(&null_key);
}

// By the names of MPI 1.
static void old_names(void) {
  int key, flag = -1;
  char place[2];
  void* value = NULL;
  EXPECT_OK(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &key, NULL));
  EXPECT_OK(MPI_Attr_put(MPI_COMM_SELF, key, place));
  EXPECT_OK(MPI_Attr_get(MPI_COMM_SELF, key, &value, &flag));
  EXPECT(flag && value == place);
  EXPECT_OK(MPI_Attr_delete(MPI_COMM_SELF, key));
  EXPECT_OK(MPI_Attr_get(MPI_COMM_SELF, key, &value, &flag));
  EXPECT(!flag);
  EXPECT_OK(MPI_Keyval_free(&key));
  EXPECT_EQ(key, MPI_KEYVAL_INVALID);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int key, null_key, dup_key;
  char place[10];
  MPI_Comm comm, second;
  EXPECT_OK(MPI_Comm_create_keyval(copy, delete, &key, &copies));
  EXPECT_OK(
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &null_key, NULL));
  EXPECT_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL));
  EXPECT(key != null_key && key != dup_key && key != MPI_KEYVAL_INVALID);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  EXPECT(get(comm, key) == NULL);
  EXPECT_OK(MPI_Comm_set_attr(comm, key, place));
  EXPECT_OK(MPI_Comm_set_attr(comm, null_key, place + 4));
  EXPECT_OK(MPI_Comm_set_attr(comm, dup_key, place + 5));
  EXPECT(get(comm, key) == place);
  EXPECT_EQ(deletes, 0);
  EXPECT_OK(MPI_Comm_set_attr(comm, key, place + 1));  // the old value is deleted first
  EXPECT_EQ(deletes, 1);
  EXPECT(last_deleted == place);

  MPI_Comm_dup(comm, &second);
  EXPECT_EQ(copies, 1);
  EXPECT(get(second, key) == place + 2);
  EXPECT(get(second, null_key) == NULL);
  EXPECT(get(second, dup_key) == place + 5);
  EXPECT_OK(MPI_Comm_delete_attr(second, key));
  EXPECT_EQ(deletes, 2);
  EXPECT(last_deleted == place + 2);
  EXPECT(get(second, key) == NULL);
  EXPECT(get(comm, key) == place + 1);
  MPI_Comm_free(&second);
  EXPECT_EQ(deletes, 2);

  refuse_copy = 1;
  MPI_Comm_dup(comm, &second);
  EXPECT_EQ(copies, 2);
  EXPECT(get(second, key) == NULL);
  MPI_Comm_free(&second);
  refuse_copy = 2;
  EXPECT(MPI_Comm_dup(comm, &second) != MPI_SUCCESS);
  refuse_copy = 0;
  // A split or a created communicator takes nothing along.
  MPI_Comm_split(comm, 0, rank, &second);
  EXPECT(get(second, dup_key) == NULL);
  MPI_Comm_free(&second);

  refuse_delete = 1;
  EXPECT(MPI_Comm_delete_attr(comm, key) != MPI_SUCCESS);
  refuse_delete = 0;
  EXPECT_OK(MPI_Comm_set_attr(comm, key, place + 3));

  // The keyval may be freed first: attributes keep it.
  EXPECT_OK(MPI_Comm_free_keyval(&key));
  EXPECT_EQ(key, MPI_KEYVAL_INVALID);
  deletes = 0;
  MPI_Comm_free(&comm);
  EXPECT_EQ(deletes, 1);
  MPI_Comm_free_keyval(&null_key);
  MPI_Comm_free_keyval(&dup_key);

  // A delete function may free its own key, though others have freed it; once it is unused, no
  // more.
  EXPECT_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_own, &key, NULL));
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  EXPECT_OK(MPI_Comm_set_attr(comm, key, place));
  EXPECT_OK(MPI_Comm_set_attr(second, key, place));
  MPI_Comm_free(&second);
  int same_key = key;
  EXPECT_OK(MPI_Comm_free_keyval(&same_key));
  same_key = key;
  if (!kOpenMpi) EXPECT_OK(MPI_Comm_free_keyval(&same_key));
  MPI_Comm_free(&comm);
  if (!kOpenMpi && !kMpich) EXPECT_CLASS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);

  types();
  old_names();

  // Predefined.
  int flag, *value;
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
  EXPECT(flag && *value >= 32767);
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag));
  EXPECT(!flag || *value == 0 || *value == 1);
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
  EXPECT(!flag || *value >= 1);
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));

  // On MPI_COMM_SELF deleted by MPI_Finalize, before anything else, last set first.
  EXPECT_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &key, &copies));
  deletes = 0;
  EXPECT_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, place));
  int status = end();
  return deletes == 1 ? status : 1;
}
