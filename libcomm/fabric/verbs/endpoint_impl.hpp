#pragma once
// VerbsEndpoint: see endpoint.hpp. Its parts: endpoint.cpp (opening, memory, sleep), links.cpp
// (connections, their end), posting.cpp (the hot path: posts and completions).
//
// Threads. A link's lock guards what posts and completions share; the tables of links, the shared
// receives and librdmacm's objects belong to the polling thread. No client is called under a lock.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/os/descriptor.hpp"
#include "base/spin_lock.hpp"
#include "fabric/verbs/blocks.hpp"
#include "fabric/verbs/device.hpp"
#include "fabric/verbs/endpoint.hpp"
#include "fabric/verbs/endpoint_wire.hpp"
#include "fabric/verbs/reaper.hpp"
#include "fabric/verbs/registrations.hpp"
#include "fabric/verbs/transport.hpp"

namespace weft::fabric::verbs {

namespace lib = weft::verbs;

inline constexpr std::uint32_t kDepth = 64;  // requests in a send queue, at most; a power of two
inline constexpr std::uint32_t kLeastDepth = 8;
inline constexpr int kMostStashed = 16;  // completions, by one call
inline constexpr std::uint32_t kMaxReadDepth = 16;
inline constexpr std::uint32_t kFirstCredit = 4;  // messages; an idle link holds so many buffers
inline constexpr std::uint32_t kLastCredit = 64;  // of a busy one
inline constexpr std::size_t kBufferBytes = 4096;
inline constexpr std::size_t kRingBytes = 64 << 10;  // memory that a link sends from
inline constexpr std::size_t kPartBytes = 1 << 20;   // of longer requests
inline constexpr std::size_t kCopyBytes = 1024;      // shorter puts and gets go through the ring
inline constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;  // of a completion

// The operation under way in one slot of the send queue.
struct Posted {
  WorkRequest* request;  // null: a message, or credit
  lib::Registration* memory;
  std::byte* copy_to;  // get and atomic through the ring: where the bytes go
  const std::byte* copy_from;
  std::uint32_t copy_bytes;
  bool is_last;            // of the request's parts
  std::uint64_t ring_end;  // the ring is free up to here once this is done
};

// A request that is longer than the device takes at once, or than there is room for.
struct Parts {
  WorkRequest* request = nullptr;
  lib::Registration* memory = nullptr;
  bool is_get = false;
  std::uint64_t here = 0, there = 0;
  std::size_t left = 0;
  std::uint32_t rkey = 0;
};

// The room in a send queue that must be there for a request, which leaves some for credit, and for
// credit, which leaves some for the end. A read may go behind each (post()), and a message of what
// write() wrote.
struct LeastRoom {
  std::uint32_t request, credit;
};
constexpr LeastRoom least_room(const lib::TransportFacts& transport) noexcept {
  return transport.sent_has_arrived ? LeastRoom{3, 2} : LeastRoom{6, 3};
}

// What goes with the request for a connection, or with the answer.
struct PrivateData {
  std::array<std::byte, sizeof(Hello) + sizeof(Proof)> data;
  std::uint8_t bytes = 0;
};

struct VerbsLink : Link {
  enum class State : std::uint8_t { resolving, asking, answering, up, broken };
  // Used by the polling thread:
  std::uint32_t id = 0;  // in the table
  rdma_cm_id* cm = nullptr;
  std::uint64_t deadline_ns = 0;  // until it is up, or has ended
  std::uint64_t spoke_ns = 0;     // where the asker speaks first: when last, without an answer yet
  bool is_ending = false;         // its queue pair is in the error state
  Code why = Code::peer_lost;
  std::vector<std::byte> hello;
  std::uint32_t window = 0;          // messages that the peer may have under way
  std::uint32_t expected = 0;        // messages that it may still send
  std::uint32_t received = 0;        // since the window grew
  bool is_owing = false;             // in owing_
  std::uint32_t seen_completed = 0;  // at the last check, and at how many before
  std::uint32_t num_still = 0;
  std::uint32_t depth = kDepth;  // of its send queue
  LeastRoom least{};
  Proof proof{};                  // the peer's
  std::shared_future<int> asked;  // rdma_connect's errno, where a thread waits for it

  SpinLock lock;
  // Under the lock:
  State state = State::resolving;
  ibv_qp* qp = nullptr;
  std::uint32_t posted = 0, completed = 0;  // requests; places are their lowest bits
  std::uint32_t last_signalled = 0;         // one past the last that signals its completion
  std::uint32_t unsignalled = 0;
  std::uint64_t signalled_head = 0;  // of the ring, at the last signalled request
  std::uint32_t credit = 0, owed = 0;
  Block ring;
  std::uint64_t ring_head = 0, ring_tail = 0;
  Parts parts;
  WorkRequest* refused = nullptr;  // the request of which a part was refused, and why
  Code refused_code = Code::ok;
  Status shortage;  // of memory to send from: why it is broken
  std::array<Posted, kDepth> slots;

