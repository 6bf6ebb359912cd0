#pragma once
// RemoteLanes: a job's lanes to ranks of other hosts, and accesses between ranks' memory, over any
// fabric::Endpoint. A rank publishes its endpoint's address on the job's board; the first use of
// another rank opens a link to it, which is opened again when it breaks. Foreign processes, which
// have no such board, are admitted one by one, by their endpoint addresses.
//
// Entries go from the mirror into the ring by writes of the fabric, once the reader has registered
// it, and as messages before, and on fabrics without writes. They are not kept twice: after a break
// the reader reports the bytes that have arrived, and the writer sends the mirror again from there
// on. Credit goes along with messages of entries in the other direction, or alone. Gets, puts and
// atomics are the fabric's where it has them; gets and puts are begun again after a break, and an
// atomic ends as outcome_unknown. Else target-side emulation does them (rma/target_side.hpp).
//
// Its parts: peers.cpp (links, life and death), lanes.cpp (rings and mirrors), datapath.cpp
// (entries, credit, polling), operations.cpp (this rank's requests to others), serving.cpp (others'
// requests to this one).
//
// Threads: as in lanes.hpp. One lock guards everything; the state that lanes read without it is
// atomic, and a thread that writes entries into a ring takes its own lane's lock alone.
//
// Tests: tests/lanes/remote_test.cpp, tests/lanes/remote_lanes_test.cpp,
// tests/lanes/written_test.cpp, tests/lanes/leaving_test.cpp, tests/fuzz/lanes_linked.cpp.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/containers/pool.hpp"
#include "base/containers/slots.hpp"
#include "base/log.hpp"
#include "fabric/endpoint.hpp"
#include "lanes/doorbell.hpp"
#include "lanes/lanes.hpp"
#include "lanes/linked/peer.hpp"
#include "lanes/watcher.hpp"

namespace weft::transport {

class RemoteLanes final : public Lanes, fabric::Events {
 public:
  // local: has the doorbells that this process sleeps on; outlives this.
  RemoteLanes(Members& job, HostLanes& local, std::unique_ptr<fabric::Endpoint> endpoint,
              const LaneLimits& limits, To to);
  ~RemoteLanes() override;
  // Publishes how this rank is reached, to members.
  Status start();

  // Returns true if the fabric puts entries into rings: then they move on, and never restart.
  bool writes() const noexcept { return endpoint_->limits().writes; }
  bool polls_by_calls() const noexcept { return endpoint_->limits().polls_by_calls; }
  std::string_view fabric_name() const noexcept { return endpoint_->name(); }
  std::string interface_address() const { return endpoint_->interface_address(); }
  // Returns true if these lanes lead to that rank.
  bool reaches(int rank) const noexcept;

  Status connect(int rank, int channel, SendMemory& memory) override;
  Status accept(int client, int& rank, int& channel, ReceiveMemory& memory) override;
  void close_client(int client) noexcept override;
  const std::atomic<std::uint32_t>& connections() const noexcept override { return connections_; }

  Status share(void* address, std::size_t bytes, MemoryName& memory) override;
  Status unshare(const MemoryName& memory) override;

  void begin(int rank, const RemoteAccess& access, Completion& completion) noexcept override;

  PeerState state(int rank) noexcept override;
  // Returns true if these lanes keep the life of that rank or foreign process.
  bool covers(int rank) const noexcept { return static_cast<std::size_t>(rank) < lives_.size(); }
  // Why a dead rank counts as dead.
  Loss loss_of(int rank) const noexcept { return life(rank).loss.load(std::memory_order_relaxed); }
  // The peers that this process cannot reach, and has not reached for half of the timeout.
  std::size_t num_cut_off() const noexcept;
  // Returns true if messages may be on their way to or from a peer, as far as this side can know:
  // a link is not up, or has messages that the peer has not confirmed.
  bool has_under_way() const noexcept;
  // Peers that have ended so far: while it stays the same, no state has changed.
  std::uint32_t num_ends() const noexcept { return num_ends_.load(std::memory_order_acquire); }
  void leave() noexcept override;

