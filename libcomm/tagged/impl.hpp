#pragma once
// The engine's implementation, shared by its files: engine.cpp (start, end, the calls),
// progress.cpp (receiving and eager sending), rendezvous.cpp (long messages), failure.cpp (lost
// peers), waiting.cpp, foreign.cpp (processes of other jobs).
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "lanes/copy_policy.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/lane.hpp"
#include "tagged/engine.hpp"
#include "tagged/match.hpp"
#include "tagged/wire.hpp"

namespace weft::tagged {

// Request::phase.
enum Phase : std::uint8_t {
  kIdle = 0,
  kPosted,     // receive: in the matcher
  kArriving,   // receive: some fragments have arrived
  kCopying,    // either: has a RendezvousCopy, or waits for the other side to finish
  kQueued,     // send: waiting for room in the ring
  kFragments,  // send: partly in the ring
  kRtsSent,    // send: waiting for the CTS or FIN
  kStreaming,  // send: a long message goes through the ring
};

// An entry that is sent once there is room, ahead of queued messages.
struct Control {
  std::uint8_t kind;
  std::uint64_t immediate;
  std::uint32_t length;
  Cts cts;
};

// Control entries that wait for room in a ring, in order.
class ControlQueue {
 public:
  // Guarantees that the next push does not allocate.
  void make_room() {
    if (entries_.size() < entries_.capacity()) return;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
    weft::make_room(entries_);
  }
  void push(const Control& control) { entries_.push_back(control); }
  bool empty() const noexcept { return first_ == entries_.size(); }
  const Control& front() const noexcept { return entries_[first_]; }
  void pop() noexcept {
    if (++first_ == entries_.size()) clear();
  }
  void clear() noexcept {
    entries_.clear();
    first_ = 0;
  }

 private:
  std::vector<Control> entries_;
  std::size_t first_ = 0;
};

// The copy of one long message, at either side.
struct RendezvousCopy {
  Request* request;
  SharedCopy* record;  // null: the receiver copies alone and sends kFin
  MemoryName remote;
  std::uint64_t length;
  std::uint64_t copied;  // without a record
  std::uint64_t send_id;
  std::uint32_t record_index;
  int peer;
  bool is_sender;
  bool claims;  // this side still claims chunks
  // Gets in flight from a remote peer, with `copied` the bytes started; not null from start to end.
  // Null for a copy by the processor.
  struct Gets* gets;
};

// The gets of one long message from a remote peer. Its address is fixed while they run.
struct Gets {
  static constexpr int kMax = 4;
  Completion chunks[kMax];
  bool busy[kMax] = {};
  Code code = Code::ok;
};

struct Peer {
  int rank = 0;
  Lanes* lanes = nullptr;  // the route to it; null: no fabric in common
  SendMemory send_memory;  // once the fabric has provided it
  SendLane out;
  CopyPolicy copy_policy;  // set when connected
  ReceiveLane in;
  bool accepted = false;
  bool lost = false;
  std::uint32_t loss = 0;  // the number of its loss in this VCI, from 1; 0: none
  // The start of a shortage of memory here for its messages, for receiving them, and for sending to
  // it; 0: none.
  std::uint64_t no_memory_ns = 0, no_receive_memory_ns = 0, no_send_memory_ns = 0;
  bool is_past_deadline = false;  // the shortage for sending lasts too long
  bool left = false;              // lost, and in good order
  // Sends waiting for room, in order, linked by Request::next.
  Request* queue_head = nullptr;
  Request* queue_tail = nullptr;
  ControlQueue controls;
  bool listed = false;  // in Impl::blocked
  bool remote = false;
  bool watched = false;  // remote: checked for liveness
  // The fragmented message that is arriving.
  Request* incoming = nullptr;
  Unexpected* incoming_unexpected = nullptr;
  std::size_t incoming_bytes = 0;
  std::size_t incoming_offset = 0;
  // Unmatched eager data of this peer.
  std::size_t unexpected_bytes = 0;

