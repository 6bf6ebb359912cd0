#pragma once
// Link: a leader's sockets and its Leader. A Port leads to the switch, and is read by the
// thread that waits for a result; one to the other leaders, read by a thread of its own, so that
// those who ask for a result are answered while this process computes. That thread also renews the
// group's lease, and moves on what is left to it: an operation that nobody waits for yet.
// Everything else is called by one thread at a time.
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

  // no_memory, not_found: no socket to be had, or no way to the switch.
  Status open(const innet::Address& tor);
  // What a query says of this leader's port.
  innet::HostPort host_port() const { return port_->host_port(); }
  // Where other leaders reach this one.
  innet::Address address() const { return own_; }
  // The other leaders' addresses, this one's among them.
  void set_leaders(std::vector<innet::Address> leaders);

  // Enrolment, to be advanced until it is over.
  Enrolment& enrolment() noexcept { return enrolment_; }
  void advance_enrolment();
  // Leaves the enrolment, or the operation that was begun, to this object's thread until it is over
  // (the operation: done, or the hosts' to do). Then is_alone() is false, and `wake` is called by
  // that thread. Until then nothing else of this object may be called but is_alone(), state(),
  // silent_leaders() and take_back(), after which that thread does no more for it.
  void leave_alone(void (*wake)(void*) noexcept, void* argument);
  void take_back();
  bool is_alone() const noexcept { return alone_.load(std::memory_order_acquire); }
  // From here on packets are the Leader's.
  void start(const LeaderOptions& options, std::uint64_t lease_ns);
  // So many operations have begun, whether this leader had sockets then or not.
  void number_from(std::uint32_t operations);
  // Ends the group, if there is one: the switch is told, and waited for a moment.
  void stop();

  void begin(innet::Element element, innet::Operation operation,
             std::span<const std::byte> contribution);
  // Reads what is there and repeats what is due; where the operation stands.
  Leader::State advance();
  Leader::State state();
  // Sleeps until something of the switch is there, at most so long.
  void sleep(int timeout_ms);
  void finish(std::span<const std::byte> result);
  // Of the last operation; valid until the next begin().
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
  void wake_thread() noexcept;
  void read_control();
  template <class Take>
  void read_switch(Take&& take);

  std::unique_ptr<Port> port_;
  int control_fd_ = -1, wake_fd_ = -1;
  std::atomic<bool> stopping_{false};
  // Changes under mutex_; release by who leaves and who ends, acquire by the other.
  std::atomic<bool> alone_{false};
  void (*wake_)(void*) noexcept = nullptr;  // these under mutex_
  void* wake_argument_ = nullptr;
  innet::Address own_;
  std::vector<innet::Address> leaders_;
  Enrolment enrolment_{*this};
  std::mutex mutex_;
  Leader leader_{*this};          // under mutex_, but for what only the owner's calls change
  std::uint64_t lease_ns_ = 0;    // under mutex_; 0: no group
  std::uint64_t renewed_ns_ = 0;  // under mutex_
  void count();
  stats::Slot stats_;  // under mutex_
  LeaderCounters counted_;
  std::thread thread_;
};

}  // namespace weft::offload
