#pragma once
// Offload: a Team's collectives through switches that compute. One for each team that may use them;
// it exchanges data with the other members at the first call. All members make the same calls in
// the same order, which take turns: a leader's group handles one at a time.
//
// The members of a node (or socket) reduce among themselves; their leader goes through the switch
// with the other leaders, and broadcasts the result to them. When the switch cannot, the leaders
// compute the same sums in the same order by messages, so the result does not depend on the switch.
//
// Threads: those of the Team. Calls in the background (Background) may be advanced by any thread,
// one at a time; the call whose turn it is uses this object exclusively.
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coll/coll.hpp"
#include "coll/offload/call.hpp"
#include "coll/offload/choice/trials.hpp"
#include "coll/offload/negotiation.hpp"

namespace weft::offload {

// The most bytes of a vector that a leader holds at a time; longer vectors go piece by piece.
inline constexpr std::size_t kPieceBytes = 1 << 20;
// The size of the head before the data that a leader broadcasts: a Code, so that its members get
// its failure.
inline constexpr std::size_t kStatusBytes = 16;

class Offload {
 public:
  // Does not communicate; made only if the settings want switches.
  explicit Offload(coll::Team& team);
  ~Offload();
  // Before the first call: the switches take all that they can, as with WEFT_OFFLOAD_WHEN=force.
  void force() noexcept { forced_ = true; }

  // Returns false once it is known that the switches do not take the call.
  bool may_take(const Call& call) noexcept { return !is_made() || takes(call, decision(call)); }
  // Has the log say that calls of a kind that is none of a Call's stay with the hosts.
  void say_left() noexcept { say(Refusal::kind, {}); }
  // Blocking. Returns true, on all members alike, if the switches take this call: it then has the
  // turn, and run() follows. Every call asks, in the team's order.
  bool enter(const Call& call);
  // Returns true if the call that enter() was asked about is one of a trial: its time is noted.
  bool is_trial() const noexcept { return is_trial_; }
  void note_time(const Call& call, bool by_switch, std::uint64_t time_ns) noexcept {
    trials(call).note(call.bytes(), by_switch, time_ns);
  }
  // Besides the codes of messages returns timed_out if a leader that lives does not answer another
  // for too long.
  Status run(const Call& call);

  // Returns true if this leader's last operation has left it with a usable switch. Between calls.
  bool has_group() noexcept { return link_ != nullptr && !link_->is_frozen(); }

  // Collective, before the team's end: no member leaves while another may ask it for the last
  // result. False: a call in the background still uses this object, as a member is lost.
  bool close();

 private:
  friend class Background;

  // A member's location, exchanged before anything else.
  struct MemberLocation {
    Location location;
    std::int32_t is_known = 0;
  };

  // Turns are in the order of the calls.
  std::uint64_t take_turn() noexcept { return next_turn_.fetch_add(1, std::memory_order_relaxed); }
  bool is_turn(std::uint64_t turn) const noexcept {
    return turn_.load(std::memory_order_acquire) == turn;  // with pass_turn()
  }
  void pass_turn() noexcept;
  bool is_made() const noexcept { return made_.load(std::memory_order_acquire); }

