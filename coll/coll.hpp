#pragma once
// Collectives over tagged messages and, inside a host, over shared memory. Clients: MPI and the
// subsystems. Data are bytes; a reduction brings its own function. Every call blocks until this
// rank's part is done, and must be made by all members in the same order; one thread at a time per
// Team. Each returns one of these codes:
//  ok
//  peer_lost      a member died, left or gave up
//  timed_out      a leader of a collective through switches lives, but does not answer
//                 (coll/offload)
//  no_memory
//  not_permitted  the kernel refused a direct copy between two members (coll/shm/direct.cpp)
//  others         of a message, as in tagged/request.hpp, such as truncated if the members' lengths
//                 do not match
// After peer_lost and timed_out the Team is unusable, and after a no_memory that ended a call in
// its middle (is_out_of_memory()).
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coll/plan/plan.hpp"
#include "coll/select/counts.hpp"
#include "coll/select/selection.hpp"
#include "coll/switch/numbers.hpp"
#include "tagged/engine.hpp"
#include "weft/status.hpp"

namespace weft::offload {
class Offload;
}

namespace weft::coll {

// An element-wise operation: inout[i] = in[i] op inout[i], the order of MPI_User_function.
struct Reduction {
  void (*apply)(const void* in, void* inout, std::size_t count, void* argument);
  void* argument = nullptr;
  std::size_t element_bytes = 1;
  bool commutative = true;  // associative always, up to rounding
  // For switches that compute, where element_bytes may be those of several; none: no switch can.
  innet::Element element = innet::Element::none;
  innet::Operation operation = innet::Operation::none;
};

// For a client whose members agree among themselves how a loss affects the call they are in: polled
// in the waits of its team's calls, besides the check for lost members.
class Interrupt {
 public:
  // Returns true if another member has given the call up.
  virtual bool is_raised() noexcept = 0;

