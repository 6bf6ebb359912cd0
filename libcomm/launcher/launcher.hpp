#pragma once
// Launcher: one job, on this machine and others, from the first process to the exit status. One
// thread. Processes are started and ended by the hosts (host.hpp); the consequences of a death or
// an exit for the job are decided here.
//
// Tests: tests/job/weftrun_test.cpp, tests/job/hosts_test.cpp, tests/job/ends_test.cpp.
#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/rendezvous_server.hpp"
#include "launcher/hang/inspector.hpp"
#include "launcher/host.hpp"
#include "launcher/options.hpp"
#include "launcher/output.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

inline constexpr int kMissingStatus = 127;  // the program is not there: as a shell

class Launcher final : public HostEvents, rendezvous::Spawner {
 public:
  // Ranks start with the signal mask.
  Launcher(const Options& options, const sigset_t& mask);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Starts all ranks. On an error some may run; the destructor ends them.
  Status start();
  // Serves the job until its end; the exit status for weftrun.
  int run();
  // After run(): the job has failed because a rank or a host was lost, and not because the user
  // ended it, or all that it could print to.
  bool has_lost_ranks() const { return lost_ranks_ && num_stop_signals_ == 0 && !reader_is_gone_; }

 private:
  struct Rank {
    pid_t pid = -1;
    int host = 0;
    bool running = true;
    bool out_open = true, err_open = true;
    std::unique_ptr<Lines> out, err;
    std::string core_file;  // of one that has crashed: where it goes
  };
  struct Exit {
    int rank;
    int wait_status;
  };
  // Another weftrun, which was started for a rank.
  struct Child {
    pid_t pid = -1;
    bool running = true;
    int exit_status = 0;
    bool is_known = false;  // the rank has been notified of its end
  };

  // HostEvents
  void bound(int rank, std::string_view processors) override;
  void started(int rank, pid_t pid) override;
  void wrote(int rank, Stream stream, std::string_view bytes) override;
  void closed(int rank, Stream stream) override;
  void crashed(const Crash& crash) override;
  void exited(int rank, int wait_status) override;
  void lost(int host, const Status& why) override;
  void inspected(int number, int rank, const Seen& seen) override {
    inspector_.inspected(number, rank, seen);
  }
  void all_inspected(int number) override { inspector_.all_inspected(number); }
  void said(const std::string& text) override { say(text); }
  bool has_room() override { return !stdout_.full() && !stderr_.full(); }

  // Spawner
  Status spawn(std::vector<std::string> environment, std::vector<std::string> words,
               int& id) override;
  Status check(int id, bool give_up) override;

  Status take_signals_over();
  Status place();
  void display_map();
  Status open_outputs();
  void write_file(int rank, Stream stream, std::string_view bytes);
  std::string name_of_host(std::size_t host) const;
  Status listen();
  Status start_host(std::size_t host, Assignment assignment);
  Status agent_command(const std::string& host, std::vector<std::string>& command) const;
  std::vector<std::string> rendezvous_for(std::size_t host) const;
  bool is_local(std::size_t host) const;
  bool valid(int rank) const { return rank >= 0 && rank < options_.num_ranks; }
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void serve_ranks();
  void wait_for_something();
  void take_signals();
  void stop_with_terminal();
  void report_crashes();
  void judge_exits();
  void judge(const Exit& exit);
  void take_lost_visitors();
  void take_abort_request();
  bool holds_abort_of(int rank) const;
  void check_deadlines();
  RankView::State state_of(int rank) const;
  void tell(const Inspector::Findings& findings);
  void end_by_timeout(const std::vector<RankView>& views);
  void check_joined();
  void end_job();
  void signal_all(int number);
  void signal_hosts(int number);
  void reap_children();
  std::string name_server() const;
  void write_output();
  void forward_input();
  void say(const std::string& text);
  void fail(int exit_status);
  int num_running() const;
  bool has_children() const;
  bool outputs_open() const;
  std::vector<int> running_ranks() const;

  const Options options_;
  std::unique_ptr<rendezvous::Server> server_;
  std::string key_;
  std::string launch_;              // the launch command, with {host}
  std::string address_;             // where the server listens; empty: everywhere
  std::vector<HostEntry> entries_;  // the hosts that have ranks
  std::vector<std::vector<int>> placed_;
  std::vector<Rank> ranks_;
  std::vector<Exit> exits_;     // not judged yet
  std::vector<Crash> crashes_;  // not reported yet
  CrashReports crash_reports_;
  std::vector<Child> children_;
  Sink stdout_{1}, stderr_{2};
  // One sink if both are the same file, so that a line of one is not cut by a line of the other.
  Sink& errors_ = same_place(1, 2) ? stdout_ : stderr_;
  std::optional<RankFiles> files_;  // --output-filename
  std::vector<std::unique_ptr<Host>> hosts_;
  int signals_ = -1;
  const sigset_t old_mask_;

  // Standard input is inherited by rank 0, but a terminal's is copied, as a background process
  // group may not read from it, and that for another host.
  Host* input_host_ = nullptr;  // gets the copy, until the input has ended
  bool input_is_terminal_ = false;

  std::optional<int> exit_status_;  // of the first failure
  bool ending_ = false;
  bool killed_ = false;
  bool lost_ranks_ = false;      // before the job was ended
  bool reader_is_gone_ = false;  // of an output
  int num_stop_signals_ = 0;
  std::uint64_t kill_at_ns_ = UINT64_MAX;
  std::uint64_t timeout_at_ns_ = UINT64_MAX;
  std::uint64_t answer_at_ns_ = UINT64_MAX;  // when every host must have answered
  std::uint64_t abort_at_ns_ = UINT64_MAX;   // when a rank's wish to end the job is granted
  std::uint64_t judge_at_ns_ = UINT64_MAX;   // when early ends count as they are
  std::uint64_t drain_until_ns_ = UINT64_MAX;
  Inspector inspector_{hosts_, [this](int rank) { return state_of(rank); }};
  std::map<int, std::uint64_t> silent_at_ns_;  // when a host whose agent is gone counts as lost
};

}  // namespace weft::weftrun
