#pragma once
// Port: where processes of other jobs meet this one (MPI 5.0 section 11.9.2), over the sockets and
// the handshake of peer/bootstrap.hpp. A port's name holds its addresses and a secret of its own,
// which whoever connects must know.
//
// Threads: any, each with a Call of its own.
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "mpi/dynamic/introduction.hpp"
#include "peer/bootstrap.hpp"

namespace weft::mpi {

class Port final : peer::Bootstrap::Events {
 public:
  // What a Call asks in its waits: ok, or why it is to be given up.
  class Watch {
   public:
    virtual Status check() = 0;

   protected:
    ~Watch() = default;
  };

  // One that listens. no_memory or not_permitted if it cannot.
  static Status open(std::unique_ptr<Port>& port);
  ~Port();
  const std::string& name() const noexcept { return name_; }

  // Waits for somebody to connect. timeout_ms: -1 for no end but what `watch` says.
  Status accept(Watch& watch, int timeout_ms, std::unique_ptr<Pipe>& pipe);
  // Connects to the port of this name, which is not one of this kind (bad_argument), has nobody
  // who accepts in time (timed_out), or is not there (not_found).
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
  // Between two looks; lets everything else here go on.
  void pause() const;
  Status take(std::unique_ptr<Pipe>& pipe, bool connected_here);

  std::mutex mutex_;  // for all below
  peer::Bootstrap bootstrap_;
  std::vector<std::shared_ptr<Visit>> visits_;  // met, and not taken
  std::size_t num_failed_ = 0;
  Status failure_;  // the last
  std::string name_;
};

}  // namespace weft::mpi
