// weft-profile PROGRAM...: runs an MPI program with the profiling library loaded.
#include <errno.h>
#include <fmt/core.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/os/own_program.hpp"
#include "tools/cli/cli.hpp"

namespace {

// Returns the path of the library beside this command: installed, or in the build folder.
std::string library() {
  return weft::beside_own_program({"../lib/libweft_profile.so", "libweft_profile.so"});
}

}  // namespace

int main(int argc, char** argv) {
  weft::cli::Command app(
      "weft-profile",
      "Runs an MPI program and reports at its end what its calls have cost: by function and\n"
      "communicator their number, time and bytes, which algorithms collectives took, and which\n"
      "rank waited for which, on standard error.\n\n"
      "  weftrun -n 4 weft-profile ./program            the same as weftrun --profile\n"
      "  mpirun -n 4 weft-profile --out p ./program     under any launcher; p.json and p.svg, the\n"
      "                                                 messages and waits of ranks as a picture");
  app.passes_rest();
  std::string out;
  app.option("--out", out,
             "write PREFIX.json and PREFIX.svg too (who sent to whom, who waited for whom)")
      .value_name("PREFIX");
  if (const auto status = app.parse(argc, argv)) return *status;
  const std::vector<std::string> words = app.rest();
  if (words.empty()) {
    fmt::print(stderr, "weft-profile: which program? weft-profile --help shows examples\n");
    return 2;
  }
  std::string preload = library();
  if (preload.empty()) {
    fmt::print(stderr, "weft-profile: libweft_profile.so is not beside this command\n");
    return 1;
  }
  if (const char* before = getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
    preload.append(":").append(before);
  setenv("LD_PRELOAD", preload.c_str(), 1);
  if (!out.empty()) {
    const auto file = std::filesystem::absolute(out);
    if (access(file.parent_path().c_str(), W_OK | X_OK) != 0) {
      fmt::print(stderr, "weft-profile: --out {}: cannot write in {}: {}\n", out,
                 file.parent_path().string(), strerror(errno));
      return 2;
    }
    setenv("WEFT_PROFILE_OUT", file.c_str(), 1);
  }
  std::vector<char*> command;
  for (const std::string& word : words) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  execvp(command[0], command.data());
  fmt::print(stderr, "weft-profile: cannot run {}: {}\n", command[0], strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
