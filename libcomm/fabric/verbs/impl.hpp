#pragma once
// The verbs fabric's inside, shared by its files: verbs_fabric.cpp (start and end), regions.cpp
// (memory that others may use), connect.cpp (connections), lanes.cpp (lanes and control messages),
// operations.cpp (get, put), atomics.cpp, datapath.cpp (posting and polling), liveness.cpp (peers
// that are lost or leave), mending.cpp (links that break and come back), reaper.hpp (the end of
// queue pairs).
//
// Locks, in the order of taking: poll_lock_ (whoever polls; the device's completions, the lanes
// that are read), setup_ (connections' states, lanes that are written), Connection::lock (its send
// queue, memory of the peer). memory_ (memory of this process) is held alone. Nothing is called
// back with a lock held.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "fabric/remote_fabric.hpp"
#include "fabric/verbs/connection.hpp"
#include "fabric/verbs/device.hpp"
#include "fabric/verbs/reaper.hpp"
#include "fabric/verbs/registrations.hpp"
#include "fabric/verbs/verbs_fabric.hpp"

namespace weft::verbs {

class VerbsFabric final : public RemoteFabric {
 public:
  VerbsFabric(Job& job, Fabric& local) : RemoteFabric(job, local) {}
  ~VerbsFabric() override;
  Status start();

  std::string_view name() const noexcept override { return "verbs"; }
  bool reaches(int peer) const noexcept override;
  Status connect(int peer, int channel, SendMemory& memory) override;
  Status accept(int client, int& peer, int& channel, ReceiveMemory& memory) override;
  void close_client(int client) noexcept override;
  const std::atomic<std::uint32_t>& connections() const noexcept override {
    return num_connections_;
  }

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

  std::size_t eager_max() const noexcept override { return eager_max_; }
  std::size_t piece_max() const noexcept override { return kPieceMax; }
  Code post(void* lane, std::size_t offset, std::size_t bytes) noexcept override;
  Code return_credit(void* lane, std::uint64_t word) noexcept override;
  void poll() noexcept override;
  int wait_fd() const noexcept override { return epoll_; }
  bool arm() noexcept override;
  void disconnect(int peer) noexcept override;
  PeerState state(int peer) noexcept override;
  void leave() noexcept override;

  Registrations::Counts registration_counts() noexcept { return registrations_->counts(); }

 private:
  static constexpr std::size_t kSlotBytes = 4096;
  static constexpr std::size_t kNumSlots = 64;
  static constexpr std::size_t kPieceMax = std::size_t{64} << 20;
  static constexpr std::size_t kPartMax = std::size_t{1} << 20;
  // Where one device in software is both ends, all bytes that are asked for move within the system
  // call that posts, for milliseconds, and whoever else needs the connection waits at its lock. So
  // only so much is asked for at once, and the first part may be used while the next one moves.
  static constexpr std::size_t kLoopReadMax = std::size_t{128} << 10;
  static constexpr std::size_t kLoopPartMax = kLoopReadMax / 2;

  struct Address {
    enum { unknown, none, known } state = unknown;
    std::string address;
    int port = 0;
    bool roce = false;
    bool loops_back = false;  // a device in software, and the same one
    std::uint64_t key[2] = {};
  };
  // Memory of this process that peers may use until it is unshared or released.
  struct Region {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::size_t mapped_bytes = 0;  // 0: the program's own memory
    ibv_mr* mr = nullptr;
    bool is_writable = true;
    bool ending = false;
    std::vector<int> users;  // peers that have found it and not forgotten it

    bool has(std::uint64_t first, std::uint64_t count) const noexcept {
      return is_within(first, count, address, bytes);
    }
  };
  // Memory that a peer reads once.
  struct SharedOnce {
    Registration* registration = nullptr;  // null: free
  };
  static constexpr std::uint32_t kOnceBit = 0x80000000;  // of a region's number

  Connection& at(int peer) noexcept { return connections_[static_cast<std::size_t>(peer)]; }
  std::string both_ends(int peer) const;

  // verbs_fabric.cpp
  Status start_queues();
  Status start_listening();
  Status start_waiting();
  const Address& address_of(int peer) const;