  std::uint32_t room() const { return depth - (posted - completed); }
  // Under the lock: ok if a request may be posted now.
  Code ready() const {
    if (state == State::broken) return Code::peer_lost;
    const bool is_ready = state == State::up && room() >= least.request && parts.request == nullptr;
    return is_ready ? Code::ok : Code::again;
  }
};

// scope: the interface of a link-local address.
sockaddr_storage socket_address(const Address& address, int scope);

class VerbsEndpoint final : public Endpoint {
 public:
  explicit VerbsEndpoint(const Settings& settings) : settings_(settings) {}
  ~VerbsEndpoint() override;
  Status start();

  std::string_view name() const noexcept override { return "verbs"; }
  std::string kind() const override;
  const Limits& limits() const noexcept override { return limits_; }
  std::string address() const override { return address_; }
  std::string interface_address() const override { return device_->port.address; }
  std::string way_to(Bytes address) const override;
  Status open(Bytes address, Bytes hello, Link*& link) override;
  void close(Link& link) override;
  Status register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                         Registration& registration) override;
  void deregister(Registration& registration) override;
  Code put(Link& link, const void* from, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code write(Link& link, Bytes from, const Registration& source, const Key& key,
             std::uint64_t offset, std::uint32_t number, WorkRequest& request) override;
  Code atomic(Link& link, Atomic kind, const Key& key, std::uint64_t offset, std::uint64_t operand,
              std::uint64_t compare, std::uint64_t& previous, WorkRequest& request) override;
  Code message(Link& link, Bytes head, Bytes body) override;
  bool poll(Events& events) override;
  bool arm() override;
  int wait_fd() const noexcept override { return epoll_; }

 private:
  // Completed requests of a link, reported once its lock is free.
  class Completed {
   public:
    void add(WorkRequest* request, Code code) { items_[num_++] = {request, code}; }
    void report() const {
      for (std::size_t i = 0; i < num_; ++i)
        items_[i].request->done(*items_[i].request, items_[i].code);
    }

   private:
    struct Item {
      WorkRequest* request;
      Code code;
    };
    Item items_[kDepth + 1];  // the send queue's, and one in parts
    std::size_t num_ = 0;
  };
  struct Refused {  // here, before they were posted
    std::uint32_t link;
    WorkRequest* request;
    Code code;
  };

  // endpoint.cpp
  Status look_at_limits();
  Status start_queues();
  Status start_listening();
  Status make_completion_queue();
  ibv_qp* new_queue_pair(std::uint32_t& inline_bytes) const;
  Status find_inline();
  Status make_receives(std::uint32_t count);
  void post_receive(std::uint32_t index);
  void free_receive(std::uint32_t index);
  void give_receives(VerbsLink& link, std::uint32_t count);
  void take_receives_back(const VerbsLink& link, std::uint32_t qp_num);
  Status make_room_for_completions(std::size_t links);
  bool poll_rarely(Events& events);
  bool poll_cm(Events& events);
  void check_attempts();
  void check_devices_end(std::uint64_t now);
  void poll_device();
  void end_device();
  bool poll_deferred(Events& events);

  // links.cpp
  VerbsLink* find(std::uint32_t id) const;
  VerbsLink* add_link();
  void give_up(rdma_cm_id* cm, const std::shared_future<int>& asked);
  Status begin(VerbsLink& link, const Address& to);
  Status make_queue_pair(VerbsLink& link);
  Status bring_up(VerbsLink& link, const Hello& theirs);
  rdma_conn_param parameters(const VerbsLink& link) const;
  PrivateData own_hello(const VerbsLink& link, bool is_answer) const;
  bool read_theirs(VerbsLink& link, Bytes data, bool is_answer, Hello& theirs) const;
  void connect(VerbsLink& link);
  void on_answer(VerbsLink& link, Bytes data, Events& events);
  void on_cm_event(rdma_cm_event& event, Bytes data, Events& events);
  void on_request(rdma_cm_id* cm, Bytes data, Events& events);
  void become_up(VerbsLink& link);
  Status ask(VerbsLink& link);
  void look_at_asked(VerbsLink& link);
  void on_established(VerbsLink& link, Bytes data, Events& events);
  void speak_first(VerbsLink& link);
  void ask_whether_heard(VerbsLink& link);
  void on_heard(VerbsLink& link, Events& events);
  void take_down(VerbsLink& link, std::string_view why);
  void take_down(VerbsLink& link, const Status& why);
  void put_in_error_state(VerbsLink& link);
  void drain(VerbsLink& link);
  void free_queue_pair(VerbsLink& link);
  void end_requests(VerbsLink& link, Code code, Completed& completed);
  void end_refused(std::uint32_t id);
  bool finish_down(Events& events);
  int stash_completions();
  void free_link(VerbsLink& link);

  // posting.cpp
  Code post(VerbsLink& link, ibv_send_wr& request, const Posted& what, bool is_signalled);
  Code post_one(VerbsLink& link, ibv_send_wr& request, const Posted& what, bool is_signalled);
  void prepare_probe(const VerbsLink& link, ibv_send_wr& request);
  static std::byte* take_ring(VerbsLink& link, std::size_t bytes);
  static bool has_ring(VerbsLink& link, std::size_t bytes);
  void note_broken(VerbsLink& link) noexcept;
  bool need_ring(VerbsLink& link) noexcept;
  Code refuse(VerbsLink& link, WorkRequest& request, Code code);
  Code post_parts(VerbsLink& link);
  Code transfer(VerbsLink& link, bool is_get, std::byte* local, std::size_t bytes, const Key& key,
                std::uint64_t offset, WorkRequest& request);
  Code send(VerbsLink& link, MessageKind kind, Bytes head, Bytes body);
  void on_completion(const ibv_wc& completion, Events& events);
  void on_sent(VerbsLink& link, std::uint32_t number, ibv_wc_status status, Completed& completed);
  void on_received(const ibv_wc& completion, Events& events);
  bool take_credit(VerbsLink& link, const Head& head);
  void owe(VerbsLink& link);
  void pay();

  const Settings settings_;
  std::uint8_t traffic_class_ = 0;
  lib::TransportFacts transport_{};
  Limits limits_;
  std::string address_;
  std::unique_ptr<lib::Device> device_;
  lib::Reaper reaper_;
  std::unique_ptr<lib::Registrations> registrations_;
  std::unique_ptr<Blocks> buffers_, rings_;
  // Memory that peers read to learn what has arrived here, and behind it where such reads land.
  std::array<std::uint64_t, 2> proofs_{};
  ibv_mr* proof_mr_ = nullptr;  // null: the transport needs none
  ibv_sge proof_lands_{};
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_srq* receives_ = nullptr;  // null: the device has none, each queue pair has its own
  rdma_event_channel* cm_channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  int epoll_ = -1;
  std::shared_ptr<Descriptor> bell_;  // rung by threads that ask for connections; null: none do
  std::uint32_t max_inline_ = 0;
  std::uint32_t depth_ = kDepth, max_window_ = kLastCredit;
  std::uint8_t read_depth_ = 1, ask_depth_ = 1;  // reads that are answered and asked for at once
  bool is_gone_ = false;                         // the device
  std::size_t part_bytes_ = kPartBytes;
  std::uint32_t max_receives_ = 0;
  std::uint8_t ack_timeout_ = 16;
  std::uint64_t attempt_ns_ = 0, stopped_ns_ = 0;
  std::uint64_t last_check_ns_ = 0;

  std::vector<Block> received_into_;  // by number
  // Of queue pairs that have their own receives: the link that has each buffer, and those of none.
  std::vector<std::uint32_t> receivers_, free_receives_;
  std::uint32_t num_needed_ = 0;  // of them: the windows of all links
  std::vector<VerbsLink*> table_;
  std::vector<std::uint32_t> free_ids_;
  std::unordered_map<std::uint32_t, VerbsLink*> by_qp_;
  std::size_t num_links_ = 0;  // with a queue pair
  std::vector<std::uint32_t> making_, ending_, owing_;
  std::vector<rdma_cm_id*> given_up_;  // until the port is active
  std::vector<ibv_wc> stash_;          // read from the queue, and not yet handled
  std::size_t num_unstashed_ = 0;      // of them, handled
  std::uint32_t num_polls_ = 0;
  std::uint64_t last_rare_ns_ = 0;
  bool is_urgent_ = true;  // the channels are read in the next poll
  unsigned unacked_events_ = 0;

  mutable std::mutex failure_lock_;
  std::string last_failure_;  // why no link could be made here
  bool has_told_failure_ = false;

  SpinLock deferred_lock_;
  std::vector<Refused> refused_;
  std::vector<std::uint32_t> broken_;  // posts of theirs failed
  std::atomic<bool> has_deferred_{false};
};

}  // namespace weft::fabric::verbs
