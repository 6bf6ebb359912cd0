#pragma once
// OfiFabric: see ofi_fabric.hpp. Its parts: memory.cpp (what peers may reach), connect.cpp (lanes,
// control messages), liveness.cpp (signs of life, the end), datapath.cpp (posts, polling),
// operations.cpp (get, put, atomics), and serving.cpp (those of peers).
//
// One lock guards everything; the provider is told so and has none of its own. What lanes read
// without it is atomic: arrived, the credit words, connections, the peers' states.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/wire.hpp"
#include "fabric/remote_fabric.hpp"

namespace weft::ofi {

// Anonymous memory with a registration; pages cost nothing until they are touched.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();
  Status map(std::size_t bytes);
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory that peers may reach, or that the provider wants to know.
struct Registration {
  fid_mr* mr = nullptr;  // null: the provider does not know it, see Operation
  std::uint64_t key = 0;
  std::uint64_t address = 0;  // as peers name its start
  std::byte* start = nullptr;
  std::size_t bytes = 0;
  bool is_writable = false;  // by peers
};

// What every operation of libfabric carries along. Receives have a buffer, posts nothing.
struct Context {
  fi_context2 reserved{};
  enum Kind : std::uint8_t { post, receive, push, operation } kind = post;
  int peer = -1;
};

struct ReceiveBuffer {
  Context context;
  std::byte* data = nullptr;  // part_max_ bytes
};

// A message that the provider sends straight from memory of the program: a part of a put, of what a
// get has asked for, or an entry in place.
struct Push {
  Context context;
  Control head{};              // of a put
  std::uint64_t key = 0;       // of what a get has asked for; 0: nobody waits for its end
  Completion* done = nullptr;  // of an entry in place; null: nobody waits for its end
};

struct ReceiveLaneState;

struct SendLaneState {
  int peer = 0;
  int channel = 0;
  std::uint32_t number = 0;
  std::uint32_t ring_bytes = 0;
  enum { asking, open, refused, closed } state = asking;
  Code code = Code::ok;  // refused
  std::uint64_t asked_ns = 0;
  Mapping mirror;
  Registration registration;    // of the mirror, where the provider wants local memory registered
  std::uint32_t ring_lane = 0;  // the peer's number
  std::uint32_t token = 0;      // see immediate(), and Written where the provider writes the ring
  bool restarts = false;        // with the next post
  ReceiveLaneState* back = nullptr;  // the lane of the same threads the other way round
  // The peer's ring as the provider writes it; key 0: parts go as messages.
  std::uint64_t ring_address = 0, ring_key = 0;
  // What is kept back to go out with what follows: from where in the mirror, and how much; and
  // after which poll something was last not kept back.
  std::size_t held_offset = 0, held_bytes = 0;
  std::uint64_t let_go_after = 0;
  // A post that the provider had no room for: how much of it has been sent.
  std::size_t part_offset = 0, part_done = 0;
  alignas(64) std::atomic<std::uint64_t> credit{0};
};

struct ReceiveLaneState {
  int peer = 0;
  int channel = 0;
  std::uint32_t number = 0;
  std::uint32_t ring_bytes = 0;
  bool closed = false;
  Mapping ring;
  Registration registration;  // of the ring, where the provider writes it
  std::uint32_t token = 0;
  std::uint32_t writer_lane = 0;  // the peer's number
  SendLaneState* back = nullptr;  // as above
  alignas(64) std::atomic<std::uint64_t> arrived{0};
  std::atomic<std::uint64_t> restarted{kNeverRestarted};
  std::atomic<std::uint64_t> told{0};
  std::atomic<std::uint64_t> consumed{0};  // by the reader, see ReceiveMemory::told
};

// A get, put or atomic under way. Lives until libfabric has told its end, even if nobody waits.
//
// By message. Over TCP software on the owner's side does every operation anyway. When a connection
// ends in the middle of the answer to a read, the tcp provider of libfabric 1.17 ends that read
// twice and uses what was freed; its native RDM endpoints have no atomics, and nothing that closes
// one connection, so that a lost peer's late bytes could still come into a buffer that has been
// given up. So there a get asks for parts, which come into receive buffers and are copied if they
// are still wanted, a put sends its parts to the owner, whose processor writes them and does the
// atomics. It also lets the owner say no without ending the connection.
struct Operation {
  Context context;
  enum Kind : std::uint8_t { get, put, cas, fetch_add } kind = get;
  Completion* completion = nullptr;  // null: nobody waits any more
  std::uint64_t address = 0, key = 0;
  void* here = nullptr;
  std::size_t bytes = 0;
  std::uint64_t room = 0;  // by message: of the memory, from the address on, as its handle says
  std::size_t moved = 0;   // the same: what a get has received, or a put has sent
  Code code = Code::ok;    // the same: what the owner said so far
  std::uint64_t operand = 0, compare = 0, result = 0;
  std::uint64_t* previous = nullptr;  // where the client wants the result
  fid_mr* local_mr = nullptr;
  // Of a get or put that the provider does where it wants no local memory registered: in place of
  // `here`, which nothing could keep it from once the peer is lost and nobody waits any more.
  std::unique_ptr<std::byte[]> copy;
  bool started = false;
  bool by_message = false;
  bool counted = false;  // in PeerNode::num_under_way
  std::uint32_t number = 0;
  std::uint32_t token = 0;  // random
};

struct PeerNode {
  Context context;      // of posts to it
  bool known = false;   // has an address that fits ours
  std::string address;  // the provider's
  std::uint64_t secret = 0;
  fi_addr_t handle = FI_ADDR_NOTAVAIL;
  std::atomic<PeerState> state{PeerState::alive};
  std::atomic<bool> watched{false};
  std::uint64_t heard_ns = 0, asked_ns = 0;
  std::uint64_t posted_bytes = 0, arrived_bytes = 0;
  bool answered = false;  // ever
  bool said_goodbye = false;
  bool farewell = false;  // the answer to that
  // What the provider had no room for: messages, operations, and what the peer's gets want. While
  // the first of a list does not go, no other is tried.
  std::deque<Control> outbox;
  // Since when its first message does not go, and when it is tried again.
  std::uint64_t outbox_stuck_ns = 0, outbox_retry_ns = 0;
  std::deque<Operation*> waiting_operations;
  int num_under_way = 0;  // operations by message
  std::deque<Control> waiting_gets;
  std::unordered_map<int, SendLaneState*> send_lanes;        // by channel
  std::unordered_map<int, ReceiveLaneState*> receive_lanes;  // by channel