  // Mapped, and a short message can be written now if the ring has room.
  bool is_clear() const noexcept {
    return out.connected() && !remote && !lost && queue_head == nullptr && !out.on_hold();
  }
};

// Requests that a peer refers to by number.
class RequestTable {
 public:
  // Guarantees that the next add and any remove do not allocate.
  void make_room();
  std::uint64_t add(Request& request) noexcept;
  // Returns null if the number is not in use or belongs to another peer.
  Request* find(std::uint64_t id, int peer) const noexcept;
  void remove(std::uint64_t id) noexcept;
  // f may remove its argument.
  template <class F>
  void for_each(F&& f) {
    for (Slot& slot : slots_)
      if (slot.request != nullptr) f(*slot.request);
  }

 private:
  struct Slot {
    Request* request = nullptr;
    std::uint32_t generation = 1;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

// State that all VCIs of an engine share.
struct Engine::Shared {
  explicit Shared(Members& the_job);
  ~Shared();

  // Errors: no_memory; for the first VCI also those of its settings and fabrics.
  Status make(int number);
  // The VCI of a context, which must exist.
  Impl& of(std::uint32_t context) const noexcept {
    return *vcis[static_cast<std::size_t>(vci_of(context))].load(std::memory_order_acquire);
  }
  bool has_others() const noexcept { return num_vcis.load(std::memory_order_relaxed) > 1; }
  // Calls f(Impl&) for all.
  template <class F>
  void for_each(F&& f) {
    if (!has_others()) [[likely]]
      return f(first());
    for (auto& one : vcis)
      if (Impl* vci = one.load(std::memory_order_acquire)) f(*vci);
  }
  Impl& first() const noexcept { return *owned[0]; }

  // Losses. One VCI detects that a peer has ended, or loses it for invalid data; the others follow
  // when they check for lost peers, each after it has received the messages sent to it before. The
  // peer is lost once all have lost it.
  struct Fate {
    std::atomic<PeerState> state{PeerState::alive};  // as the first VCI detected it
    std::atomic<bool> is_watched{false};             // a VCI other than the first needs it
    std::atomic<bool> is_lost{false};                // release: its `state` before
    int num_lost_in = 0;                             // under `losses`
  };
  PeerState state_of(int rank) const noexcept {
    const auto i = static_cast<std::size_t>(rank);
    return i < fates.size() ? fates[i].state.load(std::memory_order_relaxed) : PeerState::alive;
  }
  bool is_watched(int rank) const noexcept {
    const auto i = static_cast<std::size_t>(rank);
    return i < fates.size() && fates[i].is_watched.load(std::memory_order_relaxed);
  }
  void note_end(int rank, PeerState state) noexcept;
  void note_lost(const Peer& peer) noexcept;
  void notify(const Notice& notice) const noexcept {
    if (const auto observer_now = observer.load(std::memory_order_relaxed)) observer_now(notice);
  }

  Members& job;
  std::unique_ptr<Fabrics> fabrics;
  std::atomic<bool> has_remote{false};  // relaxed where nothing else is read
  std::atomic<std::span<const int> (*)(std::uint32_t) noexcept> senders{nullptr};  // relaxed
  std::atomic<void (*)(bool)> background{nullptr};  // acquire and release: with its data
  std::atomic<void (*)(const Notice&) noexcept> observer{nullptr};  // relaxed: of the whole process

  std::mutex making;
  std::array<std::unique_ptr<Impl>, kNumVcis> owned;  // under `making`, except the first
  std::array<std::atomic<Impl*>, kNumVcis> vcis{};    // release and acquire
  std::atomic<int> num_vcis{0};                       // changed under `losses`

