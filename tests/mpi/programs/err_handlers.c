// Error handlers: predefined and user's, set, got, inherited, called; error classes and strings;
// user-defined classes and codes.
#include "expect.h"

static int calls = 0, last_code = 0;
static MPI_Comm last_comm;

static void handler(MPI_Comm* comm, int* code, ...) {
  calls++;
  last_code = *code;
  last_comm = *comm;
}

static int second_calls = 0;
static void second(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  second_calls++;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Errhandler mine, other, got;
  MPI_Comm copy, half;
  int value = 0, class;
  EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
  EXPECT(got == MPI_ERRORS_ARE_FATAL);
  EXPECT_OK(MPI_Comm_create_errhandler(handler, &mine));
  EXPECT_OK(MPI_Comm_create_errhandler(second, &other));
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
  EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
  EXPECT(got == mine);
  EXPECT_OK(MPI_Errhandler_free(&got));

  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  EXPECT_EQ(calls, 1);
  EXPECT_OK(MPI_Error_class(last_code, &class));
  EXPECT_EQ(class, MPI_ERR_RANK);
  EXPECT(last_comm == MPI_COMM_WORLD);

  // A duplicate inherits it; a change of one is none of the other.
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, other));
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, copy), MPI_ERR_RANK);
  EXPECT_EQ(calls, 2);
  EXPECT(last_comm == copy);
  EXPECT_EQ(second_calls, 0);
  MPI_Comm_split(copy, rank % 2, rank, &half);
  EXPECT_CLASS(MPI_Bcast(&value, 1, MPI_INT, -9, half), MPI_ERR_ROOT);
  EXPECT_EQ(calls, 3);
  // Freed while set: it lives until nothing uses it.
  EXPECT_OK(MPI_Errhandler_free(&mine));
  EXPECT(mine == MPI_ERRHANDLER_NULL);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, copy), MPI_ERR_RANK);
  EXPECT_EQ(calls, 4);
  EXPECT_OK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(last_code, MPI_ERR_OTHER);
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  EXPECT_EQ(second_calls, 1);
  MPI_Errhandler_free(&other);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
  EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  EXPECT_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
  EXPECT(got == MPI_ERRORS_RETURN);
  EXPECT_OK(MPI_Errhandler_free(&got));

  // Every class has a string of its own, and is its own class.
  static const int classes[] = {
      MPI_SUCCESS,        MPI_ERR_BUFFER,     MPI_ERR_COUNT,
      MPI_ERR_TYPE,       MPI_ERR_TAG,        MPI_ERR_COMM,
      MPI_ERR_RANK,       MPI_ERR_REQUEST,    MPI_ERR_ROOT,
      MPI_ERR_GROUP,      MPI_ERR_OP,         MPI_ERR_DIMS,
      MPI_ERR_ARG,        MPI_ERR_OTHER,      MPI_ERR_INTERN,
      MPI_ERR_TOPOLOGY,   MPI_ERR_TRUNCATE,   MPI_ERR_UNKNOWN,
      MPI_ERR_IN_STATUS,  MPI_ERR_PENDING,    MPI_ERR_KEYVAL,
      MPI_ERR_NO_MEM,     MPI_ERR_INFO_KEY,   MPI_ERR_INFO,
      MPI_ERR_INFO_VALUE, MPI_ERR_INFO_NOKEY, MPI_ERR_SPAWN,
      MPI_ERR_WIN,        MPI_ERR_FILE,       MPI_ERR_UNSUPPORTED_OPERATION};
  enum { kNumClasses = sizeof classes / sizeof classes[0] };
  static char texts[kNumClasses][MPI_MAX_ERROR_STRING];
  for (int i = 0; i < kNumClasses; ++i) {
    int length = -1;
    EXPECT_OK(MPI_Error_class(classes[i], &class));
    EXPECT_EQ(class, classes[i]);
    EXPECT_OK(MPI_Error_string(classes[i], texts[i], &length));
    EXPECT(length > 0 && length < MPI_MAX_ERROR_STRING);
    EXPECT_EQ(strlen(texts[i]), length);
    for (int k = 0; k < i; ++k) EXPECT(strcmp(texts[i], texts[k]) != 0);
  }

  // The program's own.
  int own_class, own_code, *last, flag, length;
  char text[MPI_MAX_ERROR_STRING];
  EXPECT_OK(MPI_Add_error_class(&own_class));
  EXPECT(own_class > MPI_ERR_LASTCODE);
  EXPECT_OK(MPI_Add_error_code(own_class, &own_code));
  EXPECT_OK(MPI_Add_error_string(own_class, "a class of mine"));
  EXPECT_OK(MPI_Add_error_string(own_code, "a code of mine"));
  EXPECT_OK(MPI_Error_class(own_code, &class));
  EXPECT_EQ(class, own_class);
  EXPECT_OK(MPI_Error_string(own_code, text, &length));
  EXPECT(strcmp(text, "a code of mine") == 0);
  EXPECT_OK(MPI_Error_string(own_class, text, &length));
  EXPECT(strcmp(text, "a class of mine") == 0);
  EXPECT_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
  EXPECT(flag);
  if (!kMpich) EXPECT(*last >= own_code);  // there the largest class
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  // They go again: the string, the code, and then the class that no code names any more.
  EXPECT_CLASS(MPI_Remove_error_class(own_class), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Remove_error_code(own_code), MPI_ERR_ARG);
  EXPECT_OK(MPI_Remove_error_string(own_code));
  EXPECT_OK(MPI_Error_string(own_code, text, &length));
  EXPECT(length == 0 && text[0] == 0);
  EXPECT_OK(MPI_Remove_error_code(own_code));
  EXPECT_CLASS(MPI_Error_class(own_code, &class), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Remove_error_class(own_class), MPI_ERR_ARG);
  EXPECT_OK(MPI_Remove_error_string(own_class));
  EXPECT_OK(MPI_Remove_error_class(own_class));
  EXPECT_CLASS(MPI_Error_class(own_class, &class), MPI_ERR_ARG);
  EXPECT_CLASS(MPI_Remove_error_class(MPI_ERR_OTHER), MPI_ERR_ARG);
#endif
  return end();
}
