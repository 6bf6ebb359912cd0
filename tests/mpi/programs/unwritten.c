// Functions of the standard that are not written yet exist, and say so through the error handler.
#include "expect.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int fatal = argc > 1 && strcmp(argv[1], "fatal") == 0;
  if (!fatal) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  MPI_Comm children;
  EXPECT_CLASS(MPI_Comm_spawn("none", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                              MPI_ERRCODES_IGNORE),
               MPI_ERR_UNSUPPORTED_OPERATION);
  return end();
}
