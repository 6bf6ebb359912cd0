#include "fabric/shm/endpoint.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/os/descriptor.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/ring.hpp"
#include "fabric/shm/segments.hpp"
#include "weft/copy.hpp"

namespace weft::fabric::shm {

namespace {

constexpr std::uint64_t kMagic = 0x31'4b4e'494c'5754;
constexpr std::uint32_t kRingStart = 64 << 10;
constexpr std::uint32_t kRingMost = 1 << 20;
constexpr std::size_t kRingStride = kRingMost + 4096;  // the last head's line, in whole pages
// Credit goes back in steps; a full ring has more than one of them to give back.
constexpr std::uint64_t kCreditStep = kRingStart / 4;
constexpr int kBatch = 32;  // messages of one link before the next link is polled

// A link whose ring is not polled, but waits for its socket, costs polls nothing.
constexpr std::size_t kAlwaysPolled = 4;     // links; more of them only while they have something
constexpr std::uint32_t kIdlePolls = 2000;   // polls in which a link had nothing
constexpr std::uint32_t kSocketEvery = 256;  // polls, while rings are polled

enum Wants : std::uint32_t { kWantsMessages = 1, kWantsRoom = 2 };

// The words at the start of the memory of a link. Index: 0 for the side that offered it.
struct SideWords {
  // Written by this side: the count of bytes read of the other's ring.
  alignas(64) std::atomic<std::uint64_t> consumed;
  // Set by this side before it sleeps, cleared by the other when it sends a byte.
  alignas(64) std::atomic<std::uint32_t> wants;
};
struct LinkHead {
  std::uint64_t magic;
  SideWords sides[2];
};
constexpr std::size_t kHeadBytes = 4096;
static_assert(sizeof(LinkHead) <= kHeadBytes);
constexpr std::size_t kLinkBytes = kHeadBytes + 2 * kRingStride;

struct ShmLink : Link {
  // Used by the posting thread:
  RingWriter writer;
  std::atomic<std::uint32_t>* peer_wants = nullptr;
  std::atomic<bool> is_down{false};
  // relaxed: a hint between the posting and the arming thread, which checks the ring itself.
  std::atomic<std::uint64_t> full_at{
      0};  // 1 + the peer's count when there was no room; 0: there was
  // Used by the polling thread:
  alignas(64) RingReader reader;
  std::atomic<std::uint32_t>* own_wants = nullptr;
  const std::atomic<std::uint64_t>* peer_consumed = nullptr;
  std::uint32_t idle_polls = 0;
  bool is_polled = false;
  bool is_armed = false;
  bool peer_is_gone = false;
  bool is_closed = false;
  int socket = -1;
  Mapping memory;

