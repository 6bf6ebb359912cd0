#pragma once
// RemoteHost: the ranks of another machine, run there by an agent (weftrun --serve-host) that a
// launch command starts, by default ssh. The agent ends all it has started when its standard input
// ends or when the rendezvous server is gone, so nothing outlives this process.
#include <cstdint>

#include "launcher/agent_wire.hpp"
#include "launcher/host.hpp"

namespace weft::weftrun {

class RemoteHost final : public Host {
 public:
  // number: the host's, for events_.lost. command: starts the agent.
  RemoteHost(HostEvents& events, int number, std::string name, std::vector<std::string> command,
             const sigset_t& mask);
  ~RemoteHost() override;
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  Status start(const Assignment& assignment) override;
  void add_polls(std::vector<pollfd>& polls) override;
  void serve() override;
  void signal(int number) override;
  void inspect(int number, bool with_places) override;
  bool is_waiting() override { return gone_ || is_waiting_; }
  std::size_t input_room() const override;
  void give_input(std::string_view bytes) override;
  void end_input() override;
  void stop_reading(Stream stream) override;
  // The agent may go; the destructor then waits for less.
  void finish() override;

  void silent() override;
  bool answered() const override { return greeted_; }

 private:
  void handle(const Channel::Received& message);
  void read_complaints();
  void take_end();
  void give_up(const Status& why);

  HostEvents& events_;
  const int number_;
  const std::string name_;
  const std::vector<std::string> command_;
  const sigset_t mask_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  Channel channel_;
  bool greeted_ = false;
  bool gone_ = false;
  bool is_waiting_ = false;  // as the agent has said
  std::size_t input_under_way_ = 0;
  std::string complaints_;  // an unfinished line of the launch command's standard error
  std::string last_complaint_;
};

}  // namespace weft::weftrun
