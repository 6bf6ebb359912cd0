// Info objects.
#include "expect.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Info info, copy;
  int flag, n, length;
  char value[MPI_MAX_INFO_VAL + 1], key[MPI_MAX_INFO_KEY + 1];
  EXPECT_OK(MPI_Info_create(&info));
  EXPECT_OK(MPI_Info_get_nkeys(info, &n));
  EXPECT_EQ(n, 0);
  EXPECT_OK(MPI_Info_set(info, "colour", "red"));
  EXPECT_OK(MPI_Info_set(info, "width", "10"));
  EXPECT_OK(MPI_Info_set(info, "height", "20"));
  EXPECT_OK(MPI_Info_set(info, "width", "a longer one"));
  EXPECT_OK(MPI_Info_get_nkeys(info, &n));
  EXPECT_EQ(n, 3);
  EXPECT_OK(MPI_Info_get(info, "width", MPI_MAX_INFO_VAL, value, &flag));
  EXPECT(flag && strcmp(value, "a longer one") == 0);
  if (!kMpich) {  // where this is an error
    memset(value, 'x', sizeof value);
    EXPECT_OK(MPI_Info_get(info, "width", 4, value, &flag));  // cut to four characters
    EXPECT(flag && strcmp(value, "a lo") == 0 && value[5] == 'x');
  }
  EXPECT_OK(MPI_Info_get(info, "depth", MPI_MAX_INFO_VAL, value, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Info_get_valuelen(info, "width", &length, &flag));
  EXPECT(flag && length == 12);
  EXPECT_OK(MPI_Info_get_valuelen(info, "depth", &length, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(MPI_Info_dup(info, &copy));
  EXPECT_OK(MPI_Info_delete(info, "colour"));
  EXPECT_CLASS(MPI_Info_delete(info, "colour"), MPI_ERR_INFO_NOKEY);
  EXPECT_OK(MPI_Info_get_nkeys(copy, &n));
  EXPECT_EQ(n, 3);
  int seen = 0;
  for (int i = 0; i < n; ++i) {
    EXPECT_OK(MPI_Info_get_nthkey(copy, i, key));
    seen |= strcmp(key, "colour") == 0 ? 1 : strcmp(key, "width") == 0 ? 2 : 4;
  }
  EXPECT_EQ(seen, 7);
#if MPI_VERSION >= 4
  int room = 4;
  EXPECT_OK(MPI_Info_get_string(copy, "colour", &room, value, &flag));
  EXPECT(flag && room == 4 && strcmp(value, "red") == 0);
  room = 2;  // with its terminator: one character
  EXPECT_OK(MPI_Info_get_string(copy, "colour", &room, value, &flag));
  EXPECT(flag && room == 4 && strcmp(value, "r") == 0);
  room = 0;
  EXPECT_OK(MPI_Info_get_string(copy, "colour", &room, value, &flag));
  EXPECT(flag && room == 4);
#endif
  if (!kOpenMpi) {
    EXPECT_CLASS(MPI_Info_get_nthkey(copy, 3, key), MPI_ERR_ARG);
    char long_key[MPI_MAX_INFO_KEY + 20];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = 0;
    EXPECT_CLASS(MPI_Info_set(info, long_key, "v"), MPI_ERR_INFO_KEY);
  }
  EXPECT_OK(MPI_Info_free(&info));
  EXPECT(info == MPI_INFO_NULL);
  EXPECT_OK(MPI_Info_free(&copy));
  return end();
}
