#include "tools/weft-check/report.hpp"

#include <fmt/core.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <tuple>

#include "tools/weft-check/program/place.hpp"

#pragma GCC visibility push(default)
#include "mpi.h"
#pragma GCC visibility pop

namespace weft::check {
namespace {

std::atomic<int> rank{-1};
std::atomic<bool> has_reported{false};
pid_t own_process = 0;  // a forked child says nothing
bool aborts = false;

// Runs at the very end, when the program's own functions of atexit have run.
void change_status(int status, void*) {
  if (status != 0 || !has_reported || getpid() != own_process) return;
  fflush(nullptr);
  _exit(kExitStatus);
}

void write_line(const std::string& line) {
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t length = write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (length <= 0) return;
    done += static_cast<std::size_t>(length);
  }
}

}  // namespace

void begin_reports() {
  const char* how = getenv("WEFT_CHECK");
  aborts = how != nullptr && std::string_view(how) == "abort";
  own_process = getpid();
  on_exit(change_status, nullptr);
}

void set_rank(int number) { rank = number; }
int this_rank() { return rank; }

std::string text_of(const Call& call) {
  const std::string place = place_of(call.caller);
  return place.empty() ? call.name : fmt::format("{} at {}", call.name, place);
}

void report(const Call& call, std::string_view kind, const std::string& text) {
  static std::mutex mutex;
  static std::set<std::tuple<std::string, const void*, std::string>> known;
  const std::lock_guard lock(mutex);
  if (getpid() != own_process || !known.emplace(call.name, call.caller, kind).second) return;
  has_reported = true;
  const std::string who = rank < 0 ? "" : fmt::format(" rank {}:", rank.load());
  write_line(fmt::format("weft-check:{} {}: {}\n", who, text_of(call), text));
  if (!aborts) return;
  int is_running = 0, is_over = 0;
  PMPI_Initialized(&is_running);
  PMPI_Finalized(&is_over);
  if (is_running != 0 && is_over == 0) PMPI_Abort(MPI_COMM_WORLD, kAbortStatus);
  _exit(kAbortStatus);
}

}  // namespace weft::check