  // Like share(), for one transfer to a peer that gets it and reports when it is done, before
  // unshare(): it costs less, and promises less. No peer can put there, but a fabric may leave this
  // memory, and what lies beside it, readable to peers that know its name, also for some time after
  // unshare().
  Status share_once(void* address, std::size_t bytes, MemoryName& memory) {
    return share_as(address, bytes, false, memory);
  }

  // Rings are not mapped: the writer builds entries in a mirror of the ring in its own memory, and
  // post() has them written to the ring, followed by a count that the reader sees as
  // ReceiveMemory::arrived. The reader reads nothing beyond that count, so nothing relies on the
  // order in which bytes become visible. These are for the lane's thread, `lane` is its memory's.
  //
  // Writes the mirror's bytes [offset, offset + bytes), whole entries, to the ring and counts them
  // as arrived. The mirror's bytes must not change before credit for them has come back. It has no
  // effect once the peer is lost, which state() reports. may_hold: they may be kept back, to go
  // along with later entries, until something else is posted on the lane, poll() or push(), or the
  // watcher comes, about 100 us later.
  void post(void* lane, std::size_t offset, std::size_t bytes, bool may_hold) noexcept;
  // The lane's next post is for the ring's start, without a wrap mark; the message notifies the
  // reader. Only where all that was posted has been consumed.
  void restart(void* lane) noexcept;
  // Switches to the full ring and returns the lane's whole mirror: the next post lies at its start;
  // bytes posted before stay where they were. Null: there is no memory; where that lasts, the peer
  // is lost.
  std::byte* full_ring(void* lane) noexcept;
  // Writes `word` to the `consumed` of the lane's writer; a later word replaces an earlier one.
  void return_credit(void* lane, std::uint64_t word) noexcept;

  // Makes progress once: arrivals, credit, connections, completions, signs of life. Rings this
  // process's doorbells for what it finds. Nothing progresses without it; every waiting process
  // calls it, and its watcher while it sleeps or computes. These are for any thread.
  void poll() noexcept;
  // Sends the entries that are kept back. True: there were some.
  bool push() noexcept;
  // Readable when poll() has something to do, if arm() was true after the last poll(). arm() is
  // false if there is something already.
  int wait_fd() const noexcept { return endpoint_->wait_fd(); }
  bool arm() noexcept;
  // From now on, until the end or null, `watcher` polls this.
  void set_watcher(Watcher* watcher) noexcept;
  // Ends all requests with the peer: their completions are set (peer_lost) when this returns, and
  // no byte is written to this process's memory on its behalf any more.
  void disconnect(int rank) noexcept;

  // For foreign processes, processes of other jobs (job/members.hpp): the address to reach this
  // process at.
  std::string endpoint_address() const;
  // From now on `number` is the foreign process with this name and endpoint address. It must not
  // open a link before that. unsupported: no route leads there; corrupt: that is no endpoint
  // address.
  Status admit(int number, const ProcessName& name, std::string_view endpoint_address);
  // Returns true if the two have ever had a link.
  bool has_met(int number) const noexcept;
  // Frees the number. What its lanes have left in Arrivals must be taken next.
  void forget(int number) noexcept;

 private:
  friend struct RankPeer;
  struct Registered {
    std::byte* start;
    std::size_t bytes;
    bool is_writable;
    std::uint64_t named;                     // the address of its start, as peers name it
    fabric::Registration registration = {};  // where the fabric does any of them
    std::size_t num_pinned = 0;              // bodies that the fabric reads there
    bool is_ending = false;                  // for peers this memory does not exist any more
  };
  // A body of an answer, which the fabric takes from where it is.
  struct Pinned : fabric::WorkRequest {
    static void on_done(fabric::WorkRequest& request, Code) noexcept;
    RemoteLanes* lanes = nullptr;
    RankPeer* peer = nullptr;
    Registered* memory = nullptr;  // null: free
  };
  struct Life {
    std::atomic<PeerState> state{PeerState::alive};
    std::atomic<bool> is_watched{false};
    std::atomic<Loss> loss{Loss::other};
  };

  bool on_incoming(fabric::Link& link, fabric::Bytes hello) override;
  void on_up(fabric::Link& link) override;
  void on_down(fabric::Link& link, Code why) override;
  void on_message(fabric::Link& link, fabric::Bytes bytes) override;
  void on_written(fabric::Link& link, std::uint32_t number, std::size_t bytes) override;

