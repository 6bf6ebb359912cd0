// weft-check PROGRAM...: runs an MPI program with the checking library loaded.
#include <errno.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/os/own_program.hpp"
#include "tools/cli/cli.hpp"

namespace {

// Returns the path of the library beside this command: installed, or in the build folder.
std::string library() {
  return weft::beside_own_program({"../lib/libweft_check.so", "libweft_check.so"});
}

}  // namespace

int main(int argc, char** argv) {
  weft::cli::Command app(
      "weft-check",
      "Runs an MPI program and reports what it does wrong with MPI, on standard error: types and\n"
      "counts that differ between ranks, buffers that overlap or change while they are used, what "
      "is\n"
      "never completed or freed. The exit status is then 66.\n\n"
      "  weftrun -n 4 weft-check ./program       the same as weftrun --check\n"
      "  mpirun -n 4 weft-check ./program        under any launcher");
  app.passes_rest();
  bool aborts = false;
  app.flag("--abort", aborts, "end the job at the first report");
  if (const auto status = app.parse(argc, argv)) return *status;
  const std::vector<std::string> words = app.rest();
  if (words.empty()) {
    fmt::print(stderr, "weft-check: which program? weft-check --help shows examples\n");
    return 2;
  }
  std::string preload = library();
  if (preload.empty()) {
    fmt::print(
        stderr,
        "weft-check: libweft_check.so is not beside this command: Weft is installed in part\n");
    return 1;
  }
  if (const char* before = getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
    preload.append(":").append(before);
  setenv("LD_PRELOAD", preload.c_str(), 1);
  if (aborts) setenv("WEFT_CHECK", "abort", 1);
  std::vector<char*> command;
  for (const std::string& word : words) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  execvp(command[0], command.data());
  fmt::print(stderr, "weft-check: cannot run {}: {}\n", command[0], strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
