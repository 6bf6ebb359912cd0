#pragma once
// LocalHost: ranks as processes of this machine.
//
// All ranks, and what they start, are one process group led by a guardian: a process that does
// nothing but wait for this process's end, and then kills the group. So nothing outlives it, even
// if it is killed with SIGKILL. The guardian is reaped last, so the group's number cannot come to
// mean another group.
#include <signal.h>

#include <map>

#include "job/weftrun/host.hpp"

namespace weft::weftrun {

// What the kernel has just refused, and why (errno).
Status system_error(std::string_view what);

class LocalHost final : public Host {
 public:
  // mask: the signal mask that ranks start with.
  LocalHost(HostEvents& events, const sigset_t& mask) : events_(events), mask_(mask) {}
  ~LocalHost() override;
  LocalHost(const LocalHost&) = delete;
  LocalHost& operator=(const LocalHost&) = delete;

  Status start(const Assignment& assignment) override;
  void add_polls(std::vector<pollfd>& polls) override;
  void serve() override;
  void signal(int number) override;
  std::size_t input_room() const override;
  void give_input(std::string_view bytes) override;
  void end_input() override;

  // Bytes of the input that rank 0 has not taken yet.
  std::size_t input_left() const { return input_.size(); }

 private:
  struct Rank {
    pid_t pid = -1;
    bool running = false;
    int out = -1, err = -1;
  };

  Status start_guardian();
  Status start_rank(int rank, std::size_t place);
  [[noreturn]] void become_rank(int rank, std::size_t place, int in, int out, int err);
  void choose_cores();
  void read_output(int rank, Stream stream, int& fd);
  void write_input();
  void reap();

  HostEvents& events_;
  const sigset_t mask_;
  Assignment assignment_;
  std::map<int, Rank> ranks_;
  std::vector<std::vector<int>> cpus_;  // by place in assignment_.ranks; empty: not bound
  pid_t guardian_ = -1;
  int guardian_pipe_ = -1;
  int input_source_ = -1;  // the end rank 0 reads from, until it has started
  int input_sink_ = -1;
  bool input_ended_ = false;
  std::string input_;
};

}  // namespace weft::weftrun