  void note_heard(std::uint64_t now) noexcept {
    heard_ns = now;
    answered = true;
  }
};

class OfiFabric final : public RemoteFabric {
 public:
  OfiFabric(Job& job, Fabric& local) : RemoteFabric(job, local) {}
  ~OfiFabric() override;
  Status start();

  std::string_view name() const noexcept override { return "ofi"; }
  bool reaches(int peer) const noexcept override;
  std::size_t eager_max() const noexcept override { return eager_max_; }
  std::uint32_t ring_min() const noexcept override { return kMinRing; }
  std::size_t piece_max() const noexcept override { return piece_max_; }

  Status connect(int peer, int channel, SendMemory& memory) override;
  Status accept(int client, int& peer, int& channel, ReceiveMemory& memory) override;
  void close_client(int client) noexcept override;
  const std::atomic<std::uint32_t>& connections() const noexcept override { return connections_; }

  Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory) override;
  Status release(void* address) override;
  Status share(void* address, std::size_t bytes, RemoteMemory& memory) override;
  Status share_once(void* address, std::size_t bytes, RemoteMemory& memory) override;
  Status unshare(const RemoteMemory& memory) override;
  RemoteMemory describe(const void* address, std::size_t bytes) const noexcept override;

  Code get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
           std::size_t bytes) noexcept override;
  Code put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
           std::size_t bytes) noexcept override;
  Code cas(int peer, const RemoteMemory& word, std::size_t offset, std::uint64_t compare,
           std::uint64_t swap, std::uint64_t& previous) noexcept override;
  Code fetch_add(int peer, const RemoteMemory& word, std::size_t offset, std::uint64_t value,
                 std::uint64_t& previous) noexcept override;
  void start_get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
                 std::size_t bytes, Completion& completion) noexcept override;
  void start_put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
                 std::size_t bytes, Completion& completion) noexcept override;

  Code post(void* lane, std::size_t offset, std::size_t bytes) noexcept override;
  Code post_later(void* lane, std::size_t offset, std::size_t bytes) noexcept override;
  bool push() noexcept override;
  void set_watcher(Watcher* watcher) noexcept override;
  Code post_in_place(void* lane, std::size_t offset, std::size_t entry, std::size_t head,
                     std::span<const std::byte> data, Completion* done) noexcept override;
  void restart(void* lane) noexcept override;
  std::size_t in_place_min(bool later) const noexcept override;
  Code return_credit(void* lane, std::uint64_t word) noexcept override;
  void poll() noexcept override;
  int wait_fd() const noexcept override { return endpoint_->wait_fd(); }
  bool arm() noexcept override;
  void disconnect(int peer) noexcept override;
  PeerState state(int peer) noexcept override;
  void leave() noexcept override;

  // What a peer made arrive, which poll() calls with the lock held: libfabric's flags and immediate
  // data of its completion, and the bytes, if it is a message. None of it is trusted.
  void on_arrival(std::uint64_t flags, std::uint64_t data,
                  std::span<const std::byte> bytes) noexcept;

 private:
  PeerNode& node(int peer) const noexcept { return peers_[static_cast<std::size_t>(peer)]; }

  // memory.cpp
  Status add(void* address, std::size_t bytes, std::uint64_t access, Registration& registration);
  Status open_to_peers(void* address, std::size_t bytes, bool is_writable,
                       Registration& registration);
  Status share_as(void* address, std::size_t bytes, bool is_writable, RemoteMemory& memory);
  void close_to_peers(const Registration& registration) noexcept;
  std::uint64_t next_key() noexcept;

  // connect.cpp; all with the lock held
  Status read_address(int peer, PeerNode& node) const;
  std::string way_text(int peer) const;
  Status reach(int peer);  // gives the peer a handle
  Status ask(int peer, int channel, std::uint32_t ring_bytes, SendLaneState*& lane);
  Status take_request(const Control& request, ReceiveLaneState*& lane);
  void sign(Control& control, const PeerNode& to) const noexcept;
  void send(int peer, Control control) noexcept;
  bool try_send(PeerNode& node, const Control& control) noexcept;
  void flush_outboxes() noexcept;
  void on_control(const Control& control, std::span<const std::byte> data) noexcept;
  void on_connect(const Control& control) noexcept;
  void on_answer(const Control& control) noexcept;
  void close_lane(SendLaneState& lane) noexcept;
  void join_lanes(PeerNode& peer, int channel) noexcept;
  void drop(std::unique_ptr<SendLaneState>& lane) noexcept;
  void drop(std::unique_ptr<ReceiveLaneState>& lane) noexcept;

  // liveness.cpp; with the lock held
  void check_peers(std::uint64_t now) noexcept;
  void check_count(int peer, std::uint64_t bytes) noexcept;
  void lose(int peer, const char* why) noexcept;
  void watch(int peer) noexcept;
  void close_connection(PeerNode& node) noexcept;

  // datapath.cpp; with the lock held
  void poll_locked() noexcept;
  bool is_open(const SendLaneState& lane) const noexcept;
  Code post_locked(SendLaneState& lane, std::size_t offset, std::size_t bytes) noexcept;
  Code send_held(SendLaneState& lane) noexcept;
  void forget_held(SendLaneState& lane) noexcept;
  void send_all_held() noexcept;
  long post_part(SendLaneState& lane, std::size_t offset, std::size_t bytes) noexcept;
  void on_part(std::uint64_t data, const std::byte* bytes, std::size_t length) noexcept;
  void on_written_part(std::uint64_t data) noexcept;
  ReceiveLaneState* find_lane(std::uint64_t data) noexcept;
  void arrive(ReceiveLaneState& lane, std::size_t bytes) noexcept;
  Code write(SendLaneState& lane, std::size_t offset, std::span<const iovec> local,
             std::size_t bytes, Push* push) noexcept;
  void on_credit(const Control& control) noexcept;
  void on_credit_along(SendLaneState& lane, std::uint16_t lines) noexcept;
  void take_credit(SendLaneState& lane, std::uint64_t word) noexcept;
  void on_error() noexcept;
  void post_receive(ReceiveBuffer& buffer) noexcept;

  // operations.cpp; but start and run with the lock held
  void start(int peer, Operation::Kind kind, const RemoteMemory& there, std::size_t offset,
             void* here, std::size_t bytes, std::uint64_t operand, std::uint64_t compare,
             Completion& completion, std::uint64_t* previous) noexcept;
  Code run(int peer, Operation::Kind kind, const RemoteMemory& there, std::size_t offset,
           void* here, std::size_t bytes, std::uint64_t operand, std::uint64_t compare,
           std::uint64_t* previous) noexcept;
  long try_start(Operation& operation) noexcept;
  long try_put(Operation& operation) noexcept;
  long try_rma(Operation& operation) noexcept;
  long try_atomic(Operation& operation) noexcept;
  Control request_of(const Operation& operation) const noexcept;
  void note_waiting(int peer) noexcept;
  void retry_waiting() noexcept;
  bool retry_operations(PeerNode& peer) noexcept;
  long start_in_window(Operation& operation) noexcept;
  void finish(Operation& operation, Code code) noexcept;
  void close_local(Operation& operation) noexcept;
  void fail(Operation& operation, long error) noexcept;
  void abandon_operations(int peer) noexcept;
  Operation* find_operation(int peer, std::uint32_t number, std::uint32_t token) noexcept;
  void on_get_part(std::uint64_t data, const std::byte* bytes, std::size_t length) noexcept;
  void on_answer_of_owner(const Control& answer) noexcept;

  // serving.cpp; but end_pushes with the lock held
  void on_get(const Control& request) noexcept;
  bool try_push(Control& request) noexcept;
  bool retry_gets(PeerNode& peer) noexcept;
  void on_put(const Control& request, std::span<const std::byte> data) noexcept;
  static void store(std::byte* to, std::span<const std::byte> data) noexcept;
  void on_atomic(const Control& request) noexcept;
  bool find_registered(const Control& request, std::size_t bytes, bool to_write,
                       std::byte*& start) const noexcept;
  void reply(const Control& request, Type type, Code code, std::uint64_t bytes) noexcept;
  Push* take_push(int peer) noexcept;
  void give_back(Push& push) noexcept;
  void forget_pushes(int peer) noexcept;
  void end_pushes(std::uint64_t key) noexcept;

  mutable std::mutex lock_;
  std::unique_ptr<Endpoint> endpoint_;
  mutable std::vector<PeerNode> peers_;
  std::uint64_t secret_ = 0, next_key_ = 0, key_secret_ = 0;
  std::uint64_t timeout_ns_ = 0;
  std::size_t eager_max_ = 0, piece_max_ = 0, inject_max_ = 0, part_max_ = 0;
  bool counts_checked_ = false;
  bool by_message_ = false;     // see Operation
  bool rings_written_ = false;  // the provider writes rings itself
  bool tokens_ = false;         // see immediate()
  bool leaving_ = false;
  bool told_stranger_ = false;

  std::atomic<std::uint32_t> connections_{0};
  std::vector<Mapping> lost_memory_;  // of lost peers' lanes; to be freed after the endpoint
  std::vector<std::unique_ptr<SendLaneState>> send_lanes_;              // by number
  std::vector<std::unique_ptr<ReceiveLaneState>> receive_lanes_;        // by number
  std::unordered_map<std::uint32_t, ReceiveLaneState*> written_lanes_;  // by token
  std::vector<ReceiveLaneState*> arriving_;                             // not accepted yet
  std::vector<std::unique_ptr<ReceiveBuffer>> receive_buffers_;
  Mapping receive_memory_;
  Registration receive_registration_;
  std::vector<int> full_outboxes_;  // peers
  std::vector<int> waiting_peers_;  // with waiting_operations or waiting_gets, or that had some
  std::vector<int> watched_;
  std::uint64_t checked_ns_ = 0, now_ns_ = 0;
  std::uint64_t polls_ = 1;
  Watcher* watcher_ = nullptr;           // null: nothing is kept back
  std::vector<SendLaneState*> holding_;  // lanes that keep something back
  std::atomic<bool> holds_{false};       // there are such
  bool left_ = false;                    // the last poll may have left completions

  std::deque<Operation> operations_;
  std::vector<Operation*> free_operations_;
  std::deque<Push> pushes_;
  std::vector<Push*> free_pushes_;

  mutable std::mutex memory_lock_;  // taken with or without lock_, never the other way round
  struct Allocated {
    std::unique_ptr<Mapping> mapping;
    std::uint64_t key = 0;
  };
  std::map<std::uintptr_t, Allocated> allocated_;                  // by start
  std::unordered_map<std::uint64_t, Registration> registrations_;  // by key: what peers may reach
  std::atomic<std::uint32_t> never_{0};  // the doorbell of remote peers: nobody sleeps on it
};

}  // namespace weft::ofi