  std::string_view name() const noexcept { return limits().fabric; }
  void ring_own(int doorbell) noexcept { ring_doorbell(local_.sleeping(doorbell)); }
  // Threads of this process wait at this doorbell from now on.
  void note_doorbell(int doorbell) noexcept;
  // For waiting threads at any of them: the end of an operation, or of a peer.
  void ring_all() noexcept;

  // peers.cpp; all with the lock held, as everything below.
  Life& life(int rank) const noexcept { return lives_[static_cast<std::size_t>(rank)]; }
  bool is_alive(int rank) const noexcept {
    return life(rank).state.load(std::memory_order_relaxed) == PeerState::alive;
  }
  Status read_address(int rank, std::uint64_t& secret, std::string& address) const;
  Status read_endpoint_address(int rank, std::string_view text, std::uint64_t& secret,
                               std::string& address) const;
  int find_rank(const ProcessName& name) const;
  Status find_peer(int rank, RankPeer*& peer);
  ProcessName own_name() const noexcept { return {job_.id(), job_.rank()}; }
  Status reach(int rank, RankPeer*& peer);
  Status open_link(RankPeer& peer);
  void note_break_of_left(RankPeer& peer, int refusals);
  static void block(RankPeer& peer);
  void drop_link(RankPeer& peer);
  void open_next_link(RankPeer& peer);
  void take_turns(bool has_room);
  void on_rest(RankPeer& peer, bool answers);
  void note_up(RankPeer& peer);
  void note_end(int rank, PeerState state);
  bool lacks_descriptors(const RankPeer& peer);
  void note_never_answered(const RankPeer& peer);
  void note_process_end(RankPeer& peer);
  void lose(RankPeer& peer, const char* why, LogLevel level = LogLevel::info);
  void watch(RankPeer& peer);
  void pump(RankPeer& peer);
  void pump_busy();
  void tick();
  void note_goodbye(RankPeer& peer);
  bool say_goodbye(RankPeer& peer);
  std::string way_text(const RankPeer& peer) const;

  // lanes.cpp
  Status take_lane_memory(int channel, std::uint32_t bytes);
  void give_lane_memory(int channel, std::uint32_t bytes) noexcept;
  Status ask(RankPeer& peer, int channel, std::uint32_t ring_bytes, SendLaneState*& lane);
  Status take_lane(RankPeer& peer, const LaneOpenMessage& message, ReceiveLaneState*& lane);
  void on_lane_open(RankPeer& peer, const LaneOpenMessage& message);
  bool on_lane_answer(RankPeer& peer, const LaneAnswerMessage& message);
  // is_forgotten: its mirror is not written to any more.
  void drop(SendLaneState& lane, bool is_forgotten = false);
  // kept: the new owner; null: it is freed.
  void drop(ReceiveLaneState& lane, std::unique_ptr<ReceiveLaneState>* kept = nullptr);
  // Drops the lanes of this client; -1: of all.
  void drop_lanes(int client);
  // Null: the peer has no lane of this number.
  template <class Lane>
  static Lane* find(Slots<std::unique_ptr<Lane>>& lanes, const RankPeer& peer,
                    std::uint32_t number) {
    const auto* found = lanes.find(number);
    return found != nullptr && (*found)->peer == &peer ? found->get() : nullptr;
  }

  // datapath.cpp
  bool dispatch(RankPeer& peer, const Head& head, fabric::Bytes bytes);
  bool is_open(const SendLaneState& lane) const noexcept;
  bool post_directly(SendLaneState& lane, std::size_t offset, std::size_t bytes) noexcept;
  bool accept_bytes(SendLaneState& lane, std::size_t offset, std::size_t bytes);
  bool holds_back(SendLaneState& lane);
  void send_entries(SendLaneState& lane);
  Code send_segment(SendLaneState& lane);
  Code write_entries(SendLaneState& lane, std::uint32_t offset, std::uint64_t bytes);
  void send_held();
  bool pump_lanes(RankPeer& peer);
  bool send_owed(ReceiveLaneState& lane);
  bool send_count(ReceiveLaneState& lane);
  void owe(ReceiveLaneState& lane);
  bool on_entries(RankPeer& peer, const EntriesMessage& message, fabric::Bytes data);
  void count_arrived(ReceiveLaneState& lane, std::uint64_t bytes);
  void register_ring(ReceiveLaneState& lane);
  bool on_lane_key(RankPeer& peer, const LaneKeyMessage& message);
  bool on_credit(RankPeer& peer, std::uint32_t number, std::uint64_t word);
  bool on_count(RankPeer& peer, const CountMessage& message);
  void take_credit(SendLaneState& lane, std::uint64_t word);
  void poll_locked();