  // connect.cpp. With poll_lock_ and setup_ held, but begin_connecting: setup_.
  void begin_connecting(Connection& connection);
  void ask(Connection& connection);
  void on_event(rdma_cm_event& event, const void* data, std::size_t bytes);
  void on_request(rdma_cm_event& event, const void* data, std::size_t bytes);
  void on_refused(Connection& connection, int status, const void* data, std::size_t bytes);
  void attempt_failed(Connection& connection, std::string_view why);
  Hello hello_to(const Connection& connection) const;
  Status make_room_for_completions();
  Status make_queue_pair(Connection& connection);
  Status bring_up(Connection& connection, std::uint32_t read_depth);
  void become_ready(Connection& connection);
  void end_attempt(Connection& connection);
  void give_up(rdma_cm_id* id);
  void check_attempts(std::uint64_t now);
  rdma_conn_param parameters(const Connection& connection, const Hello& hello) const;
  void poll_events();

  // lanes.cpp. With poll_lock_ and setup_ held.
  void on_control(const Control& control, std::uint32_t qp_number);
  void on_credit(Connection& connection, const Control& control);
  void on_open(Connection& connection, const Control& control);
  void on_opened(Connection& connection, const Control& control);
  void on_grow(Connection& connection, const Control& control);
  void on_grown(Connection& connection, const Control& control);
  ReadLane* reader_of(const Connection& connection, std::uint32_t number) noexcept;
  WriteLane* writer_of(Connection& connection, std::uint32_t number) noexcept;
  void open_waiting_lanes(Connection& connection);
  void send_open(WriteLane& lane);
  std::uint32_t seal_half(std::uint32_t lane) const noexcept;
  void on_closed(Connection& connection, const Control& control);
  void close_writer(WriteLane& lane) noexcept;
  void close_reader(ReadLane& lane) noexcept;
  void free_closed_lanes() noexcept;
  void send_control(Connection& connection, Control control) noexcept;
  void broken(Connection& connection, const char* what);

  // regions.cpp. on_ with poll_lock_ and setup_ held.
  Status add_region(void* address, std::size_t bytes, std::size_t mapped_bytes,
                    RemoteMemory& memory);
  Status end_region(std::uint32_t number) noexcept;
  bool has_users(std::uint32_t number) noexcept;
  Code admit(Connection& connection, const RemoteMemory& remote, const Part& whole);
  void leave_region(Connection& connection, Operation& operation) noexcept;
  void forget(Connection& connection, const PeerRegion& region) noexcept;
  Operation* refuse_access(Connection& connection, const Part& whole) noexcept;
  Control about(ControlKind kind, std::uint32_t number, std::uint32_t key) const noexcept;
  void on_look(Connection& connection, const Control& control);
  void on_found(Connection& connection, const Control& control);
  void on_gone(Connection& connection, const Control& control);
  void on_forgotten(Connection& connection, const Control& control);

  // atomics.cpp. on_ with poll_lock_ and setup_ held.
  Code atomic(Operation::Kind kind, int peer, const RemoteMemory& word, std::size_t offset,
              std::uint64_t value, std::uint64_t compare, std::uint64_t& previous) noexcept;
  static bool is_for_owner(const Part& whole) noexcept;
  void ask_owner(Connection& connection, const Part& whole);
  void on_change(Connection& connection, const Control& control);
  void on_changed(Connection& connection, const Control& control);

  // operations.cpp
  void start(Operation::Kind kind, int peer, const RemoteMemory& remote, std::size_t offset,
             void* here, std::size_t bytes, Completion& completion) noexcept;
  Code finish(int peer, Completion& completion) noexcept;
  Operation* take_operation(bool with_slot) noexcept;
  void end_operation(Operation& operation) noexcept;
  bool part_done(Connection& connection, Operation& operation, Code code) noexcept;
  void queue(Connection& connection, const Part& whole);
  void begin(Connection& connection, const RemoteMemory& remote, const Part& whole) noexcept;
  void drop_parts(Connection& connection) noexcept;
  Status make_slots();

  // datapath.cpp. The post_ ones with the connection's lock held.
  Code post_request(Connection& connection, ibv_send_wr& request, Operation* operation) noexcept;
  bool post_control(Connection& connection, const Control& control) noexcept;
  bool post_part(Connection& connection, const Part& part) noexcept;
  void push(Connection& connection) noexcept;  // what waits for room
  void on_completion(const ibv_wc& wc) noexcept;
  void on_sent(const ibv_wc& wc) noexcept;
  void on_written(const ibv_wc& wc) noexcept;
  void post_receive(std::uint64_t index) noexcept;
  void flush_receives() noexcept;
  int poll_completions() noexcept;
  void make_way() noexcept;

