#pragma once
// What a rank's lanes keep of another rank. All of it under the lock of RemoteLanes but what is
// atomic, which the threads of lanes read.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mapping.hpp"
#include "fabric/endpoint.hpp"
#include "job/members.hpp"
#include "transport/lanes.hpp"
#include "transport/reliable_link.hpp"
#include "transport/ring.hpp"

namespace weft::transport {

class RemoteLanes;
struct RankPeer;

inline constexpr std::size_t kRingPage = 4096;
inline constexpr std::size_t kMaxAnswers = 64;  // more than a peer of ours asks for at a time
struct ReceiveLaneState;

// Where a lane's entries are built. The fabric may read there until `under_way` is 0, also what the
// peer has got already.
struct Mirror : fabric::Request {
  Mirror() { done = on_done; }
  static void on_done(fabric::Request& request, Code code) noexcept {
    auto& mirror = static_cast<Mirror&>(request);
    --mirror.under_way;
    mirror.was_cut_off = mirror.was_cut_off || code != Code::ok;
  }
  Mapping memory;
  bool was_cut_off = false;  // the fabric may still read there, as long as the endpoint lives
  std::size_t under_way = 0;
};

struct SendLaneState {
  // Where bytes of entries lie in the mirror from a position on: there is one at each turn and each
  // return to the start, and where the whole ring begins. What is under way is at most a ring,
  // which two of them cover, and what lies in the lane's first memory, which two cover.
  struct Stretch {
    std::uint64_t position;
    std::uint32_t offset;
    std::uint8_t flags;  // kRestart, kWhole: of its first message
    bool is_whole;       // in the mirror's memory, else in what the lane has first
  };
  static constexpr std::size_t kMaxStretches = 4;

  RankPeer* peer = nullptr;
  int channel = 0;
  std::uint32_t number = 0;
  std::uint32_t ring = 0;  // the reader's number
  std::uint32_t ring_bytes = 0;
  enum { asking, open, refused, closed } state = asking;
  Code code = Code::ok;  // refused
  std::uint64_t asked_ns = 0;
  std::unique_ptr<Mirror> mirror = std::make_unique<Mirror>();
  ReceiveLaneState* back = nullptr;  // the lane of the same threads the other way round

  // In bytes of entries since the start: accepted from the writer, sent over this link.
  std::uint64_t accepted = 0, sent = 0;
  std::vector<Stretch> stretches;
  bool restarts = false;           // with what is accepted next
  bool is_whole = false;           // what is accepted now lies in the mirror's memory
  std::uint64_t short_ns = 0;      // since when there has been none for that
  bool waits_count = false;        // a link came up: what has arrived is not known yet
  bool is_listed = false;          // in the peer's `unsent`
  bool is_held = false;            // what is accepted may wait for more
  std::uint64_t let_go_after = 0;  // the poll after which something was last not held

  alignas(64) std::byte first[kFirstRingBytes + kEntryAlign] = {};
  alignas(64) std::atomic<std::uint64_t> credit{0};
};

struct ReceiveLaneState {
  RankPeer* peer = nullptr;
  int channel = 0;
  std::uint32_t number = 0;
  std::uint32_t writer = 0;  // the peer's number
  std::uint32_t ring_bytes = 0;
  bool closed = false;
  bool owes_credit = false;
  bool owes_count = false;
  std::uint64_t word = 0;      // of credit, last given
  Mapping ring;                // once whole
  std::uint64_t short_ns = 0;  // since when there has been no memory for it
  WholeRing whole;
  SendLaneState* back = nullptr;

