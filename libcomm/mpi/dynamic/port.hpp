#pragma once
// Port: accepts connections of processes of other jobs (MPI 5.0 section 11.9.2), over the sockets
// and the handshake of peer/bootstrap.hpp. A port's name contains its addresses and a secret of its
// own, which a connecting process must know.
//
// Threads: any thread may call any function, with a Watch of its own.
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "mpi/dynamic/introduction.hpp"
#include "peer/bootstrap.hpp"

namespace weft::mpi {

class Port final : peer::Bootstrap::Events {
 public:
  // Polled by accept() and connect() while they wait: ok, or the reason to give up.
  class Watch {
   public:
    virtual Status check() = 0;

   protected:
    ~Watch() = default;
  };

  // Opens a port that listens. no_memory or not_permitted if it cannot.
  static Status open(std::unique_ptr<Port>& port);
  ~Port();
  const std::string& name() const noexcept { return name_; }

  // Waits for a process to connect. timeout_ms: -1 waits until `watch` ends it.
  Status accept(Watch& watch, int timeout_ms, std::unique_ptr<Pipe>& pipe);
  // Connects to the port of this name. bad_argument: this is no port's name; timed_out: no process
  // accepts in time; not_found: the port is not there.
  static Status connect(std::string_view name, int timeout_ms, Watch& watch,
                        std::unique_ptr<Pipe>& pipe);

 private:
  struct Visit;
  class Line;
  explicit Port(std::string_view secret);

  bool on_met(peer::Connection& connection, bool connected_here) override;
  void on_failed(peer::Connection& connection, const Status& status) override;
  bool on_frame(peer::Connection& connection, peer::FrameType type, std::string_view body,
                std::span<int> descriptors) override;
  void on_end(peer::Connection& connection, const Status& why) override;

  void poll();
  // Pauses between two polls, and makes progress of all other communication.
  void pause() const;
  Status take(std::unique_ptr<Pipe>& pipe, bool connected_here);

  std::mutex mutex_;  // guards all below
  peer::Bootstrap bootstrap_;
  std::vector<std::shared_ptr<Visit>> visits_;  // established, and not taken
  std::size_t num_failed_ = 0;
  Status failure_;  // the last
  std::string name_;
};

}  // namespace weft::mpi
