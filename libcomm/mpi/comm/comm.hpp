#pragma once
// Comm: a communicator. It has contexts of its own, two groups at most, and what programs attach to
// it.
//
// The fields up to `rank` are all that sending and receiving read. They and the groups are constant
// once the communicator has a handle; `mutex` guards the others, but for the attributes, which
// guard themselves.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "coll/coll.hpp"
#include "mpi/comm/channels.hpp"
#include "mpi/comm/context_ids.hpp"
#include "mpi/comm/group.hpp"
#include "mpi/core/attributes.hpp"
#include "mpi/core/call.hpp"
#include "mpi/core/errors.hpp"
#include "mpi/core/handle_table.hpp"
#include "mpi/core/info.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {

struct Session;
struct Topology;
struct Window;

struct Comm {
  const int* peers = nullptr;        // world ranks behind the ranks in send and receive calls
  std::atomic<int> num_peers{0};     // relaxed; 0 once revoked: no rank is valid any more
  bool identity = false;             // peers[i] == i, and there is one channel
  std::uint32_t context = 0;         // of its first channel; context + 1 is the team's
  Channels channels;                 // of point-to-point messages
  int rank = 0;                      // of this process, in the local group
  const Session* session = nullptr;  // the session it comes from, if any

  MPI_Comm handle = MPI_COMM_NULL;
  GroupPtr group;                              // the local group
  GroupPtr remote;                             // intercommunicators only
  std::optional<std::uint32_t> given_context;  // given out by this process, for this communicator
  std::array<std::uint32_t, 2> across_contexts{};  // its contexts, if it is across jobs
  std::unique_ptr<coll::Team> team;                // of the local group
  std::unique_ptr<coll::Notices> remote_notices;  // intercommunicators only: notices of both groups
  std::unique_ptr<Topology> topology;
  std::atomic<int> uses{1};  // the handle and pending requests
  // Relaxed: collectives do not go their usual way, between two groups or after a revocation.
  std::atomic<bool> is_special{false};
  std::atomic<bool> is_revoked{false};  // relaxed (mpi/ft/revoke.cpp)
  int num_acknowledged = 0;             // of its failed members, in order; under `mutex`
  // The window that has it for its own messages, and is revoked by it; under `mutex`.
  Window* window = nullptr;
  // Relaxed: that window, or its file, is not made yet, and revocations of it wait.
  std::atomic<bool> is_being_made{false};
  bool is_open = false;                     // in the list of those whose context is in use
  Comm *next = nullptr, *before = nullptr;  // in that list (comm.cpp)

  // Relaxed: of the last blocking collective with a root, for others to see (blocked.hpp).
  std::atomic<int> last_root{-1};
  // The number of collectives started in the background so far; each has a tag of its own.
  std::atomic<std::uint32_t> num_schedules{0};

  std::mutex mutex;
  ErrorHandler* errhandler = nullptr;
  AttributeSet attributes;
  std::string name;
  InfoPtr info;

  Comm();
  ~Comm();
  int size() const noexcept { return group->size(); }
  bool is_inter() const noexcept { return remote != nullptr; }
  const Group& peer_group() const noexcept { return is_inter() ? *remote : *group; }
  // The notices by which members learn of losses that they do not see; null: they see all.
  coll::Notices* notices() noexcept {
    return is_inter() ? remote_notices.get() : team != nullptr ? team->notices() : nullptr;
  }
  // True if the user has declared that all members start persistent collectives in one order.
  bool starts_in_order();
  int world(int peer_rank) const noexcept { return identity ? peer_rank : peers[peer_rank]; }
  // The context of a message to or from this rank, or from any (then nothing depends on it).
  std::uint32_t context_for(int peer_rank, int tag) const noexcept {
    return identity ? context : context + channels.offset(peer_rank + rank, tag);
  }
  // True for a context of its point-to-point messages.
  bool has_channel(std::uint32_t one) const noexcept {
    const std::uint32_t offset = one - context;  // huge below the first
    return offset % 2 == 0 && offset / 2 < channels.num();
  }
  // Calls f(context) for each of those.
  template <class F>
  void for_each_channel(F&& f) const {
    for (std::uint32_t i = 0; i < channels.num(); ++i) f(context + 2 * i);
  }
  // Returns the rank, in this communicator, of the peer with this world rank.
  int rank_of_world(int world) const noexcept {
    return identity ? world : peer_group().rank_of(world);
  }
};

