#pragma once
// Spawn: starting more processes, as a job of their own, beside a running one. The launcher does so
// where it can; else weftrun is started for it, on this machine.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/status.hpp"

namespace weft {

// The programs to start, and how.
struct SpawnRequest {
  struct Program {
    int num = 1;
    std::vector<std::string> command;
  };
  std::vector<Program> programs;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string folder;  // where the processes start; empty: where the launcher is
  std::string path;    // where programs are looked for first; empty: as usual
  std::string hosts;   // as weftrun's --hosts; empty: the launcher chooses
};

// A started job, for callers that wait for a message from it.
class Spawned {
 public:
  virtual ~Spawned() = default;
  // ok: it runs, as far as is known; else the reason why it will not.
  virtual Status check() = 0;
  // The callers do not wait for it any more; a launcher ends it.
  virtual void give_up() {}
};

// weftrun's options for it, without its own name and without the environment, which may have
// secrets that are not for command lines. bad_argument: weftrun could not take them.
Status weftrun_words(const SpawnRequest& request, std::vector<std::string>& words);
// Starts weftrun, which is installed beside this library or in PATH, in the background. not_found:
// there is none.
Status start_weftrun(const SpawnRequest& request, std::unique_ptr<Spawned>& spawned);

}  // namespace weft