  alignas(64) std::byte first[kFirstRingBytes + kEntryAlign] = {};
  alignas(64) std::atomic<std::uint64_t> arrived{0};
  std::atomic<std::uint64_t> restarted{kNeverRestarted};
  std::atomic<std::uint64_t> told{0};
  std::atomic<std::uint64_t> consumed{0};  // by the reader, see ReceiveMemory::told
  Arrival arrival;
  Arrivals* arrivals = nullptr;
};

// A get, put or atomic, which the fabric does, or else the owner's side.
struct RemoteOperation : fabric::Request {
  RemoteLanes* lanes = nullptr;
  RemoteOperation* next = nullptr;  // in a queue
  Access access = Access::get;
  RankPeer* peer = nullptr;  // null: free
  Completion* completion = nullptr;
  std::uint32_t number = 0;
  OwnerPlace place{};
  std::byte* here = nullptr;
  std::uint64_t moved = 0;  // get: received; put: sent
  bool is_asked = false;    // it was given to the fabric, or to the owner, as far as this link goes
  bool is_fabrics = false;  // to the fabric, which has it until done()
  unsigned num_breaks = 0;  // of links, while the fabric had it
  std::uint64_t operand = 0, compare = 0;
  std::uint64_t result = 0;  // where the fabric writes what was there before
  std::uint64_t* previous = nullptr;
};

// Operations in order, without an allocation.
class OperationQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  RemoteOperation& front() const { return *first_; }
  void push_back(RemoteOperation& operation) {
    operation.next = nullptr;
    *(first_ == nullptr ? &first_ : &last_->next) = &operation;
    last_ = &operation;
  }
  void push_front(RemoteOperation& operation) {
    operation.next = first_;
    if (first_ == nullptr) last_ = &operation;
    first_ = &operation;
  }
  void pop_front() { first_ = first_->next; }
  void erase(const RemoteOperation& operation) {
    RemoteOperation* before = nullptr;
    for (RemoteOperation* one = first_; one != nullptr; before = one, one = one->next) {
      if (one != &operation) continue;
      (before != nullptr ? before->next : first_) = one->next;
      if (last_ == one) last_ = before;
      return;
    }
  }
  template <class F>
  void for_each(F&& f) {
    for (RemoteOperation* one = first_; one != nullptr; one = one->next) f(*one);
  }

 private:
  RemoteOperation* first_ = nullptr;
  RemoteOperation* last_ = nullptr;
};

struct RankPeer final : ReliableLink::Owner {
  RankPeer(RemoteLanes& of, int number, const ProcessName& called)
      : lanes(of), rank(number), name(called), link(*this) {}
  void make_busy() override;

  RemoteLanes& lanes;
  const int rank;          // here; of strangers their number
  const ProcessName name;  // everywhere
  ReliableLink link;
  std::string address;  // the endpoint's
  std::uint64_t secret = 0;
  bool is_busy = false;
  bool answered = false;  // ever
  bool said_goodbye = false, got_farewell = false;
  bool is_leaving = false;                 // it said goodbye
  bool opens = false;                      // its link was opened here
  std::uint64_t changed_ns = 0;            // when the link began to be opened, or ended, last
  std::uint64_t goodbye_written = 0;       // that came with it
  std::uint64_t written = 0, arrived = 0;  // in the engine's rings, ever
  std::unordered_map<int, SendLaneState*> send_lanes;        // by channel
  std::unordered_map<int, ReceiveLaneState*> receive_lanes;  // by channel
  std::vector<SendLaneState*> unsent;    // lanes with something that the link has not taken
  std::vector<ReceiveLaneState*> owing;  // lanes that owe a count or credit
  OperationQueue waiting;
  std::vector<RemoteOperation*> under_way;  // the owner has to answer
  struct Answer {
    std::uint32_t id = 0;
    bool is_done = false;  // of a put, or of a get that is refused
    Code code = Code::ok;
    OwnerPlace place = {};  // of a get: the rest of it
    std::uint64_t sent = 0;
  };
  std::list<Answer> answers;       // that the link has not taken; of RemoteLanes' spare ones
  std::int64_t last_refused = -1;  // the put whose further pieces are not answered
};

}  // namespace weft::transport
