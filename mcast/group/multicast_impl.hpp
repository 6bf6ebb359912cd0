#pragma once
// MulticastImpl: the Node, the connections and the thread that all groups of one Multicast share.
//
// Threads and locks. The Node's callbacks only append events to the inbox, under inbox_lock_ alone.
// The thread takes the events and advances groups under lock(); then it runs the program's
// callbacks without it.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "mcast/group/job_ranks.hpp"
#include "mcast/group/wire.hpp"
#include "weft/multicast.hpp"

namespace weft::mcast {

class GroupImpl;

using Clock = std::chrono::steady_clock;
using Bytes = std::span<const std::byte>;

// The connection to the member of one address. Guarded by the lock.
struct Connection {
  std::string address;
  std::string own;  // this member's address in the lists of members; for the side that connects
  Peer peer;        // empty: not connected
  bool is_connecting = false;
  Clock::time_point try_again{};
  Status last_failure{};
  std::set<GroupImpl*> groups;
  // Groups that have failed while they formed, before the member could be told, and until when it
  // may come.
  std::map<std::uint64_t, Clock::time_point> untold;
  bool has_untold(Clock::time_point now) const {
    return std::ranges::any_of(untold, [&](const auto& item) { return now < item.second; });
  }

  struct Unsent {
    std::vector<std::byte> bytes;
    std::unique_ptr<Operation> operation;  // for a message that Node::send does not copy
  };
  std::deque<Unsent> unsent;
};

class MulticastImpl {
 public:
  explicit MulticastImpl(const NodeSettings& settings);
  explicit MulticastImpl(transport::Job& job, const NodeSettings& settings);
  ~MulticastImpl();

  Node& node() { return *node_; }
  // The ranks of the job; empty: there is no job. Constant after construction.
  const std::vector<JobRank>& ranks() const { return ranks_; }
  int rank() const { return rank_; }
  std::mutex& lock() { return lock_; }
  std::condition_variable& changed() { return changed_; }
  bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Any thread, without the lock, as a group takes its handle before it is added. relaxed: handles
  // only have to differ.
  std::uint64_t next_handle() { return last_handle_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // The caller holds the lock.

  void add(std::shared_ptr<GroupImpl> group);
  void remove(GroupImpl& group);
  bool has(std::uint64_t group) const { return groups_.contains(group); }
  // Remembers a failed group, whose id cannot be used again: late members receive the reason.
  void note_failed(std::uint64_t group, const FailedMessage& message, std::string_view text);
  // nullptr: the group has not failed.
  const std::vector<std::byte>* failure_of(std::uint64_t group) const;
  // Returns the connection to this address, and starts connecting if this side does that.
  Connection& use(const std::string& own, const std::string& theirs, GroupImpl& group);
  // Tells the member why the group has failed: now, or once it is connected.
  void tell_failure(Connection& connection, std::uint64_t group, Clock::time_point until);
  void send(Connection& connection, Bytes head, Bytes body = {});
  // The thread calls the group's advance() until that has nothing to do.
  void make_active(GroupImpl& group);
  // The thread runs the functions in order, without the lock.
  void call(std::function<void()> function) { calls_.push_back(std::move(function)); }
  void wake();
  // Members on this host with groups, this one included.
  std::size_t num_local_members() const;

 private:
  struct Event {
    enum class Kind { peer, lost, message, notify, connected } kind;
    Peer peer;
    std::vector<std::byte> bytes = {};
    NotifyTag tag = {};
    Status status = {};
    std::string address = {};
  };
  struct Early {  // a hello for a group that this process has not made yet
    std::uint64_t generation, group;
    std::vector<std::byte> hello;
  };

  void post(Event event);
  bool take_events();
  void handle(Event& event);
  void on_message(const Peer& peer, Bytes bytes);
  void keep_early(const Early& early);
  void drop_early_of_group(std::uint64_t group);
  void drop_early_from(std::uint64_t generation);
  void on_lost(const Peer& peer, const Status& why);
  void bind(Connection& connection, const Peer& peer, bool opened_here);
  bool connect_some(Clock::time_point now);
  bool has_untold(Clock::time_point now) const;
  bool flush(Connection& connection);
  bool make_calls();
  void sleep();
  void run();

  std::unique_ptr<Node> node_;
  std::vector<JobRank> ranks_;
  int rank_ = -1;
  std::mutex lock_;
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Connection>> connections_;
  std::unordered_map<std::uint64_t, Connection*> by_generation_;
  std::unordered_map<std::uint64_t, std::shared_ptr<GroupImpl>> groups_;
  std::unordered_map<std::uint64_t, GroupImpl*> by_handle_;
  std::atomic<std::uint64_t> last_handle_{0};
  std::unordered_map<std::uint64_t, std::vector<std::byte>> failures_;
  std::deque<std::uint64_t> failed_ids_;  // oldest first
  std::list<Early> early_;                // oldest first
  std::unordered_map<std::uint64_t, std::deque<std::list<Early>::iterator>> early_of_;  // a group
  std::vector<std::shared_ptr<GroupImpl>> active_;
  std::vector<std::function<void()>> calls_;
  // Connections to be made, and those with unsent messages.
  std::set<Connection*> to_connect_, to_flush_;

  std::mutex inbox_lock_;
  std::vector<Event> inbox_;  // under inbox_lock_
  std::vector<Event> taken_;  // the thread's

  std::atomic<bool> stops_{false};
  int wake_pipe_[2] = {-1, -1};
  std::vector<pollfd> waits_;  // the thread's
  std::size_t num_cores_ = 1;
  Clock::time_point last_event_{};
  std::thread thread_;
};

}  // namespace weft::mcast
