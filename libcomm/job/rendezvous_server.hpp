#pragma once
// The rendezvous server: a key-value board for the ranks of one job, over TCP. It runs inside
// weftrun, in weftrun's own loop, or inside rank 0, in a thread. One thread at a time.
//
// Foreign processes are refused: a connection must say hello with the job's key within a few
// seconds; anything else that it sends ends the connection and has no other effect. Nothing is
// logged here: a server that waits for the reader of its log could be stopped by foreign processes
// that fill it.
//
// Tests: tests/job/rendezvous_test.cpp, tests/fuzz/job_rendezvous.cpp.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/members.hpp"
#include "job/rendezvous_wire.hpp"
#include "weft/status.hpp"

namespace weft::rendezvous {

// Starts weftrun for ranks that ask for it.
class Spawner {
 public:
  virtual Status spawn(std::vector<std::string> environment, std::vector<std::string> words,
                       int& id) = 0;
  virtual Status check(int id, bool give_up) = 0;

 protected:
  ~Spawner() = default;
};

class Server {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // empty: every address of this machine
    std::uint16_t port = 0;          // 0: the kernel chooses
    int size = 1;
    std::string key;
    int hello_timeout_ms = 5000;
    int silence_ms = 60'000;  // of a client's machine, until its connection counts as broken
    // A rank whose connection broke is reported to waiting ranks after this time, unless mark_gone
    // reported its end, with the cause, before.
    int loss_grace_ms = 0;
    Spawner* spawner = nullptr;  // null: ranks must start things themselves
  };

  enum class RankState { absent, joined, left, lost };

  struct AbortRequest {
    int rank;
    int exit_code;
    std::string message;
  };

  // not_permitted or bad_argument with the address in the message.
  static Status listen(const Options& options, std::unique_ptr<Server>& server);
  ~Server();

  std::uint16_t port() const noexcept { return port_; }
  // Readable when serve() has something to do.
  int poll_fd() const noexcept { return epoll_; }
  // Milliseconds until serve() is due even if poll_fd() is quiet; -1 for never.
  int timeout_ms() const noexcept;
  // Handles everything that is ready. Never blocks.
  void serve();

  RankState state(int rank) const noexcept;
  // Reports to the ranks that wait, now or later, that this one will never come, and why.
  void mark_gone(int rank, std::string_view how);
  // The first rank's wish to end the job.
  const std::optional<AbortRequest>& abort_request() const noexcept { return abort_; }
  // The unidentified connections dropped since the last call, for the user; a short text, however
  // many they are.
  std::vector<std::string> take_notices();
  // no_memory once a rank may be kept out because this process can take no more connections.
  const Status& failure() const noexcept { return failure_; }
  // The visitors whose connection ended since the last call, by the number they gave.
  std::vector<int> take_lost_visitors() { return std::exchange(lost_visitors_, {}); }
  // No rank is connected.
  bool quiet() const noexcept;

 private:
  struct Connection;
  struct Rank {
    RankState state = RankState::absent;
    std::string gone;                  // how it went; empty while it may still come
    std::uint64_t gone_at_ns = 0;      // when a lost one counts as gone
    Connection* connection = nullptr;  // while joined
    bool at_fence = false;
    std::uint64_t fence_deadline_ns = 0;
    std::uint32_t fence_timeout_ms = 0;
  };

  // The ranks as one party of theirs.
  struct Group {
    std::vector<Rank> ranks;
    std::string pending;  // encoded (rank, key, value) of the next release
    std::uint32_t num_pending = 0;
  };

  explicit Server(const Options& options);
  Status bind_and_listen();
  int bound_socket(const std::string& host) const;
  void accept_all();
  void receive(Connection& connection);
  bool take_frames(Connection& connection);
  bool handle_hello(Connection& connection, std::string_view body);
  bool handle_visit(Connection& connection, std::string_view body);
  bool may_enter(Connection& connection, std::uint32_t version, std::string_view key);
  bool handle_names(Connection& connection, Type type, std::string_view body);
  bool handle_spawn(Connection& connection, Type type, std::string_view body);
  void answer(Connection& connection, const Status& status, std::string_view text = {});
  bool handle_fence(Connection& connection, std::string_view body);
  void send(Connection& connection, std::string_view frame);
  void flush(Connection& connection);
  void refuse(Connection& connection, std::string_view why);
  void drop(Connection& connection, std::string_view why);
  void watch_listener(bool watched);
  void limit_unidentified();
  bool drop_oldest_unidentified(std::size_t at_most);
  void note(std::string text);
  Group& group_of(const Connection& connection) noexcept;
  Rank& rank_of(const Connection& connection) noexcept;
  static void mark_gone(Group& group, int rank, std::string_view how);
  void resolve_fence(Group& group);
  void release(Group& group);
  void fail_fence(Group& group, Code code, std::string_view why);
  static std::string name_missing(const Group& group);

  const Options options_;
  int listener_ = -1;
  int epoll_ = -1;
  std::uint16_t port_ = 0;
  std::array<Group, kNumParties> groups_;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by file descriptor
  struct Published {
    std::string port;
    int by;  // the connection's descriptor
  };
  std::map<std::string, Published, std::less<>> names_;
  std::optional<AbortRequest> abort_;
  std::vector<int> lost_visitors_;
  bool watches_listener_ = true;
  Status failure_;
  std::vector<std::string> notices_;
  std::size_t num_noted_ = 0, num_unnoted_ = 0;  // until notes_until_ns_
  std::uint64_t notes_until_ns_ = 0;
  std::vector<char> buffer_ =
      std::vector<char>(64u << 10);  // for received bytes, not on small stacks
};

}  // namespace weft::rendezvous