  mutable std::mutex losses;               // within the VCIs' locks
  std::vector<Fate> fates;                 // by rank; foreign processes use the first VCI alone
  std::atomic<std::uint32_t> num_ends{0};  // detected by a VCI; release: their state
  std::vector<int> lost;                   // in the order of their loss
  std::atomic<std::uint32_t> num_lost{0};
  std::atomic<int> last_reported_lost{-1};  // relaxed: it is for messages about errors
  std::atomic<int> num_callers{0};          // relaxed: threads that wait, if more than one may call
};

// A VCI.
struct Engine::Impl {
  Impl(Shared& all, int its_number)
      : shared(all),
        number(its_number),
        job(all.job),
        fabrics(all.fabrics),
        has_remote(all.has_remote) {}

  Shared& shared;
  const int number;  // also that of its lanes' client
  Members& job;
  std::unique_ptr<Fabrics>& fabrics;
  HostLanes* local = nullptr;                               // with this process's doorbells
  const std::atomic<std::uint32_t>* connections = nullptr;  // of `local`
  std::uint32_t known_connections = 0;
  // State of remote peers, apart from that of the host's, so that these do not pay for it.
  std::atomic<bool>& has_remote;
  bool some_apart = false;  // a peer has no fabric in common with this process
  std::vector<std::uint32_t> known_remote_connections;  // as fabrics->remote()
  std::vector<Arrivals*> arrivals;                      // of their lanes to this process
  std::vector<Peer*> arriving;                          // with entries in their lane
  std::uint32_t remote_polls = 0;
  std::deque<Gets> gets;
  std::vector<Gets*> free_gets;
  Peer* found_lost = nullptr;  // by a copy
  // By world rank, then foreign processes. Never moves: its capacity is for all.
  std::vector<Peer> peers;
  std::size_t num_lost_peers = 0;  // of `peers` now; Shared::num_lost counts losses
  std::uint32_t num_losses = 0;    // so far
  // By context: the last loss that was reported to receives from any source there.
  std::unordered_map<std::uint32_t, std::uint32_t> reported;
  std::vector<std::uint32_t> uses_of_foreign;  // by number - job.size()
  std::vector<Peer*> incoming;                 // of this host, connected to this process
  std::vector<Peer*> blocked;                  // with queued sends or controls
  std::vector<RendezvousCopy> copies;
  Matcher matcher;
  RequestTable sends;     // with an RTS sent
  RequestTable receives;  // streamed
  std::vector<std::uint32_t> free_records;
  std::vector<std::uint32_t> closing_records;  // done here; the sender may still read them

  CopyPolicy near, far;         // of peers of this host, with and without a common cache
  std::size_t plain_below = 0;  // shorter messages are always copied plainly, as one entry
  std::size_t unexpected_max = 0;
  std::uint32_t ring_min = 0, ring_max = 0;

  bool threaded = false;
  std::mutex mutex;
  std::uint64_t num_begun = 0, num_completed = 0;  // requests
  bool left_entries = false;                       // by the last call of progress, in a ring
  std::atomic<int> num_waiting{0};  // threads that wait for this VCI, if more than one may call
  std::atomic<std::uint64_t> last_liveness_ns{0};  // relaxed
  std::size_t next_check = 0;                      // of `peers`, for lost ones
  std::uint32_t num_ends_seen = 0;
  std::uint64_t spin_ns = 0, yield_ns = 0;
  bool crowded = false;        // more processes than cores on this host
  unsigned receive_polls = 0;  // of try_receive, beyond the first
  unsigned received_at_once = 0;
  bool fence_works = false;  // the asymmetric fence is available
  bool closed = false;

  Peer& peer(int rank) noexcept { return peers[static_cast<std::size_t>(rank)]; }
  // Foreign processes are peers of the first VCI alone.
  bool is_peer(int rank) const noexcept { return static_cast<std::size_t>(rank) < peers.size(); }

