#pragma once
// The state that a rank's lanes keep of another rank. All of it is under the lock of RemoteLanes,
// except atomics, which the threads of lanes read, and what a lane's writer posts by itself, which
// is under that lane's lock.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/containers/list.hpp"
#include "base/os/mapping.hpp"
#include "base/spin_lock.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/ring.hpp"
#include "job/members.hpp"
#include "lanes/lanes.hpp"
#include "rma/target_side.hpp"

namespace weft::transport {

class RemoteLanes;
struct RankPeer;

inline constexpr std::size_t kRingPage = 4096;
struct ReceiveLaneState;

// Memory of a ring, of which a part from its start on is registered. That grows once, by a second
// registration, as requests may use the first.
struct RingMemory {
  explicit RingMemory(fabric::Endpoint& by) : endpoint(by) {}
  RingMemory(const RingMemory&) = delete;
  ~RingMemory() { deregister(); }
  // False: it has grown, and is never registered again.
  bool grows() const { return num_made < made.size(); }
  // Takes a registration of the first `bytes`, which are more than before.
  void take(const fabric::Registration& registration, std::size_t bytes) {
    made.at(num_made++) = registration;
    registered_bytes = bytes;
    pinned_bytes += bytes;
  }
  // Before the endpoint's end.
  void deregister() noexcept {
    while (num_made > 0) endpoint.deregister(made[--num_made]);
    registered_bytes = 0;
  }
  const fabric::Registration& registration() const { return made[num_made - 1]; }

  fabric::Endpoint& endpoint;
  Mapping memory;
  std::size_t registered_bytes = 0;
  std::size_t pinned_bytes = 0;  // by all registrations, as its owner counts them

 private:
  std::array<fabric::Registration, 2> made;
  std::size_t num_made = 0;
};

// The memory where a lane's entries are built. The fabric may read there until `under_way` is 0,
// also bytes that the peer has got already.
struct Mirror : RingMemory, fabric::WorkRequest {
  explicit Mirror(fabric::Endpoint& by) : RingMemory(by) { done = on_done; }
  static void on_done(fabric::WorkRequest& request, Code code) noexcept {
    auto& mirror = static_cast<Mirror&>(request);
    mirror.under_way.fetch_sub(1, std::memory_order_relaxed);
    mirror.was_cut_off = mirror.was_cut_off || code != Code::ok;
  }
  bool was_cut_off = false;  // the fabric may still read there, as long as the endpoint lives
  std::atomic<std::size_t> under_way{0};
};

struct SendLaneState {
  // Places a range of entry bytes, from a position on, in the mirror: a new segment begins at each
  // wrap, at each return to the start, and where the full ring begins. The bytes under way fill at
  // most a ring, which two segments cover, and the initial ring, which two cover.
  struct Segment {
    std::uint64_t position;
    std::uint32_t offset;
    std::uint8_t flags;  // kRestart, kFullRing: of its first message
    bool is_full;        // in the mirror's memory, else in the initial ring
  };
  static constexpr std::size_t kMaxSegments = 4;

  RankPeer* peer = nullptr;
  int channel = 0;
  std::uint32_t number = 0;
  std::uint32_t ring = 0;  // the reader's number
  std::uint32_t ring_bytes = 0;
  enum { asking, open, refused, closed } state = asking;
  Code code = Code::ok;  // refused
  std::uint64_t asked_ns = 0;
  std::unique_ptr<Mirror> mirror;  // once full
  // Of the first mirror->registered_bytes of the ring; before, entries go by messages.
  fabric::Key key{};                 // under `lock`
  ReceiveLaneState* back = nullptr;  // the lane of the same threads in the other direction

