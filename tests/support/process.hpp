#pragma once
// A program under test: started, watched and ended within deadlines. One thread.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::testing {

class Process {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // `environment` is added to this process's own, without WEFT_ variables. `input` is its standard
  // input, at most what a pipe holds.
  explicit Process(const std::vector<std::string>& command, const Environment& environment = {},
                   std::string_view input = {});
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

  // Reads until standard output has this many whole lines. False if it ends or time runs out first.
  bool wait_for_lines(int num_lines, int timeout_ms = 20000);
  void signal(int number) const;
  // Reads both outputs to their end and waits for the exit: the exit code, 128 + signal, or -1 if
  // it does not end in time.
  int wait(int timeout_ms = 20000);

 private:
  bool read_some(int timeout_ms);

  pid_t pid_ = -1;
  int out_pipe_ = -1, err_pipe_ = -1;
  std::string out_, err_;
};

// True once the process is gone or only waits to be reaped, whoever its parent is.
bool ends_within(pid_t pid, int timeout_ms);

}  // namespace weft::testing