  std::uint32_t ring_min_of(const Lanes& lanes) const noexcept {
    return std::max(ring_min, lanes.limits().ring_min);
  }
  // engine.cpp
  Status start();
  // again: a remote peer has not answered yet; queued sends leave once it has.
  Code connect(Peer& peer);
  // The lost peer for which a receive or probe without a message ends (engine.hpp, "Losses"), or
  // kNobody.
  int find_lost(int source, std::uint32_t context) {
    if (some_apart) [[unlikely]]
      lose_apart(source);
    return num_lost_peers == 0 ? kNobody : find_lost_slow(source, context);
  }
  static constexpr int kNobody = -1;
  // The same for a probe: peer_lost, with the peer in `info`; or again.
  Code lost_or_again(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info);
  int find_lost_slow(int source, std::uint32_t context) noexcept;
  // Marks the losses so far as reported to receives from any source in this context.
  void note_reported(std::uint32_t context) noexcept;
  // Calls f(peer) for the possible senders of a receive from any source in this context, until it
  // returns false.
  template <class F>
  void for_each_sender(std::uint32_t context, F&& f);
  bool may_send(int peer, std::uint32_t context);
  // A peer without a fabric in common is lost at first contact. A receive from it is one; a receive
  // from any source is one with all such peers once no other peer is left.
  void lose_apart(int source);
  // False: there is no memory, and the message is as it was.
  bool receive_unexpected(Request& request, Unexpected& message);
  // Allocates all that handling an RTS, CTS or FIN may need, so that it cannot fail half-way.
  // False: no memory.
  bool make_room(Peer& peer) noexcept;
  // The same for the control entry at the end of a copy; does not move `copies`.
  static bool make_room_to_answer(Peer& peer) noexcept;
  // Logs a line about a peer, whose description is the first argument of the format.
  template <class... Args>
  void log_peer(LogLevel level, int rank, fmt::format_string<std::string, Args...> format,
                Args&&... args) const noexcept {
    (void)or_no_memory([&] {
      log_line(level, job.rank(), format, job.describe(rank), std::forward<Args>(args)...);
    });
  }

  // progress.cpp
  void progress();
  void accept_peers(Lanes& lanes);
  bool is_before_deadline(Peer& peer, std::uint64_t& since_ns, std::string_view why);
  void progress_remote();
  void drain(Peer& peer);
  // Handle an entry of kEager, and any other. may_leave: an unexpected message may be left in the
  // ring for the next call; then they return false.
  bool on_other(Peer& peer, const Entry& entry, bool may_leave);
  bool on_eager(Peer& peer, const Entry& entry, std::size_t bytes, const std::byte* data,
                std::size_t length, bool may_leave);
  Unexpected* allocate_for(Peer& peer, std::size_t bytes);
  bool keep_unexpected(Peer& peer, std::uint32_t context, std::int32_t tag, std::size_t bytes,
                       const std::byte* data, std::size_t length);
  void on_eager_more(Peer& peer, const Entry& entry);
  static void store(const Request& request, std::size_t offset, const std::byte* from,
                    std::size_t bytes) noexcept;
  void deliver(Request& request, Unexpected& message);
  void release_unexpected(Peer& peer, Unexpected& message);
  void broken(Peer& peer, const char* what);
  void flush(Peer& peer);
  bool retry(Peer& peer);  // true: this peer has nothing queued any more
  bool wait_for_memory(Peer& peer);
  bool send_some(Peer& peer, Request& request);
  static bool send_fragment(Peer& peer, const Request& request, std::uint8_t kind,
                            std::uint64_t immediate, std::size_t offset,
                            std::size_t bytes) noexcept;
  void enqueue(Peer& peer, Request& request);
  void enqueue(Peer& peer, const Control& control);  // does not allocate after make_room
  void note_blocked(Peer& peer);
  void complete(Request& request, Code code) noexcept;  // below
  void complete_receive(Request& request, Code code) noexcept;