  // From here to is_held: what the writer's thread uses without the lock of RemoteLanes, which a
  // thread that holds that one takes as well.
  SpinLock lock;
  // In bytes of entries since the start: accepted from the writer, sent over this link.
  std::uint64_t accepted = 0, sent = 0;
  std::vector<Segment> segments;
  bool restarts = false;           // with the bytes that are accepted next
  bool is_full = false;            // bytes that are accepted now lie in the mirror's memory
  std::uint64_t short_ns = 0;      // since when there has been none for that
  bool waits_count = false;        // a link came up: the count of arrived bytes is not known yet
  bool is_listed = false;          // in the peer's `unsent`
  bool is_held = false;            // accepted bytes may wait for more
  std::uint64_t let_go_after = 0;  // the poll after which something was last not held

  alignas(64) std::byte initial[kInitialRingBytes + kEntryAlign] = {};
  alignas(64) std::atomic<std::uint64_t> credit{0};
};

struct ReceiveLaneState {
  explicit ReceiveLaneState(fabric::Endpoint& endpoint) : ring(endpoint) {}
  RankPeer* peer = nullptr;
  int channel = 0;
  std::uint32_t number = 0;
  std::uint32_t writer = 0;  // the peer's number
  std::uint32_t ring_bytes = 0;
  bool closed = false;
  bool owes_credit = false;
  bool owes_count = false;
  bool lacks_registration = false;
  std::uint64_t word = 0;      // of credit, last given
  RingMemory ring;             // once full
  std::uint64_t short_ns = 0;  // since when there has been no memory for it
  FullRing full;
  SendLaneState* back = nullptr;

  alignas(64) std::byte initial[kInitialRingBytes + kEntryAlign] = {};
  alignas(64) std::atomic<std::uint64_t> arrived{0};
  std::atomic<std::uint64_t> restarted{kNeverRestarted};
  std::atomic<std::uint64_t> reported{0};
  std::atomic<std::uint64_t> consumed{0};  // by the reader, see ReceiveMemory::reported
  Arrival arrival;
  Arrivals* arrivals = nullptr;
};

struct RemoteOperation : AccessRequest {
  RemoteLanes* lanes = nullptr;
  RankPeer* peer = nullptr;
  Completion* completion = nullptr;
  RemoteRange range{};
  std::uint64_t* previous_to = nullptr;
  RemoteOperation *next = nullptr, *before = nullptr;
  bool is_under_way = false;  // else it waits
  bool is_fabrics = false;    // the fabric has it, until done()
};

struct RankPeer final : TargetSide::Memory {
  RankPeer(RemoteLanes& of, int number, const ProcessName& called)
      : lanes(of), rank(number), name(called), link(*this), target_side(link, *this) {}
  void make_busy() override;
  bool is_at_work() const override;
  bool is_starting() const override;
  std::byte* find_shared(const RemoteRange& range, std::uint32_t rights, Code& code) override;
  fabric::WorkRequest* pin(const RemoteRange& range, std::size_t bytes) override;

  RemoteLanes& lanes;
  const int rank;          // here; of foreign processes their number
  const ProcessName name;  // everywhere
  ReliableLink link;
  TargetSide target_side;
  std::string address;  // the endpoint's
  std::uint64_t secret = 0;
  bool is_busy = false;
  bool answered = false;  // ever
  bool said_goodbye = false, got_farewell = false;
  bool is_leaving = false;                // it said goodbye
  int num_refusals = 0;                   // of links to it since it left, or since its last message
  std::uint64_t changed_ns = 0;           // when the link began to be opened, or ended, last
  std::uint64_t goodbye_written = 0;      // that came with it
  std::atomic<std::uint64_t> written{0};  // in the engine's rings, ever
  std::uint64_t arrived = 0;              // the same
  // The two lanes between two threads, by the channel of the sending one.
  struct Pair {
    SendLaneState* send = nullptr;
    ReceiveLaneState* receive = nullptr;
  };
  std::unordered_map<int, Pair> pairs;
  bool sends() const {
    return std::ranges::any_of(pairs, [](const auto& item) { return item.second.send != nullptr; });
  }
  std::vector<SendLaneState*> unsent;    // lanes with something that the link has not taken
  std::vector<ReceiveLaneState*> owing;  // lanes that owe a count or credit
  List<RemoteOperation> waiting, under_way;
  std::size_t num_under_way = 0;
};

}  // namespace weft::transport