  // operations.cpp
  static void fabric_done(fabric::WorkRequest& request, Code code) noexcept;
  bool pump_operations(RankPeer& peer);
  void ask_again(RankPeer& peer);
  void end_operations(RankPeer& peer);
  void end(RemoteOperation& operation, Code code);
  void finish(RemoteOperation& operation, Code code);
  bool on_target_side(RankPeer& peer, Kind kind, fabric::Bytes bytes);

  // serving.cpp
  std::uint64_t next_key();
  bool is_one_sided() const;
  // Takes the lock.
  Status share_as(void* address, std::size_t bytes, bool is_writable, MemoryName& memory);
  Registered* find_registered(const RemoteRange& range, std::uint32_t rights);
  Pinned* pin(RankPeer& peer, Registered& memory);

  Members& job_;
  HostLanes& local_;
  std::atomic<int> last_doorbell_{0};
  mutable std::mutex lock_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
  const To to_;
  const std::uint64_t timeout_ns_;
  const std::uint64_t silence_ns_;  // early enough that all report it by the timeout
  std::uint64_t secret_ = 0, next_key_ = 0, key_secret_ = 0;
  const std::size_t most_registered_;             // bytes of all rings, and as many of all mirrors
  mutable std::vector<Life> lives_;               // by rank
  std::vector<std::unique_ptr<RankPeer>> peers_;  // by rank; null: not used yet
  std::vector<RankPeer*> known_;                  // the peers that are not null
  std::vector<RankPeer*> busy_;
  std::size_t next_tick_ = 0;  // of `known_`
  std::atomic<std::uint32_t> connections_{0}, num_ends_{0};

  Slots<std::unique_ptr<SendLaneState>> send_lanes_;
  Slots<std::unique_ptr<ReceiveLaneState>> receive_lanes_;
  std::vector<ReceiveLaneState*> arriving_;  // not accepted yet
  std::uint32_t num_lanes_made_ = 0;
  std::size_t lane_memory_ = 0;  // that rings take
  // Bytes of rings here that devices write, and of mirrors that they read.
  std::size_t registered_rings_ = 0, registered_mirrors_ = 0;
  // Of the channels' readers: of one client's thread.
  std::map<int, std::unique_ptr<Arrivals>> arrivals_;
  std::vector<std::unique_ptr<Mirror>> retired_;  // of closed lanes, and the fabric may read there
  std::vector<Mapping> lost_memory_;              // mirrors of lost peers; freed after the endpoint
  // Lanes of the foreign process that was forgotten last: their entries in Arrivals may not be
  // taken yet.
  std::vector<std::unique_ptr<ReceiveLaneState>> forgotten_;
  // The most links that were opened to a foreign process that was forgotten: it refuses those
  // numbers if it is admitted again.
  std::uint32_t num_forgotten_openings_ = 0;

  Pool<RemoteOperation> operations_;
  std::unordered_map<std::uint64_t, Registered> registered_;  // by key
  Pool<Pinned> pinned_;

  std::uint64_t now_ns_ = 0, ticked_ns_ = 0;
  bool was_away_ = false;  // at the last tick
  std::uint64_t polls_ = 1;
  unsigned polls_to_clock_ = 0;
  Watcher* watcher_ = nullptr;        // null: no entries are held
  std::vector<SendLaneState*> held_;  // lanes that hold something
  std::atomic<bool> holds_{false};    // there are held lanes
  bool is_leaving_ = false;
  bool is_crowded_ = false;  // links wait for the room of others
  bool reported_foreign_ = false, reported_other_job_ = false, reported_shortage_ = false;
  std::atomic<std::uint32_t> never_{0};  // the doorbell of remote peers: nobody sleeps on it
};

}  // namespace weft::transport