  // rendezvous.cpp
  bool on_rts(Peer& peer, const Entry& entry);
  void on_cts(Peer& peer, const Entry& entry);
  void on_fin(Peer& peer, const Entry& entry) { complete_rts(peer, entry.immediate, Code::ok); }
  void on_withdrawn(Peer& peer, const Entry& entry) {
    complete_rts(peer, entry.immediate, Code::cancelled);
  }
  void complete_rts(Peer& peer, std::uint64_t send_id, Code code);
  void on_stream(Peer& peer, const Entry& entry);
  bool withdraw(Request& request);  // true: complete, with cancelled
  void on_withdraw(Peer& peer, const Entry& entry);
  bool send_rts(Peer& peer, Request& request);
  void fetch(Request& request, int source, std::int32_t tag, std::uint64_t length,
             const MemoryName& memory, std::uint64_t send_id);
  void send_cts_to_stream(RendezvousCopy& copy);
  void send_cts_to_copy(Peer& peer, RendezvousCopy& copy);
  void claim_chunk(RendezvousCopy& copy);
  Code copy_bytes(const RendezvousCopy& copy, std::uint64_t offset, std::uint64_t bytes);
  void count_message(const RendezvousCopy& copy);
  void send_fin(const RendezvousCopy& copy, Code code);
  void count_chunk(RendezvousCopy& copy, Code code, std::uint64_t bytes);
  static void give_back(SharedCopy& record, std::uint64_t offset, std::uint64_t bytes);
  void take_back(RendezvousCopy& copy);
  bool step(RendezvousCopy& copy);  // true: finished, remove it
  void run_copies();
  // Returns true while this side moves some copy forward: then polling is progress, not waiting.
  bool has_copies() const noexcept;
  std::uint32_t take_record();
  bool step_remote(RendezvousCopy& copy);
  void end_share(Request& request);

  // foreign.cpp
  void set_up(Peer& peer, int rank, Lanes* lanes) noexcept;
  void forget(Peer& peer);
  static bool has_met(const Peer& peer) noexcept;
  bool is_foreign(const Peer& peer) const noexcept { return peer.rank >= job.size(); }
  std::uint32_t& uses_of(const Peer& foreign) noexcept {
    return uses_of_foreign[static_cast<std::size_t>(foreign.rank - job.size())];
  }

  // failure.cpp
  void check_liveness();
  PeerState state_of(const Peer& peer) const noexcept;
  // The same at little cost, up to some milliseconds later.
  void check_liveness_if_due();
  void watch(Peer& peer);
  void watch_awaited();
  std::uint32_t num_ends() const noexcept;  // of peers: unchanged means that none has ended since
  bool all_out() noexcept;                  // nothing is queued
  static bool is_closed(Peer& peer) noexcept;
  void end_of(Peer& peer);
  void lose(Peer& peer);

  // waiting.cpp
  // everywhere: for a condition of any VCI. polls: before it sleeps.
  void wait(const WaitCondition& condition, bool everywhere, bool polls);
  bool poll_once();        // true: it completed something
  void progress_others();  // the VCIs that no other thread is in
  // For calls that test and the beginnings of waits, which poll their own VCI.
  void progress_others_at_times() {
    if (shared.has_others() && num_tests.fetch_add(1, std::memory_order_relaxed) % 8 == 7)
      progress_others();
  }
  std::atomic<unsigned> num_tests{0};
};

inline void Engine::Impl::complete(Request& request, Code code) noexcept {
  ++num_completed;
  request.code = code;
  request.phase = kIdle;
  // release: results before the flag; pairs with is_complete(). The caller may free it from here
  // on.
  request.complete.store(true, std::memory_order_release);
  // Another thread of this process may sleep until this request is complete. It has added itself to
  // num_waiting before it armed the doorbell, and so before that fence (base/wait.hpp).
  if (num_waiting.load(std::memory_order_relaxed) != 0) ring_doorbell(local->sleeping(0));
}

// Completes with `truncated` if the message was longer than the buffer.
inline void Engine::Impl::complete_receive(Request& request, Code code) noexcept {
  const bool is_cut = code == Code::ok && request.received > request.length;
  complete(request, is_cut ? Code::truncated : code);
}

// Holds the engine's lock if more than one thread may call.
class Guard {
 public:
  explicit Guard(Engine::Impl& impl);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  std::mutex* mutex_;
};

}  // namespace weft::tagged
