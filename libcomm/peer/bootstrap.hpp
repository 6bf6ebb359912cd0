#pragma once
// Bootstrap: the sockets by which Nodes meet, over TCP or Unix sockets, and which they keep
// afterwards: a kept socket that the peer's kernel closes is a peer that has ended (one that was
// reset over TCP says nothing), and over a Unix socket descriptors travel. One socket serves all
// fabrics.
//
// Nothing here blocks, and everything is bounded: at most kMaxHalfOpen unauthenticated peers at a
// time, each for kHandshakeMs; the oldest is dropped when another comes.
//
// Without a secret only processes of the same user are accepted, over Unix sockets.
//
// Threads: one at a time.
//
// Tests: tests/peer/peer_test.cpp.

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/os/descriptor.hpp"
#include "peer/handshake.hpp"
#include "peer/resolver.hpp"

namespace weft::peer {

inline constexpr std::size_t kMaxHalfOpen = 64;
inline constexpr std::uint64_t kHandshakeMs = 5000;
inline constexpr std::size_t kMaxUnsentBytes = 256 << 10;

class Connection {
 public:
  void* client = nullptr;
  bool is_unix() const { return is_unix_; }
  const NodeAddress& theirs() const { return handshake_->theirs(); }
  const Bytes16& cookie() const { return handshake_->cookie(); }

 private:
  friend class Bootstrap;
  enum class State { resolving, connecting, shaking_hands, met };
  struct Unsent {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<Descriptor> descriptors;
  };

  Descriptor fd_;  // resolving: the lookup's
  bool is_unix_ = false;
  bool connects_ = false;
  bool wants_write_ = false;
  State state_ = State::connecting;
  std::uint64_t deadline_ns_ = 0;
  std::string target_;  // for messages
  std::shared_ptr<Lookup> lookup_;
  std::unique_ptr<Handshake> handshake_;
  FrameReader reader_;
  std::deque<Descriptor> received_;  // in the order of the frames that name them
  std::deque<Unsent> unsent_;
  std::size_t unsent_bytes_ = 0;
  Status failure_;  // ok: none
};

class Bootstrap {
 public:
  class Events {
   public:
    // Handshake done, by either side. False: the connection is closed.
    virtual bool on_met(Connection& connection, bool connected_here) = 0;
    // connect() did not succeed; the connection is freed afterwards.
    virtual void on_failed(Connection& connection, const Status& status) = 0;
    // Takes the descriptors over: sets those it keeps to -1, the others are closed. False: the
    // frame is not valid; the connection ends as broken.
    virtual bool on_frame(Connection& connection, FrameType type, std::string_view body,
                          std::span<int> descriptors) = 0;
    // Freed afterwards. peer_lost: by the peer's end; timed_out: by the network; else see its text.
    virtual void on_end(Connection& connection, const Status& why) = 0;

   protected:
    ~Events() = default;
  };

  // own: the address that handshakes send; bootstraps are added by listen(). silence_ms: how long a
  // peer's machine may be silent.
  Bootstrap(const Secret& secret, NodeAddress own, int silence_ms = 60'000);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;

  NodeAddress& own() { return own_; }
  const NodeAddress& own() const { return own_; }

  // "host:port" (port 0: any), "unix:/path" or "unix:@abstract". A path without a listening process
  // is replaced; the path is removed in the end.
  Status listen(std::string_view address);
  // Begins to connect; on_met() or on_failed() follows, in poll().
  Status connect(std::string_view address, std::uint64_t deadline_ns, void* client);
  // Queues a frame. again: the peer has not read the last 256 KiB. Descriptors are duplicated.
  Status send(Connection& connection, FrameType type, std::string_view body,
              std::span<const int> descriptors = {});
  void close(Connection& connection);

  // Makes progress; costs one system call if there is nothing to do.
  bool poll(Events& events);
  // Readable when poll() has something to do; deadlines aside.
  int wait_fd() const { return epoll_.get(); }

 private:
  struct Listener {
    Descriptor fd;
    bool is_unix;
    std::string path;  // to remove
    std::uint64_t paused_until_ns;
  };

  Status add(std::unique_ptr<Connection> connection, std::uint32_t events);
  bool watch(Connection& connection, std::uint32_t events, int operation);
  bool watch(Listener& listener);
  void want_room(Connection& connection, bool wants);
  Status begin(Connection& connection, const SocketAddress& address);
  Status go_on_to(Connection& connection);
  void accept_all(Listener& listener);
  void advance(Events& events, Connection& connection, std::uint32_t ready);
  void read_frames(Events& events, Connection& connection);
  void flush(Connection& connection);
  static void fail(Connection& connection, Status status) {
    connection.failure_ = std::move(status);
  }
  void end_failed(Events& events, Connection& connection);
  void expire(Events& events);
  void log_refused(const std::string& who, const std::string& why, bool is_short);
  bool may_meet(const Connection& connection) const;

  Secret secret_;
  NodeAddress own_;
  const int silence_ms_;
  Descriptor epoll_;
  Resolver resolver_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<std::string, std::uint64_t> refused_ns_;       // what was logged of whom, and when
  std::vector<std::unique_ptr<Connection>> connections_;  // shaking hands, in order of arrival
  std::vector<std::unique_ptr<Connection>> met_;
  std::vector<std::unique_ptr<Connection>> dropped_;  // freed once poll() is done with them
};

}  // namespace weft::peer
