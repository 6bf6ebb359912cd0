#pragma once
// A link: one TCP connection. SendQueue: what waits to go out, in order. TcpLink: that, the
// requests under way, and what of a frame is still to come.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/os/descriptor.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/tcp/regions.hpp"
#include "fabric/tcp/wire.hpp"

namespace weft::fabric::tcp {

// Bytes of one frame, or more: `head` and `body` are copied if they cannot be sent at once. `kept`
// lasts until its request is done, or lies in the region of this secret.
struct Outgoing {
  Bytes frame = {}, head = {}, body = {}, kept = {};
  WorkRequest* request = nullptr;  // done when `kept` has gone out
  std::uint64_t secret = 0;
  std::uint64_t id = 0;  // of the put whose bytes `kept` are
};

// One thread at a time. Results: ok; not_permitted: a region was removed; no_memory, not_found,
// peer_lost: the connection is of no more use.
class SendQueue {
 public:
  // With room, if there is memory, for what a socket leaves of one message: a send that was begun
  // lacks none then.
  SendQueue() noexcept;
  bool is_empty() const noexcept { return waiting().empty(); }
  bool has_room() const noexcept { return num_copied() < kMostCopied; }
  bool has_room_in_place() const noexcept { return num_in_place_ < kMostInPlace; }
  // Returns true if a peer asks for more than it may while it takes nothing.
  bool is_flooded() const noexcept {
    return num_copied() > 4 * kMostCopied || waiting().size() > kMostSegments;
  }

  // Sends it at once if nothing is before it, and keeps what the socket does not take. again: there
  // is no memory for it, and none of it was sent.
  Code send(int fd, const Outgoing& out);
  // For the next flush().
  Code append(const Outgoing& out) { return add(out, 0); }
  // At most some MiB.
  Code flush(int fd, const Regions& regions);
  bool has_finished() const noexcept { return num_finished_ > 0; }
  // Takes a request that has gone out, or with `all` one that waits for it; null: none.
  WorkRequest* take_finished() noexcept;
  WorkRequest* take_any() noexcept;
  // A request that could not be posted is never done.
  void forget(const WorkRequest& request) noexcept;
  // Returns true if bytes of this put have not gone out.
  bool has_put(std::uint64_t id) const noexcept;

 private:
  static constexpr std::size_t kMostCopied = 256 << 10;
  static constexpr std::size_t kMostInPlace = 32;
  static constexpr std::size_t kMostSegments = 4096;

  struct Segment {
    const std::byte* from;  // null: the next of copied_
    std::size_t bytes;
    WorkRequest* request;
    std::uint64_t secret;
    std::uint64_t id;
  };
  std::size_t num_copied() const noexcept { return copied_.size() - begin_; }
  std::span<Segment> waiting() noexcept { return std::span(segments_).subspan(first_); }
  std::span<const Segment> waiting() const noexcept { return std::span(segments_).subspan(first_); }
  void make_space(const Outgoing& out);
  Code add(const Outgoing& out, std::size_t sent);
  void copy(Bytes bytes) noexcept;
  void remove_sent(std::size_t bytes);

  std::vector<std::byte> copied_;
  std::size_t begin_ = 0;  // of what is not sent in copied_
  std::vector<Segment> segments_;
  std::size_t first_ = 0;         // of those that are not sent
  std::size_t num_in_place_ = 0;  // requests, also finished ones
  std::array<WorkRequest*, kMostInPlace> finished_;
  std::size_t num_finished_ = 0;
};

// A put or get that the peer has not answered.
struct Asked {
  WorkRequest* request = nullptr;  // null: free
  std::byte* to = nullptr;         // of a get
  std::uint32_t bytes = 0;
  std::uint32_t uses = 0;  // upper half of the id
  bool is_get = false, has_data = false;
};

struct TcpLink : Link {
  enum class State { greeting, asking, up, down };

  Descriptor socket;
  State state = State::greeting;  // changed by the polling thread, under the mutex
  bool is_closed = false;         // by the client, during a poll()

  // The sending side, under the mutex.
  std::mutex mutex;
  SendQueue queue;
  std::vector<Asked> asked;
  std::vector<std::uint32_t> free_asked;
  Code why = Code::ok;      // not ok: it breaks, which the next poll() reports
  bool wants_room = false;  // epoll tells when the socket takes more

  // In the list of those that the next poll() looks at; the next one there.
  std::atomic<bool> is_listed{false};
  TcpLink* next_listed = nullptr;

  // The receiving side, of the polling thread: the frame that has not come in whole.
  enum class To : std::uint8_t { nothing, stash, region, user, nowhere } to = To::nothing;
  Frame frame{};
  Access access{};
  std::byte* at = nullptr;      // where the next byte of its payload goes
  std::size_t missing = 0;      // bytes of its payload
  std::size_t padding = 0;      // and behind that
  std::size_t num_carried = 0;  // bytes of its head
  std::array<std::byte, kMostHead> carried{};
  std::array<std::byte, kMessageMax> stash;  // untouched pages take no memory
  bool has_answers = false;                  // appended to the queue, which is to be flushed
  std::uint64_t since_ns = 0;                // greeting: when it was accepted

  // Of a request that ends: its id's entry; null: the peer was not asked.
  Asked* find_asked(std::uint64_t id) noexcept;
  WorkRequest* take_asked() noexcept;  // any; null: none
};

}  // namespace weft::fabric::tcp