using CommTable = HandleTable<MPI_Comm, Comm, Kind::comm>;
extern Immortal<CommTable> comms;
// The communicators of all processes of the job, and of this one alone; null unless MPI runs.
inline Comm* job_comm = nullptr;
inline Comm* own_comm = nullptr;
// The same two from MPI_Init to MPI_Finalize: those that MPI_COMM_WORLD and MPI_COMM_SELF name.
inline Comm* world_comm = nullptr;
inline Comm* self_comm = nullptr;

inline Comm* find_comm(MPI_Comm handle) noexcept {
  if (handle == MPI_COMM_WORLD) return world_comm;
  if (handle == MPI_COMM_SELF) return self_comm;
  return comms->find(handle);
}

inline bool is_revoked(const Comm& comm) noexcept {
  return comm.is_revoked.load(std::memory_order_relaxed);
}

// Requests keep their communicator alive after MPI_Comm_free. The world is never freed, and its
// requests, the hot ones, do not count.
inline void retain(Comm* comm) noexcept {
  if (comm != job_comm) comm->uses.fetch_add(1, std::memory_order_relaxed);
}
void release_slow(Comm* comm);
inline void release(Comm* comm) {
  if (comm != job_comm) release_slow(comm);
}

// True if the members may be of several jobs.
inline bool is_across(const Comm& comm) noexcept { return (comm.context & kAcrossJobs) != 0; }
// True if `world` comes first of two processes, in an order that all processes that know both agree
// on.
inline bool comes_before(int world, int other) noexcept {
  return engine->job().name_of(world) < engine->job().name_of(other);
}

// Context ids are unique in the job without any exchange: each process gives out its own range, and
// a new communicator's id comes from a member, mostly from rank 0. It is given back with the
// communicator; an id that no communicator was made with is given back by drop_context.
// If the members are of several jobs the id is a random one (context_ids.hpp).
// for_threads: threads may use it at once; open_comm has to see it then.
// hints: of this process, for the new communicator; if any, there is a context for each channel, or
// the hints are dropped.
std::uint32_t new_context(bool is_across, bool for_threads, Hints* hints = nullptr);
void drop_context(std::uint32_t context);
// A context that is given back unless a communicator has got it.
class OfferedContext {
 public:
  OfferedContext(bool offers, bool is_across) : value_(offers ? new_context(is_across, true) : 0) {}
  // A context for a communicator of members of `parent`.
  OfferedContext(bool offers, const Comm& parent) : OfferedContext(offers, is_across(parent)) {}
  // hints: see new_context().
  OfferedContext(bool offers, const Comm& parent, Hints& hints)
      : value_(offers ? new_context(is_across(parent), true, &hints) : 0) {}
  ~OfferedContext() {
    if (value_ != 0) drop_context(value_);
  }
  OfferedContext(const OfferedContext&) = delete;
  OfferedContext& operator=(const OfferedContext&) = delete;
  std::uint32_t value() const noexcept { return value_; }  // 0: none
  // Called with the context of the new communicator, which gives it back in the end if it is this
  // one.
  void resolve(std::uint32_t context) noexcept {
    if (context == value_) value_ = 0;
  }

 private:
  std::uint32_t value_;
};

