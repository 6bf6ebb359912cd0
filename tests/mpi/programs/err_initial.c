// The error handler that communicators have at first, as the launcher or the spawning processes
// have chosen it, and what MPI_INFO_ENV says of the start. Argument: that handler's name.
#include "expect.h"

static void expect_env(const char* key, const char* expected) {
  char value[MPI_MAX_INFO_VAL];
  int length = sizeof value, flag = 0;
  EXPECT_OK(MPI_Info_get_string(MPI_INFO_ENV, key, &length, value, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT(strcmp(value, expected) == 0);
}

int main(int argc, char** argv) {
  const char* name = argv[1];
  const MPI_Errhandler expected = strcmp(name, "mpi_errors_return") == 0  ? MPI_ERRORS_RETURN
                                  : strcmp(name, "mpi_errors_abort") == 0 ? MPI_ERRORS_ABORT
                                                                          : MPI_ERRORS_ARE_FATAL;
  if (expected == MPI_ERRORS_RETURN) EXPECT(MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS);
  EXPECT_OK(MPI_Init(&argc, &argv));
  learn_place();
  MPI_Comm parent;
  EXPECT_OK(MPI_Comm_get_parent(&parent));
  const int is_child = parent != MPI_COMM_NULL;
  const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, parent};
  for (int i = 0; i < 3; ++i) {
    MPI_Errhandler handler;
    if (comms[i] == MPI_COMM_NULL) continue;
    EXPECT_OK(MPI_Comm_get_errhandler(comms[i], &handler));
    EXPECT(handler == expected);
    if (expected == MPI_ERRORS_RETURN) EXPECT(MPI_Comm_size(MPI_COMM_NULL, &size) != MPI_SUCCESS);
  }
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char text[32];
  snprintf(text, sizeof text, "%d", size);
  expect_env("command", argv[0]);
  expect_env("argv", name);
  expect_env("maxprocs", text);
  expect_env("mpi_initial_errhandler", name);
  if (!is_child) {
    // Another one for the processes that this one spawns.
    char* arguments[] = {expected == MPI_ERRORS_RETURN ? "mpi_errors_abort" : "mpi_errors_return",
                         NULL};
    MPI_Info info;
    MPI_Comm children;
    EXPECT_OK(MPI_Info_create(&info));
    EXPECT_OK(MPI_Info_set(info, "mpi_initial_errhandler", arguments[0]));
    EXPECT_OK(MPI_Comm_spawn(argv[0], arguments, 2, info, 0, MPI_COMM_WORLD, &children,
                             MPI_ERRCODES_IGNORE));
    EXPECT_OK(MPI_Comm_disconnect(&children));
    EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    EXPECT_OK(MPI_Info_set(info, "mpi_initial_errhandler", "mpi_errors_ignore"));
    EXPECT(MPI_Comm_spawn(argv[0], arguments, 2, info, 0, MPI_COMM_WORLD, &children,
                          MPI_ERRCODES_IGNORE) != MPI_SUCCESS);
    EXPECT_OK(MPI_Info_free(&info));
  } else {
    EXPECT_OK(MPI_Comm_disconnect(&parent));
  }
  EXPECT_OK(MPI_Finalize());
  if (rank == 0 && !is_child && num_failures == 0) printf("as expected\n");
  return num_failures != 0;
}
