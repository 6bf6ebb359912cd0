#pragma once
// Transport: the sessions of a Node, the endpoints that carry them, and the memory that peers may
// access. All progress happens in poll(), under the progress lock.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/os/descriptor.hpp"
#include "node/session.hpp"
#include "peer/bootstrap.hpp"

namespace weft::transport {

class Transport final : peer::Bootstrap::Events, fabric::Events {
 public:
  // Calls to the facade, under the progress lock and no other.
  class Events {
   public:
    virtual void on_connected(Session& session) = 0;
    virtual void on_lost(Session& session, const Status& why) = 0;
    virtual void on_message(Session& session, fabric::Bytes bytes) = 0;
    virtual void on_notify(Session& session, const std::array<std::uint8_t, 16>& tag) = 0;

   protected:
    ~Events() = default;
  };
  // The state of a connect, and its outcome.
  struct Connecting {
    bool is_done = false;
    Status status;
    std::shared_ptr<Session> session;
    // Private to the transport.
    std::uint64_t deadline_ns = 0;
    std::vector<std::string> candidates;  // addresses to try, the next last
    bool tried_unix = false;
    Status last_failure;
  };

  Transport(Events& events, const peer::Secret& secret, std::string name, std::uint64_t timeout_ns,
            std::vector<std::unique_ptr<fabric::Endpoint>> endpoints);
  ~Transport();

  // Callers of everything but poll() hold it; recursive, as events may call.
  std::recursive_mutex& progress_lock() { return progress_; }

  Status listen(std::string_view address);
  Status address(std::string& text);
  void connect(std::string_view address, std::uint64_t deadline_ns, std::shared_ptr<Connecting> to);
  // Ends the session in good order.
  void close(Session& session);
  // Sends every peer a goodbye and waits until they have acknowledged all messages.
  void close_all();
  // Ends all sessions and connects; only drop() may follow.
  void end();

  std::shared_ptr<Region> add_region(std::byte* address, std::size_t bytes, bool allocated);
  Status make_key(Region& region, std::uint32_t rights, std::uint64_t only, MemoryKey& key);
  // Withdraws the memory; is_free() returns true once no peer uses it any more.
  void withdraw(const std::shared_ptr<Region>& region);
  bool is_free(const Region& region) const { return region.num_users == 0; }
  void drop(const std::shared_ptr<Region>& region);
  fabric::Mapped* mapped();

  // Makes progress if no other thread does. True if anything happened.
  bool poll();
  // Before a sleep on wait_fd(). False: there is something to do.
  bool arm();
  int wait_fd() const { return epoll_.get(); }
  // The longest sleep allowed.
  int sleep_ms();
  std::uint64_t num_polls() const { return num_polls_.load(std::memory_order_relaxed); }

  std::uint64_t timeout_ns() const { return timeout_ns_; }
  std::uint64_t generation() const { return bootstrap_.own().generation; }

 private:
  friend class Session;

  bool on_met(peer::Connection& connection, bool connected_here) override;
  void on_failed(peer::Connection& connection, const Status& status) override;
  bool on_frame(peer::Connection& connection, peer::FrameType type, std::string_view body,
                std::span<int> descriptors) override;
  void on_end(peer::Connection& connection, const Status& why) override;
  bool on_incoming(fabric::Link& link, fabric::Bytes hello) override;
  void on_up(fabric::Link& link) override;
  void on_down(fabric::Link& link, Code why) override;
  void on_message(fabric::Link& link, fabric::Bytes bytes) override;

  // Runs f; without memory for it the session is lost.
  template <class F>
  static void guard(Session& session, F&& f) noexcept;
  static void add_candidates(Connecting& connecting, const peer::NodeAddress& theirs);
  bool meet(peer::Connection& connection, bool connected_here, std::shared_ptr<Session>& session);
  void try_next(std::shared_ptr<Connecting> connecting);
  void end_connecting(Connecting* connecting, Status status, std::shared_ptr<Session> session);
  std::shared_ptr<Connecting> find(void* connecting);
  Connecting* connecting_to(const Session& session);
  void note_connected(Session& session);
  void forget(Session& session);
  void tick();
  bool poll_endpoint(fabric::Endpoint& endpoint);
  void note_used(fabric::Endpoint& endpoint);
  void note_room(bool has_room);
  void take_turns(bool has_room);
  void put_rails_off();
  // Links have found no room lately: no rails, then.
  bool is_crowded() const { return is_crowded_ || now_ns_ < crowded_until_ns_; }
  // All endpoints of the same fabric.
  const std::vector<fabric::Endpoint*>& devices_of(const fabric::Endpoint& endpoint) const;

  Events& events_;
  peer::Bootstrap bootstrap_;
  const std::uint64_t timeout_ns_;
  std::vector<std::unique_ptr<fabric::Endpoint>> endpoints_;
  std::vector<std::vector<fabric::Endpoint*>> devices_;  // by fabric
  // The endpoints that sessions have links over: polled each time, the others now and then.
  std::vector<fabric::Endpoint*> used_;
  Descriptor epoll_;

  std::recursive_mutex progress_;
  bool in_poll_ = false;
  fabric::Endpoint* polled_ = nullptr;
  bool is_urgent_ = true;            // the next poll polls the sockets
  std::atomic<int> num_awaited_{0};  // connects and mappings, which come by sockets
  std::uint64_t now_ns_ = 0;         // of the last tick
  std::uint64_t last_tick_ns_ = 0, last_sockets_ns_ = 0;
  bool was_away_ = false;  // at the last tick
  bool is_crowded_ = false;
  std::uint64_t crowded_until_ns_ = 0;
  std::atomic<std::uint64_t> num_polls_{0};
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<std::shared_ptr<Session>> lost_;  // until the end of the poll
  std::vector<std::shared_ptr<Connecting>> connecting_;
  std::map<peer::Bytes16, Session*> by_cookie_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Region>> regions_;
  std::uint64_t last_region_ = 0;

  SpinLock busy_lock_;
  std::vector<std::shared_ptr<Session>> busy_;    // have something that waits for room
  std::vector<std::shared_ptr<Session>> pumped_;  // those of this poll
  std::atomic<bool> has_busy_{false};
};

}  // namespace weft::transport