 protected:
  ~Interrupt() = default;
};

class NetworkBcasts;
class Notices;
class ShmTeam;  // flags and slots shared by the members of one host; made at first use
struct ShmSegment;
class Hosts;  // the members by host, if they are on several hosts of which some have more than one

// The tag of notices, among a team's messages; the tags of calls are 1 + their Collective.
inline constexpr std::int32_t kNoticeTag = 1 + static_cast<std::int32_t>(kNumCollectives);

// The most messages of a call under way at a time, in calls that could start more.
inline constexpr std::size_t kMostUnderWay = 16;

// The members of a collective, in order, and their shared resources.
class Team {
 public:
  // members: world ranks in team order; context: for the team's own messages, used by nothing else.
  // interrupt: null for none. Does not communicate.
  Team(tagged::Engine& engine, std::span<const int> members, std::uint32_t context,
       Interrupt* interrupt = nullptr);
  ~Team();
  // Only before the first call: sets other members, no more than before, and another context.
  // Allocates no memory.
  void assign(std::span<const int> members, std::uint32_t context) noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  int world(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  tagged::Engine& engine() noexcept { return engine_; }
  std::uint32_t context() const noexcept { return context_; }
  // Returns true if all members are processes of one host.
  bool is_local() const noexcept { return is_local_; }
  // The hosts of the members; null: one host, or every member is on a host of its own.
  Hosts* hosts() noexcept { return hosts_used_ ? hosts_.get() : nullptr; }
  // The shared segment, made by the members together at first use; null, on every member alike, if
  // it cannot be made.
  ShmTeam* shm() { return shm_tried_ ? shm_ : make_shm(); }

  // The path through switches that compute; null: the settings want none. Persistent calls have an
  // Offload of their own, as the order of their starts is independent of that of other calls.
  enum class Calls { usual, persistent };
  offload::Offload* offload(Calls calls = Calls::usual) {
    offload::Offload* made = offloads_[static_cast<std::size_t>(calls)].get();
    return made != nullptr || !wants_offload_ ? made : make_offload(calls);
  }
  // Broadcasts that the network copies; null: the settings want none.
  NetworkBcasts* network_bcasts() noexcept { return network_bcasts_.get(); }
  // Disables switches for this team, whatever the settings say.
  void keep_to_hosts() noexcept { wants_offload_ = false; }
  // Makes a team of some of the members, by world rank, for calls inside those of `parent`: in its
  // context, broken when `parent` is, and without switches.
  static std::unique_ptr<Team> part_of(Team& parent, std::span<const int> members);
  // Collective; called before the end of a team that the members leave at different times.
  void close_offload();

  // Counts the calls; not those of a team whose calls are parts of another team's, nor of one
  // member.
  const CallCounts& counts() const noexcept { return counts_; }

  // For the algorithms.
  const Choices& choices() const noexcept { return choices_; }
  // Memory for one call, aligned to a cache line; the next call of scratch() may move it. Null: out
  // of memory.
  std::byte* scratch(std::size_t bytes);
  // Allocates that memory for later calls. Returns false if out of memory.
  bool make_scratch(std::size_t bytes);
  // The plan of the call under way, and a request for each of its steps.
  Plan& plan() noexcept { return plan_; }
  std::unique_ptr<tagged::Request>* plan_requests(std::size_t num) {
    if (plan_requests_.size() < num) plan_requests_.resize(num);
    return plan_requests_.data();
  }
  // Returns true once a member is known to be lost (or to have left) or the client is interrupted:
  // no collective can work any more.
  bool is_broken() noexcept {
    return (engine_.num_lost() != lost_seen_ && check_for_lost()) || is_given_up();
  }
  // Returns true if a member has notified this one that it gave up, or this one has given up, or
  // the client is interrupted.
  bool is_given_up() noexcept;
  // Ends the call under way, and all later ones, with peer_lost, at once and at this member alone.
  // Any thread may call it, also for the parent of the team of the call.
  void interrupt() noexcept;
  bool is_interrupted() const noexcept;
  // Called if this member cannot go on in a call that the others are in: notifies them, as they may
  // wait for it without knowing of a loss elsewhere.
  void give_up() noexcept;
  // Null: all members see each other's loss by themselves.
  Notices* notices() noexcept {
    return parent_ != nullptr ? parent_->notices_used() : notices_used();
  }
  // For the middle of a call, when out of memory: waits a moment and returns true if there may be
  // memory now. Calls of a team made by part_of() or Hosts, whose parent's first messages are sent,
  // wait so for up to ten seconds; others return no_memory before their first message.
  bool wait_for_memory(std::uint64_t& since_ns) noexcept;
  // Returns true if a part of this team waited for memory in vain.
  bool is_out_of_memory() const noexcept { return out_of_memory_; }
  // The time that a call under way goes on once the team is broken, see LossDeadline.
  std::uint64_t grace_ns() noexcept;
  // Keeps a request that cannot be cancelled until the engine is done with it.
  void abandon(std::unique_ptr<tagged::Request> request);
  // Returns a request for a message of this team, never null: waits while out of memory, as the
  // others are in the same call.
  std::unique_ptr<tagged::Request> take_request();
  void give_back(std::unique_ptr<tagged::Request> request) noexcept;
  // After a call that failed: blocks until the engine is done with all requests left behind, so
  // that the caller's buffers may be used again. The others must be in the same call or in
  // wait_for_abandoned().
  void wait_for_abandoned();

 private:
  friend class Hosts;
  // Makes a team for at most `most` members of `parent`, broken when that is. assign() sets them.
  Team(Team& parent, std::size_t most);
  void assign(std::span<const int> members, std::uint32_t context, int rank) noexcept;
  void replace(int rank, int world) noexcept { members_[static_cast<std::size_t>(rank)] = world; }
  // Has the engine keep a request that is not complete.
  void keep(std::unique_ptr<tagged::Request> request) noexcept;
  Notices* notices_used() noexcept { return notices_used_ ? notices_.get() : nullptr; }
  void make_requests();

  ShmTeam* make_shm();
  offload::Offload* make_offload(Calls calls);
  bool check_for_lost() noexcept;

  tagged::Engine& engine_;
  std::vector<int> members_;
  std::uint32_t context_ = 0;
  std::atomic<Interrupt*> interrupt_;  // relaxed; of a part of a team: the parent's counts
  Team* parent_ = nullptr;             // the team that this is a part of
  CallCounts counts_;                  // beside what else each call reads
  int rank_ = 0;
  bool is_local_ = false;
  bool hosts_used_ = false;
  bool notices_used_ = false;
  bool out_of_memory_ = false;
  bool shm_tried_ = false;
  bool wants_offload_ = false;
  std::array<std::unique_ptr<offload::Offload>, 2> offloads_;  // by Calls
  std::unique_ptr<NetworkBcasts> network_bcasts_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<Notices> notices_;
  std::unique_ptr<ShmSegment> segment_;
  ShmTeam* shm_ = nullptr;  // in segment_
  Choices choices_;
  std::uint32_t lost_seen_ = 0;
  std::size_t scratch_bytes_ = 0;
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> scratch_;
  Plan plan_;
  std::vector<std::unique_ptr<tagged::Request>> plan_requests_;  // null between calls
  std::vector<std::unique_ptr<tagged::Request>> abandoned_;
  // Requests kept for the next call.
  std::array<std::unique_ptr<tagged::Request>, kMostUnderWay> requests_;
};

// Counts and displacements are bytes, but for reductions elements of the operation. In-place forms:
// where MPI allows MPI_IN_PLACE the caller passes null for the send buffer (scatter, scatterv: null
// for the root's receive buffer). A caller that has nothing to send, but means no in-place form,
// passes not_null(). Buffers that are not significant by MPI's rules (receive of reduce
// outside the root) may be null.
inline const void* not_null(const void* data) noexcept {
  static const char nothing = 0;
  return data == nullptr ? &nothing : data;
}
Status barrier(Team& team);
Status bcast(Team& team, void* data, std::size_t bytes, int root);
Status reduce(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op,
              int root);
Status allreduce(Team& team, const void* send, void* receive, std::size_t count,
                 const Reduction& op);
Status reduce_scatter(Team& team, const void* send, void* receive, const std::size_t* counts,
                      const Reduction& op);
Status scan(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op);
Status exscan(Team& team, const void* send, void* receive, std::size_t count, const Reduction& op);
Status gather(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status scatter(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status allgather(Team& team, const void* send, void* receive, std::size_t bytes);
Status alltoall(Team& team, const void* send, void* receive, std::size_t bytes);
Status gatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
               const std::size_t* counts, const std::ptrdiff_t* displacements, int root);
Status scatterv(Team& team, const void* send, const std::size_t* counts,
                const std::ptrdiff_t* displacements, void* receive, std::size_t receive_bytes,
                int root);
Status allgatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
                  const std::size_t* counts, const std::ptrdiff_t* displacements);
Status alltoallv(Team& team, const void* send, const std::size_t* send_counts,
                 const std::ptrdiff_t* send_displacements, void* receive,
                 const std::size_t* receive_counts, const std::ptrdiff_t* receive_displacements);

}  // namespace weft::coll
