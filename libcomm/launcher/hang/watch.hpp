#pragma once
// Watch: what the ranks of this machine wait for, read from the files of their processes
// (base/blocked.hpp), whatever they do. One thread.
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/blocked.hpp"
#include "launcher/hang/why.hpp"

namespace weft::weftrun {

// How one rank was seen.
struct Seen {
  bool is_readable = false;             // it has joined a job
  bool is_stopped = false;              // by a signal
  std::optional<blocked::Found> found;  // what it waits for
  std::string place;                    // in the program; empty: unknown, or not asked for
};

RankView view_of(int rank, const Seen& seen);

// Between two looks at Watch::all_wait().
inline constexpr int kLookMs = 500;

class Watch {
 public:
  void add(int rank, pid_t pid) { ranks_[rank] = {pid}; }
  void remove(int rank) { ranks_.erase(rank); }
  Seen look(int rank, bool with_place);
  // True if every rank has waited for that long and none is stopped. Cheap where one does not.
  bool all_wait(std::uint64_t ns);

 private:
  struct Rank {
    pid_t pid = -1;
    blocked::Reader reader = {};
    std::uint64_t try_at_ns = 0, pause_ns = 0;  // of the search for its file
  };
  bool open(Rank& rank, bool at_once);
  std::optional<blocked::Found> read(const Rank& rank) const;

  std::map<int, Rank> ranks_;
};

// "solve (solve.c:41)" of an address in a file; empty: it is not known. Reads the file, for at
// most a second, and remembers its answers.
std::string place_of(const blocked::Record& record);

}  // namespace weft::weftrun