  // liveness.cpp
  void fail(Connection& connection, std::string_view why, LogLevel level = LogLevel::info) noexcept;
  void end_connection(Connection& connection, std::string_view why,
                      LogLevel level = LogLevel::info) noexcept;
  void drop_posted(Connection& connection) noexcept;
  void probe(Connection& connection, std::uint64_t now) noexcept;
  void look_after_peers(std::uint64_t now) noexcept;

  // mending.cpp
  void note_break(Connection& connection, Connection::Break why) noexcept;
  void mend_broken() noexcept;
  void take_completions() noexcept;
  void mend(Connection& connection, Connection::Break why) noexcept;
  std::string replay(Connection& connection) noexcept;  // with the connection's lock held
  void came_through(Connection& connection) noexcept;
  void count_message(Connection& connection) noexcept;
  Connection* connection_of(std::uint32_t qp_number) noexcept;

  std::unique_ptr<Device> device_;
  std::unique_ptr<Registrations> registrations_;
  std::uint64_t peer_timeout_ns_ = 0;
  std::uint64_t patience_ns_ = 0;  // how long a peer may be silent
  std::uint64_t probe_after_ns_ = 0;
  std::uint8_t ack_timeout_ = 16;  // 4.096 us * 2^this until a request is repeated
  std::uint64_t repeats_ns_ = 0;   // until the device gives a request up
  std::size_t eager_max_ = 0;
  std::uint32_t ring_min_ = 0, ring_max_ = 0;
  std::uint32_t max_inline_ = 0;
  bool owner_changes_ = false;  // atomics on this process's memory are its processor's
  std::uint64_t own_key_[2] = {};
  mutable std::vector<Address> addresses_;
  std::vector<Connection> connections_;

  ibv_comp_channel* completion_channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  int queue_pairs_ = 0;
  std::uint32_t num_strangers_ = 0;  // guarded by setup_
  Reaper reaper_;                    // guarded by setup_
  ibv_srq* receives_ = nullptr;
  ibv_mr* receive_mr_ = nullptr;
  std::byte* receive_memory_ = nullptr;
  std::uint32_t num_receives_ = 0;
  std::uint64_t returned_[32] = {};  // receives to be posted again
  int num_returned_ = 0;
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  std::vector<rdma_cm_id*> given_up_;  // until the link lives again; guarded by setup_
  int epoll_ = -1;

  const bool only_processor_ = sysconf(_SC_NPROCESSORS_ONLN) == 1;  // of the machine
  std::mutex poll_lock_;
  std::mutex setup_;
  std::uint32_t polls_ = 0;       // guarded by poll_lock_
  int idle_polls_ = 0;            // the same
  std::uint64_t looked_ns_ = 0;   // the same
  std::atomic<int> num_bulk_{0};  // transfers that are not short, of this process or of a peer
  std::atomic<bool> found_operation_{false};
  std::atomic<bool> armed_{false};
  std::atomic<int> num_asking_{0};                  // connections in the making
  std::atomic<bool> any_broken_{false};             // some Connection::break_ is set
  std::vector<std::unique_ptr<ReadLane>> readers_;  // by number; guarded by poll_lock_
  std::vector<ReadLane*> unaccepted_;               // guarded by setup_
  std::vector<ReadLane*> closed_rings_;             // closed here; guarded by setup_
  std::vector<ClosedMirror> closed_mirrors_;        // guarded by setup_
  std::atomic<std::uint32_t> num_connections_{0};
  std::uint32_t next_writer_ = 1;

  mutable std::mutex memory_;  // guards what follows
  std::map<std::uint32_t, Region> regions_;
  std::vector<SharedOnce> shared_once_;
  std::vector<std::uint32_t> free_once_;
  std::uint32_t last_region_ = 0;

  SpinLock operations_lock_;
  Operation* free_operations_ = nullptr;
  Operation* free_slotted_ = nullptr;
  std::vector<std::unique_ptr<Operation[]>> operation_blocks_;
  std::byte* slots_ = nullptr;
  ibv_mr* slot_mr_ = nullptr;
  std::atomic<bool> leaving_{false};
};

}  // namespace weft::verbs
