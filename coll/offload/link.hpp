#pragma once
// Link: a leader's sockets and its Leader. A Port leads to the switch, and is read by the thread
// that waits for a result; one more socket, to the other leaders, is read by a thread of this
// object's, so that leaders that ask for a result are answered while this process computes. That
// thread also renews the group's lease, and advances an operation that is left to it, for which no
// caller waits yet. Everything else is called by one thread at a time.
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "base/stats.hpp"
#include "coll/offload/enrolment.hpp"
#include "coll/offload/leader.hpp"
#include "coll/offload/port.hpp"
#include "weft/status.hpp"

namespace weft::offload {

class Link final : private Leader::Wire, private Enrolment::Wire {
 public:
  Link() = default;
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // no_memory, not_found: no socket, or no route to the switch.
  Status open(const innet::Address& tor);
  // This leader's port, as a query reports it.
  innet::HostPort host_port() const { return port_->host_port(); }
  // The address at which other leaders reach this one.
  innet::Address address() const { return own_; }
  // Sets the leaders' addresses, this one's among them.
  void set_leaders(std::vector<innet::Address> leaders);

  // The enrolment, to be advanced until it is over.
  Enrolment& enrolment() noexcept { return enrolment_; }
  void advance_enrolment();
  // Leaves the enrolment, or the operation that was begun, to this object's thread until it is over
  // (the operation: done, or the hosts' to do). Then is_alone() is false, and the thread calls
  // `wake`. Until then only is_alone(), state(), silent_leaders() and take_back() may be called;
  // after take_back() the thread does no more for it.
  void leave_alone(void (*wake)(void*) noexcept, void* argument);
  void take_back();
  bool is_alone() const noexcept { return alone_.load(std::memory_order_acquire); }
  // From here on packets are handled by the Leader.
  void start(const LeaderOptions& options, std::uint64_t lease_ns);
  // While the switch is out of use: asks it twice a second whether it is there, until it has
  // answered (then is_found()), or an enrolment begins. num_levels: an answer without a switch that
  // answers at the highest of so many levels counts for none.
  void seek(std::size_t num_levels);
  bool is_found();
  void end_seeking();
  // Sets the number of operations begun so far, whether or not this leader had sockets then.
  void number_from(std::uint32_t operations);
  // Ends the group, if there is one: notifies the switch, and waits a moment for its reply.
  void stop();

  void begin(innet::Element element, innet::Operation operation,
             std::span<const std::byte> contribution);
  // Reads the packets that have arrived and repeats those that are due; returns the operation's
  // state.
  Leader::State advance();
  Leader::State state();
  // Sleeps until a packet of the switch is there, at most so long.
  void sleep(int timeout_ms);
  void finish(std::span<const std::byte> result);
  // The last operation's data; valid until the next begin().
  std::span<const std::byte> result() const noexcept { return leader_.result(); }
  std::span<const std::byte> contribution() const noexcept { return leader_.contribution(); }
  bool is_frozen();
  innet::Answer last_refusal();
  std::vector<int> silent_leaders();
  LeaderCounters counters();

 private:
  void to_switch(std::span<const std::byte> packet) override;
  void to_leader(int leader, std::span<const std::byte> packet) override;
  void serve();
  Leader::State advance_locked();
  bool advance_alone();
  void on_switch(std::span<const std::byte> packet);
  void ask_whether_there();
  void wake_thread() noexcept;
  void read_control();
  template <class Take>
  void read_switch(Take&& take);

  std::unique_ptr<Port> port_;
  int control_fd_ = -1, wake_fd_ = -1;
  int family_ = 0;  // of the former
  std::atomic<bool> stopping_{false};
  // Changes under mutex_; release by the thread that changes it, acquire by the other.
  std::atomic<bool> alone_{false};
  void (*wake_)(void*) noexcept = nullptr;  // both under mutex_
  void* wake_argument_ = nullptr;
  innet::Address own_;
  std::vector<innet::Address> leaders_;
  Enrolment enrolment_{*this};
  std::mutex mutex_;
  Leader leader_{*this};          // under mutex_, except for what only the owner's calls change
  std::uint64_t lease_ns_ = 0;    // under mutex_; 0: no group
  std::uint64_t renewed_ns_ = 0;  // under mutex_
  enum class Seeking { no, yes, found };
  Seeking seeking_ = Seeking::no;  // under mutex_, as what follows
  std::size_t num_levels_ = 1;
  std::uint64_t sought_ns_ = 0, seek_key_ = 0;
  void count();
  stats::Slot stats_;  // under mutex_
  LeaderCounters counted_;
  std::thread thread_;
};

}  // namespace weft::offload
