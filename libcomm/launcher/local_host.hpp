#pragma once
// LocalHost: ranks as processes of this machine.
//
// A supervisor (supervisor.hpp) starts and ends them, so that nothing they start outlives this
// process, however it ends.
#include <signal.h>

#include <map>

#include "launcher/crash/desk.hpp"
#include "launcher/host.hpp"

namespace weft::weftrun {

// The error of a call that the kernel has just refused (errno).
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
  void inspect(int number, bool with_places) override;
  bool is_waiting() override;
  std::size_t input_room() const override;
  void give_input(std::string_view bytes) override;
  void end_input() override;
  void stop_reading(Stream stream) override;

  // Bytes of the input that rank 0 has not taken yet.
  std::size_t input_left() const { return input_.size(); }

 private:
  struct Rank {
    pid_t pid = -1;
    bool running = false;
    int out = -1, err = -1;
  };

  Status start_supervisor(int input);
  Status start_rank(std::size_t place);
  Status bind_ranks();
  void read_output(int rank, Stream stream, int& fd);
  void close_output(int rank, Stream stream, int& fd);
  // Reads what is there, and closes it.
  void drain(int rank, Stream stream, int& fd);
  void write_input();
  void take_crashes();
  void take_reports();
  void take_supervisor_end();
  void end(int rank, int wait_status);

  HostEvents& events_;
  const sigset_t mask_;
  Assignment assignment_;
  std::map<int, Rank> ranks_;
  Watch watch_;
  Desk desk_;
  std::vector<Processors> processors_;  // by place in assignment_.ranks; empty: not bound
  pid_t supervisor_parent_ = -1;
  int supervisor_ = -1;  // the socket to it, while it lives
  int input_sink_ = -1;
  bool input_ended_ = false;
  std::string input_;
  std::vector<char> buffer_ = std::vector<char>(64u << 10);
};

}  // namespace weft::weftrun
