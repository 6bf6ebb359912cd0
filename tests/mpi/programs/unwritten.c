// Functions of the standard that are not written yet exist and say so: through the error handler
// while MPI runs, otherwise in ending the process.
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

typedef int (*Function)(void);
static const struct {
  const char* name;
  Function functions[2];
} kFunctions[] = {
#define WEFT_UNIMPLEMENTED(name) \
  {"MPI_" #name, {(Function)(void*)MPI_##name, (Function)(void*)PMPI_##name}},
#include "../../../libcomm/mpi/unimplemented_table.hpp"
};
enum { kNumFunctions = sizeof kFunctions / sizeof *kFunctions };

static int handled;
static void handler(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  handled += *code == MPI_ERR_UNSUPPORTED_OPERATION;
}

// Before MPI_Init or after MPI_Finalize, each in a process that it may end.
static void call_alone(int i, Function function) {
  int ends[2], status = -1;
  char text[300] = "", expected[200];
  ssize_t length = 0, more;
  if (pipe(ends) != 0) exit(3);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    (void)function();
    _exit(100);
  }
  close(ends[1]);
  while ((more = read(ends[0], text + length, sizeof text - 1 - length)) > 0) length += more;
  close(ends[0]);
  waitpid(child, &status, 0);
  snprintf(expected, sizeof expected, "%s: this function of MPI is not part of Weft yet",
           kFunctions[i].name);
  const int right = WIFEXITED(status) && WEXITSTATUS(status) == MPI_ERR_UNSUPPORTED_OPERATION &&
                    strstr(text, expected) != NULL;
  if (!right) failed(__FILE__, __LINE__, kFunctions[i].name);
}

static void call_all_alone(void) {
  fflush(stdout);  // or each child prints it once more
  for (int i = 0; i < kNumFunctions; ++i)
    for (int p = 0; p < 2; ++p) call_alone(i, kFunctions[i].functions[p]);
}

static void call_all(void) {
  MPI_Errhandler errhandler;
  MPI_Comm_create_errhandler(handler, &errhandler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, errhandler);
  MPI_Errhandler_free(&errhandler);
  for (int i = 0; i < kNumFunctions; ++i)
    for (int p = 0; p < 2; ++p) {
      const int before = handled, code = kFunctions[i].functions[p]();
      const int right = code == MPI_ERR_UNSUPPORTED_OPERATION && handled == before + 1;
      if (!right) failed(__FILE__, __LINE__, kFunctions[i].name);
    }
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "fatal") == 0) {
    begin(&argc, &argv);
    MPI_Comm children;
    MPI_Comm_spawn("none", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    return end();
  }
  call_all_alone();
  begin(&argc, &argv);
  call_all();
  MPI_Comm parent = MPI_COMM_WORLD;
  EXPECT_OK(MPI_Comm_get_parent(&parent));
  EXPECT(parent == MPI_COMM_NULL);
  // end() finalizes.
  const int failures = end();
  call_all_alone();
  return failures || num_failures ? 1 : 0;
}