// Frees a communicator that is being made: it has its handle, which no caller knows yet, and all
// its memory. Both are got before the members agree on anything, as the other members would be left
// with a communicator that this process is not in.
struct UnmakeComm {
  void operator()(Comm* comm) const noexcept;
};
using CommPtr = std::unique_ptr<Comm, UnmakeComm>;
// Prepares a communicator for these members (world ranks) or some of them, with the error handler
// of `parent`.
CommPtr prepare_comm(std::span<const int> members, Comm& parent);
// Makes the prepared communicator usable. remote is null for an intracommunicator. hints: those
// that all members have given; the process that gave the context gave them to new_context().
Comm* open_comm(CommPtr comm, GroupPtr group, GroupPtr remote, std::uint32_t context,
                std::uint32_t team_context, Hints hints = {}) noexcept;
// Deletes the attributes, then the handle. MPI_SUCCESS, or the code of a delete function, after
// which nothing is freed.
int free_comm(Comm* comm);
void create_predefined_comms();
void destroy_comms();

// Duplicates the belongings of a communicator: info (`info` unless keep_info), topology, and what
// is needed to copy the attributes, for which `to->attributes.take` calls the program.
AttributeSet::Copying copy_extras(Comm* from, Comm* to, const Info* info, bool keep_info);
// True if the first process of this side of an intercommunicator comes first: its context is then
// that of both sides.
inline bool leads(const Comm& comm) noexcept {
  return comes_before(comm.group->world(0), comm.remote->world(0));
}

// Does what MPI_Comm_split and MPI_Comm_create do within one group, for all functions that build on
// them. Collective. `out` is null if this process is not a member. Errors are raised. hints: of
// this process, for the new communicator.
int split(Comm* comm, int color, int key, Comm*& out, const char* function, Hints hints = {});
int create_from(Comm* comm, const GroupPtr& group, Comm*& out, const char* function);

// Does the same for intercommunicators.
int dup_inter(Comm* comm, const Info* info, bool keep_info, MPI_Comm* out, const char* function);
int split_inter(Comm* comm, int color, int key, MPI_Comm* out, const char* function);
int create_inter(Comm* comm, const GroupPtr& group, MPI_Comm* out, const char* function);
// Does what MPI_Intercomm_create does: the local leader meets the remote one, of that world rank,
// on this context and tag (the other members pass neither). Collective over both sides. Errors are
// raised.
int join_sides(Comm& local, int local_leader, int remote_leader, std::uint32_t context,
               std::int32_t tag, MPI_Comm* out, const char* function);

// Returns once all members, of both sides, have called it.
Status meet_both_sides(Comm* comm);

// Contexts of no communicator, the same in all jobs: of control messages (mpi/ft), and of the
// making of communicators from groups.
inline constexpr std::uint32_t kControlContext = 4, kFromGroupContext = 5;
// Finds the communicator that has this context, and keeps it until release(); null: there is none.
Comm* retain_open(std::uint32_t context) noexcept;

// Tags of internal messages on a communicator's own context. From each of the three after the first
// two a number up to kTagUb is subtracted; the ranges do not overlap.
inline constexpr std::int32_t kIntercommTag = -2;
inline constexpr std::int32_t kRemoteNoticeTag = -3;
inline constexpr std::int32_t kCreateGroupTag = -16;
inline constexpr std::int32_t kIntercommCreateTag = kCreateGroupTag - kTagUb - 1;
inline constexpr std::int32_t kScheduleTag = kIntercommCreateTag - kTagUb - 1;
// The base of tags used among all processes of the job; a number below 2^28 is subtracted.
inline constexpr std::int32_t kFromGroupTag = kScheduleTag - kTagUb - 1;

// Collective helper: gathers the contribution of every member of the team, in rank order.
template <class T>
Status share(coll::Team& team, const T& mine, std::vector<T>& all) {
  all.resize(static_cast<std::size_t>(team.size()));
  return coll::allgather(team, &mine, all.data(), sizeof(T));
}

}  // namespace weft::mpi