  // Sets which events the peer wakes this side for.
  void arm(bool wants) {
    is_armed = wants;
    own_wants->store(wants ? kWantsMessages | kWantsRoom : 0, std::memory_order_relaxed);
  }
  ~ShmLink() {
    if (socket >= 0) ::close(socket);
  }
};

void wake(ShmLink& link, std::uint32_t what) noexcept {
  // The order "publish, then check" is kept by the compiler here, and by the other side's
  // heavy_fence() between arming and its last check.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((link.peer_wants->load(std::memory_order_relaxed) & what) == 0) [[likely]]
    return;
  link.peer_wants->store(0, std::memory_order_relaxed);
  const char byte = 0;
  // EAGAIN: bytes wait there already. Other errors show at the socket's end.
  [[maybe_unused]] const auto sent = ::send(link.socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

class ShmEndpoint final : public Endpoint, private Mapped {
 public:
  ShmEndpoint() : epoll_(make_epoll()), can_fence_(heavy_fence_register()) {
    limits_ = {.message_max = RingWriter::max_length(kRingStart), .breaks = false};
  }

  std::string_view name() const noexcept override { return "shm"; }
  const Limits& limits() const noexcept override { return limits_; }
  std::string address() const override { return {}; }
  fabric::Mapped* mapped() noexcept override { return this; }

  Status open(Bytes, Bytes, Link*&) override { return Code::unsupported; }
  void close(Link& base) override;

  Code message(Link& base, Bytes head, Bytes body) override;

  bool poll(Events& events) override;
  bool arm() override;
  int wait_fd() const noexcept override { return epoll_.get(); }

 private:
  Status offer(Link*& link, std::vector<int>& descriptors) override;
  Status accept(std::span<const int> descriptors, Link*& link) override;
  Status allocate(std::size_t bytes, void*& address) override {
    return segments_.allocate(bytes, address);
  }
  void release(void* address) override { segments_.release(address); }
  Status share(const void* address, std::uint32_t rights, int& descriptor) override {
    return segments_.share(address, (rights & (kWrite | kAtomic)) != 0, descriptor);
  }
  Status map(const Descriptor& file, std::size_t bytes, std::uint32_t rights,
             Mapping& mapping) override {
    return map_segment(file, bytes, (rights & (kWrite | kAtomic)) != 0, mapping);
  }

  Status attach(std::unique_ptr<ShmLink> link, int side, Link*& out);
  void poll_often(ShmLink& link);
  bool read_ring(Events& events, ShmLink& link);
  void read_sockets();
  void send_to_sleep();

  const Descriptor epoll_;
  const bool can_fence_;
  Limits limits_;
  Segments segments_;
  std::vector<ShmLink*> polled_;  // null: closed or put to sleep meanwhile
  std::vector<ShmLink*> closed_;  // freed at the end of poll()
  std::size_t num_links_ = 0;
  std::uint32_t polls_ = 0;
  bool look_at_sockets_ = true;
  bool is_armed_ = false;
  bool in_poll_ = false;
};

Status ShmEndpoint::attach(std::unique_ptr<ShmLink> link, int side, Link*& out) {
  auto& head = *reinterpret_cast<LinkHead*>(link->memory.data());
  SideWords& own = head.sides[side];
  SideWords& peer = head.sides[1 - side];
  std::byte* rings = link->memory.data() + kHeadBytes;
  link->writer.attach(rings + side * kRingStride, kRingStart, kRingMost, &peer.consumed);
  link->reader.attach(rings + (1 - side) * kRingStride, kRingMost, &own.consumed);
  link->peer_wants = &peer.wants;
  link->own_wants = &own.wants;
  link->peer_consumed = &peer.consumed;
  // So that no later step lacks memory.
  for (auto* list : {&polled_, &closed_}) make_room(*list, 2 * (num_links_ + 1));
  if (!watch_for_input(epoll_, link->socket, link.get()))
    return {Code::no_memory, fmt::format("cannot watch a link: {}", std::strerror(errno))};
  ++num_links_;
  poll_often(*link);
  out = link.release();
  return {};
}

Status ShmEndpoint::offer(Link*& out, std::vector<int>& descriptors) {
  descriptors.reserve(2);
  auto link = std::make_unique<ShmLink>();
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
    return {Code::no_memory, fmt::format("cannot make a socket: {}", std::strerror(errno))};
  link->socket = pair[0];
  Descriptor other(pair[1]);
  Descriptor memory;
  if (Status status = make_segment("weft-link", kLinkBytes, memory, link->memory); !status)
    return status;
  reinterpret_cast<LinkHead*>(link->memory.data())->magic = kMagic;
  if (Status status = attach(std::move(link), 0, out); !status) return status;
  descriptors.clear();
  for (Descriptor* each : {&memory, &other}) descriptors.push_back(each->release());
  return {};
}

Status ShmEndpoint::accept(std::span<const int> descriptors, Link*& out) {
  if (descriptors.size() != 2) {
    for (const int descriptor : descriptors) ::close(descriptor);
    return {Code::corrupt, "a peer offers no link over shared memory"};
  }
  Descriptor memory(descriptors[0]), socket(descriptors[1]);
  auto link = std::make_unique<ShmLink>();
  link->socket = socket.release();
  if (Status status = map_segment(memory, kLinkBytes, true, link->memory); !status) return status;
  int domain = 0;
  socklen_t length = sizeof domain;
  // No other socket guarantees that a send or recv does not block.
  if (::getsockopt(link->socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 ||
      domain != AF_UNIX || reinterpret_cast<LinkHead*>(link->memory.data())->magic != kMagic)
    return {Code::corrupt, "a peer's link over shared memory is of another version"};
  return attach(std::move(link), 1, out);
}

void ShmEndpoint::close(Link& base) {
  auto& link = static_cast<ShmLink&>(base);
  link.is_closed = true;
  --num_links_;
  std::ranges::replace(polled_, &link, static_cast<ShmLink*>(nullptr));
  // Explicitly: the peer's copy of the descriptor, still under way, would keep the socket open.
  if (!link.is_down.load(std::memory_order_relaxed))
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket, nullptr);
  ::close(std::exchange(link.socket, -1));
  if (in_poll_)
    closed_.push_back(&link);
  else
    delete &link;
}

Code ShmEndpoint::message(Link& base, Bytes head, Bytes body) {
  auto& link = static_cast<ShmLink&>(base);
  const std::size_t length = head.size() + body.size();
  if (length > limits_.message_max) [[unlikely]]
    return Code::bad_argument;
  if (link.is_down.load(std::memory_order_relaxed)) [[unlikely]]
    return Code::peer_lost;
  std::byte* to = link.writer.reserve(length);
  if (to == nullptr) [[unlikely]] {
    link.full_at.store(1 + link.peer_consumed->load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
    // Takes the credit that the reader gave back before it could see that room is wanted.
    to = link.writer.reserve(length);
    if (to == nullptr) return Code::again;
  }
  std::memcpy(to, head.data(), head.size());
  if (!body.empty()) weft::detail::copy(to + head.size(), body.data(), body.size());
  link.writer.publish(1, static_cast<std::uint32_t>(length), 0);
  wake(link, kWantsMessages);
  return Code::ok;
}

void ShmEndpoint::poll_often(ShmLink& link) {
  link.idle_polls = 0;
  if (link.is_polled) return;
  link.is_polled = true;
  if (link.is_armed) link.arm(false);
  polled_.push_back(&link);
}

bool ShmEndpoint::read_ring(Events& events, ShmLink& link) {
  Entry entry;
  int count = 0;
  while (count < kBatch && link.reader.peek(entry)) {
    events.on_message(link, {entry.data, entry.length});
    if (link.is_closed) return true;
    link.reader.pop(entry.length);
    ++count;
    if (link.reader.unreturned() >= kCreditStep) [[unlikely]] {
      link.reader.return_credit(0);
      wake(link, kWantsRoom);
    }
  }
  if (count > 0) {
    link.idle_polls = 0;
    return true;
  }
  ++link.idle_polls;
  if (!link.peer_is_gone && !link.reader.broken()) [[likely]]
    return false;
  // All that the peer had sent has been delivered.
  if (link.is_down.exchange(true, std::memory_order_relaxed)) return false;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket, nullptr);
  events.on_down(link, link.reader.broken() ? Code::corrupt : Code::peer_lost);
  return true;
}

void ShmEndpoint::read_sockets() {
  epoll_event ready[64];
  const int count = ::epoll_wait(epoll_.get(), ready, 64, 0);
  for (int i = 0; i < count; ++i) {
    auto& link = *static_cast<ShmLink*>(ready[i].data.ptr);
    char bytes[64];
    const ssize_t length = ::recv(link.socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) link.peer_is_gone = true;
    poll_often(link);
  }
  look_at_sockets_ = count == 64;
}

// Links that had nothing for long wait for their sockets from now on.
void ShmEndpoint::send_to_sleep() {
  auto is_idle = [](const ShmLink* link) {
    return link != nullptr && link->idle_polls >= kIdlePolls;
  };
  std::size_t left = polled_.size();
  std::vector<ShmLink*> asleep;
  if (or_no_memory([&] { asleep.reserve(left); }) != Code::ok) return;  // later
  for (ShmLink*& link : polled_) {
    if (left <= kAlwaysPolled) break;
    if (!is_idle(link)) continue;
    link->is_polled = false;
    link->arm(true);
    asleep.push_back(std::exchange(link, nullptr));
    --left;
  }
  if (asleep.empty()) return;
  heavy_fence();
  Entry entry;
  for (ShmLink* link : asleep)
    if (link->reader.peek(entry) || link->reader.broken() || link->peer_is_gone)
      if (!link->is_down.load(std::memory_order_relaxed)) poll_often(*link);
}

bool ShmEndpoint::poll(Events& events) {
  in_poll_ = true;
  if (is_armed_) [[unlikely]] {
    is_armed_ = false;
    look_at_sockets_ = true;
    for (ShmLink* link : polled_)
      if (link != nullptr) link->arm(false);
  }
  if (++polls_ % kSocketEvery == 0 || look_at_sockets_ || polled_.empty()) {
    read_sockets();
    if (polled_.size() > kAlwaysPolled && can_fence_ && polls_ % (kSocketEvery * 4) == 0)
      send_to_sleep();
    std::erase(polled_, nullptr);
  }
  bool any = false;
  for (std::size_t i = 0; i < polled_.size(); ++i)
    if (polled_[i] != nullptr) any |= read_ring(events, *polled_[i]);
  in_poll_ = false;
  for (ShmLink* link : closed_) delete link;
  closed_.clear();
  return any;
}

bool ShmEndpoint::arm() {
  if (!can_fence_) return false;  // sleeps must be short
  is_armed_ = true;
  for (ShmLink* link : polled_)
    if (link != nullptr) link->arm(true);
  heavy_fence();
  Entry entry;
  for (ShmLink* link : polled_) {
    if (link == nullptr || link->is_down.load(std::memory_order_relaxed)) continue;
    if (link->reader.peek(entry) || link->peer_is_gone || link->reader.broken()) return false;
    const std::uint64_t full_at = link->full_at.load(std::memory_order_relaxed);
    if (full_at != 0 && full_at != 1 + link->peer_consumed->load(std::memory_order_relaxed)) {
      link->full_at.store(0, std::memory_order_relaxed);
      return false;
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<Endpoint> make_endpoint() { return std::make_unique<ShmEndpoint>(); }

}  // namespace weft::fabric::shm
