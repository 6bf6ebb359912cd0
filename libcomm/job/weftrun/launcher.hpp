#pragma once
// Launcher: one job on this machine, from the first fork to the exit status. One thread.
//
// All ranks, and what they start, are one process group led by a guardian: a process that does
// nothing but wait for weftrun's end, and then kills the group. So nothing outlives weftrun, even
// if weftrun is killed with SIGKILL.
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/rendezvous_server.hpp"
#include "job/weftrun/options.hpp"
#include "job/weftrun/output.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

class Launcher {
 public:
  explicit Launcher(const Options& options);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Starts all ranks. On an error some may run; the destructor ends them.
  Status start();
  // Serves the job until its end; the exit status for weftrun.
  int run();

 private:
  struct Rank {
    pid_t pid = -1;
    bool running = false;
    std::unique_ptr<Source> out, err;
  };
  struct Exit {
    int rank;
    int wait_status;
  };

  Status start_guardian();
  Status open_stdin();
  Status start_rank(int rank);
  [[noreturn]] void become_rank(int rank, int in, int out, int err);
  void choose_cores();

  void wait_for_something();
  void take_signals();
  void stop_with_terminal();
  void reap();
  void judge(const Exit& exit);
  void take_abort_request();
  void check_deadlines();
  void end_job();
  void kill_group(int signal);
  void forward_stdin();
  void say(const std::string& text);
  void fail(int exit_status);
  int num_running() const;
  bool outputs_open() const;
  std::vector<int> running_ranks() const;

  const Options options_;
  std::unique_ptr<rendezvous::Server> server_;
  std::string key_;
  std::vector<std::vector<int>> cpus_;  // of each rank; empty: not bound
  std::vector<Rank> ranks_;
  Sink stdout_{1}, stderr_{2};
  pid_t guardian_ = -1;
  int guardian_pipe_ = -1;
  int signals_ = -1;
  sigset_t old_mask_{};

  // Standard input is inherited by rank 0, but a terminal's is copied: a background process group
  // may not read from it.
  int stdin_pipe_ = -1;  // the end rank 0 reads from, until it has started
  int stdin_sink_ = -1;
  bool stdin_open_ = false;
  std::string stdin_pending_;

  std::optional<int> exit_status_;  // of the first failure
  bool ending_ = false;
  bool killed_ = false;
  int num_stop_signals_ = 0;
  std::uint64_t kill_at_ns_ = UINT64_MAX;
  std::uint64_t timeout_at_ns_ = UINT64_MAX;
  std::uint64_t drain_until_ns_ = UINT64_MAX;
};

}  // namespace weft::weftrun