  MemberLocation own_location() const;
  void arrange(const std::vector<MemberLocation>& all);
  void use(const Negotiation& negotiation);
  // Why a call stays with the hosts.
  enum class Refusal : std::uint8_t { none, kind, own, element, parts, undefined, order, switches };
  Refusal refusal(const coll::Reduction& op) const noexcept;
  // Logs the reason, once each; of all members the first does.
  void say(Refusal why, const coll::Reduction& op) noexcept;
  // `decided`: the way that trials have found at the time of the call; none: they have not yet, and
  // a model guesses.
  bool takes(const Call& call, std::optional<bool> decided) noexcept;
  Trials& trials(const Call& call) noexcept {
    return trials_[static_cast<std::size_t>(call.collective)];
  }
  std::optional<bool> decision(const Call& call) noexcept {
    const Trials& known = trials(call);
    return known.is_decided(call.bytes()) ? std::optional(known.is_by_switch(call.bytes()))
                                          : std::nullopt;
  }
  // Returns true if blocking calls like this one go the way that is faster, as measured. Not where
  // bits depend on the way and are to be the same in every run.
  bool measures(const Call& call) const noexcept;
  bool choose(const Call& call);
  bool is_leader() const noexcept { return node_rank_ == 0; }
  coll::Group node_group() const noexcept {
    return {node_rank_, static_cast<int>(node_members_.size()), node_members_.data()};
  }
  coll::Group leader_group() const noexcept {
    return {leader_rank_, static_cast<int>(leader_members_.size()), leader_members_.data()};
  }
  // Counts a leader's operation and returns true, if the switches can do it.
  bool count_operation(const coll::Reduction& op) noexcept;
  // After an operation that the hosts computed: returns true if the leaders look whether the switch
  // can be asked again, by a negotiation that begins with ready(). The same on all leaders.
  bool is_time_to_look() const noexcept { return operation_ >= next_look_; }
  Ready ready();
  // While other leaders are asked: timed_out if one that lives does not answer for too long.
  Status overdue(std::uint64_t& asked_ns);

  Status make();
  Status negotiate(const Ready* ready = nullptr);
  Status piece(const Call& call, std::size_t first, std::size_t count);
  Status lead(std::span<std::byte> data, const coll::Reduction& op);
  Status wait_for_leaders();
  void step();

  coll::Team& team_;
  Mode mode_ = Mode::off;
  std::atomic<std::uint64_t> next_turn_{0}, turn_{0};
  std::atomic<bool> made_{false};
  std::atomic<bool> broken_{false};  // a call in the background ended before its turn
  bool usable_ = false;              // all locations are known
  Terms terms_;
  std::vector<int> node_members_,
      leader_members_;  // ranks of the team: this leader's group, and all leaders
  int node_rank_ = 0, leader_rank_ = -1;
  std::unique_ptr<coll::Team> node_;     // the members with this one's leader
  std::unique_ptr<coll::Team> leaders_;  // leaders only
  std::unique_ptr<Link> link_;           // leaders only
  int num_nodes_ = 1;
  int num_members_of_node_ = 1;  // the most
  bool forced_ = false;
  std::array<Trials, coll::kNumCollectives> trials_;  // changed by blocking calls alone
  bool is_trial_ = false;                             // likewise
  std::unique_ptr<coll::Team> everyone_;              // adds up their times
  std::optional<Lengths> lengths_;      // the lengths that the settings give to the switch
  std::atomic<std::uint32_t> said_{0};  // a bit for each Refusal
  // The capabilities of the switches of the last group: other operations do not go to them. All
  // bits before the first, so that leaders count the same operations with and without a group.
  std::uint32_t elements_ = ~0u, operations_ = ~0u;
  std::uint32_t operation_ = 0;  // all leaders count alike
  // After a loss. A negotiation that fails doubles the wait.
  std::uint32_t next_look_ = 0;  // an operation
  std::uint32_t last_look_ = 0;
  std::uint64_t last_look_ns_ = 0, not_before_ns_ = 0, wait_ns_ = 0;
  std::size_t num_levels_ = 1;  // of switches, of the last group
  GroupName name_;
  SumOrder order_;                // of the leaders' sums
  std::vector<std::byte> block_;  // a status, and a piece of the vector
  std::vector<std::byte> given_;  // a piece of this member's vector, if put together
};

// The sums that the switches compute in ordered mode, by messages among the leaders: each adds up
// its part of the vector, or all of a short one. The output holds the contribution and takes the
// result; the plan's operation is a SumOp.
void write_sum_steps(coll::Plan& plan, const coll::Group& leaders, std::size_t count,
                     std::size_t unit, const SumOrder& order);
// An operation as the switches do it, bit by bit. Neither copied nor moved.
class SumOp {
 public:
  SumOp(innet::Element element, innet::Operation operation) noexcept;
  SumOp(const SumOp&) = delete;
  SumOp& operator=(const SumOp&) = delete;
  const coll::Reduction& reduction() const noexcept { return reduction_; }

 private:
  innet::ReduceFunction reduce_;
  coll::Reduction reduction_;
};

}  // namespace weft::offload
