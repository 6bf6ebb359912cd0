#include "fabric/ofi/messages.hpp"

#include <fmt/core.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/log.hpp"
#include "base/os/descriptor.hpp"
#include "base/os/mapping.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/library.hpp"

namespace weft::fabric::ofi {

namespace {

namespace lib = weft::ofi;

// given_up: the sender's hello is withdrawn; messages behind it would reach no link.
enum class Kind : std::uint16_t { hello = 1, accept, message, closed, given_up };

struct Head {
  // Of the link, as its receiver chose it; hello, given_up: as its sender did.
  std::uint64_t token;
  Kind kind;
  // Of message: the provider replaces a broken connection silently, and a gap in these numbers
  // shows that messages were lost with it.
  std::uint16_t sequence;
  std::uint32_t length;  // of what follows
};
static_assert(sizeof(Head) == 16);
struct HelloBody {
  std::uint16_t address_bytes, hello_bytes;
  char address[kMaxAddressBytes];
  std::byte hello[kMaxHelloBytes];
};

// The longest message. ofi_rxm sends no more without asking first.
constexpr std::size_t kBufferBytes = (128 << 10) + 128, kBufferBytesRxm = 16 << 10;
// The native endpoints over TCP take a buffer when a message comes: few are enough, and stay in the
// caches.
constexpr std::size_t kNumReceives = 64, kFewReceives = 16, kNumSends = 64;
constexpr int kBatch = kFewReceives;  // completions that are read at once: no more receives end
constexpr std::size_t kSendsOfLink = 32;
constexpr std::size_t kMostBuffers = 4096;
constexpr std::size_t kMaxRefusals = 64;
constexpr std::size_t kInPlaceMin = 4096;  // a shorter body is copied faster than it is waited for
constexpr std::size_t kMaxInject = 512;
constexpr std::size_t kMaxEvents = 4;  // of a link, other than messages, that wait at a time
constexpr std::uint64_t kGoodbyeNs = 50'000'000;
constexpr std::uint64_t kHelloAgainNs = 200'000;
constexpr unsigned kVainArms = 64;

// An operation of the provider, identified by the address of its context.
struct Posted {
  fi_context2 context;
  bool is_rma = false;  // a PostedGet, else a Buffer
};

struct Buffer : Posted {
  fid_mr* mr = nullptr;            // of its data, where the provider wants that
  fid_ep* receives = nullptr;      // that it is posted to; null: it sends
  std::uint64_t link;              // own token of the link that sends
  WorkRequest* request = nullptr;  // of a message in place
  std::byte* data;
};

// A get. Lives until the provider has completed it, even if no request waits for it.
struct PostedGet : Posted {
  std::uint64_t link = 0;          // own token
  WorkRequest* request = nullptr;  // null: no request waits any more
  fid_mr* local = nullptr;         // of `here`, where the provider wants that
  // The buffer in place of `here` when no request waits, as nothing keeps the provider from writing
  // to it once the link is closed.
  std::unique_ptr<std::byte[]> copy;
  void* here = nullptr;
  std::size_t bytes = 0;
};

// An endpoint that links are opened from. Endpoints of the provider that connect by themselves have
// one connection to each peer, which stays as long as the endpoint, so that a new connection takes
// a new one.
struct Opener {
  fid_ep* ep = nullptr;
  std::string address;
  std::size_t num_links = 0;
  std::vector<std::string> distrusted;  // addresses of peers to which it has a silent connection
};

struct OfiLink : Link {
  fid_ep* ep = nullptr;      // the opener's, or the one that the peer opened
  Opener* opener = nullptr;  // null: the peer's
  fi_addr_t peer = FI_ADDR_UNSPEC;
  // Of the other end: of the peer's opener, until it is let in, or of the endpoint that is opened.
  char address[kMaxAddressBytes];
  std::uint64_t own_token = 0, peer_token = 0;
  bool is_up = false, is_down = false;
  bool is_cut_off = false;                       // closed here while it was up
  std::size_t num_sends = 0;                     // under way
  std::uint16_t num_sent = 0, num_received = 0;  // messages
};

class OfiEndpoint final : public Endpoint {
 public:
  explicit OfiEndpoint(std::unique_ptr<lib::Endpoint> endpoint) : ep_(std::move(endpoint)) {
    const std::string_view provider = ep_->info().fabric_attr->prov_name;
    buffer_bytes_ = provider.ends_with("ofi_rxm") ? kBufferBytesRxm : kBufferBytes;
    // The ring's size, so that an entry is as long as one message carries, and credit, which costs
    // a message, is seldom sent.
    limits_ = {.message_max = buffer_bytes_ - sizeof(Head),
               .lane_eager_max = 64u << 10,
               .lane_ring_min = 1056u << 10};
    if (!ep_->has_mode(FI_MR_LOCAL)) limits_.in_place_min = kInPlaceMin;
    // Over TCP a get is software on the target side anyway. When a connection ends in the middle of
    // the answer to a read, the tcp provider of libfabric 1.17 ends that read twice and uses freed
    // memory; and nothing closes one connection of its native endpoints, so that late bytes could
    // still come into a buffer that has been given up.
    is_over_tcp_ = lib::is_tcp(provider);
    limits_.gets = !is_over_tcp_;
    inject_max_ = std::min(ep_->info().tx_attr->inject_size, kMaxInject);
  }
  ~OfiEndpoint() override;

  Status start();
  std::string_view name() const noexcept override { return "ofi"; }
  const Limits& limits() const noexcept override { return limits_; }
  std::string address() const override { return ep_->address(); }
  std::string kind() const override {
    return fmt::format("{}/{}", ep_->info().fabric_attr->prov_name, ep_->address().size());
  }
  std::string way_to(Bytes address) const override {
    const std::string to =
        address_text({reinterpret_cast<const char*>(address.data()), address.size()});
    std::string text = ep_->info().fabric_attr->prov_name;
    if (!to.empty())
      text += fmt::format(" from {} to {} (WEFT_INTERFACE chooses others)",
                          list_text({ep_->interface()}), to);
    return text;
  }

  Bytes listener_of(Bytes address) const override { return is_over_tcp_ ? address : Bytes(); }
  std::string interface_address() const override {
    return is_over_tcp_ ? ep_->interface().address : std::string();
  }
  Status open(Bytes address, Bytes hello, Link*& link) override;
  void distrust(Link& link) override;
  Status open_locked(Bytes address, Bytes hello, Link*& link);
  void close(Link& link) override;
  Status register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                         Registration& registration) override;
  void deregister(Registration& registration) override;
  Code get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
           WorkRequest& request) override;
  Code message(Link& link, Bytes head, Bytes body) override {
    return post(static_cast<OfiLink&>(link), head, body, nullptr);
  }
  Code message_in_place(Link& link, Bytes head, Bytes body, WorkRequest& request) override {
    return post(static_cast<OfiLink&>(link), head, body, &request);
  }
  bool poll(Events& events) override;
  bool arm() override {
    std::lock_guard lock(mutex_);
    // A connection that waits to be accepted, for which there is no descriptor, keeps the wait's
    // descriptor readable. Nothing can be done for it, so it is looked at now and then.
    if (++num_vain_arms_ % kVainArms == 0 && !has_descriptors_left())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // What waits for a connection is woken by it, or by the next look at it.
    const bool is_idle = std::ranges::all_of(
        events_, [](const Event& event) { return event.kind == EventKind::hello_again; });
    return is_idle && !std::exchange(may_hold_, false) && ep_->try_wait();
  }
  int wait_fd() const noexcept override { return ep_->wait_fd(); }

 private:
  enum class EventKind { incoming, accept_again, hello_again, up, down, message };
  struct Event {
    EventKind kind;
    std::uint64_t link;
    Code code = Code::ok;
    std::vector<std::byte> data = {};
    Buffer* buffer = nullptr;  // message: posted again afterwards
    std::uint64_t at_ns = 0;   // hello_again: not before
  };

  // All under mutex_.
  OfiLink* find(std::uint64_t token) {
    const auto found = links_.find(token);
    return found == links_.end() ? nullptr : found->second;
  }
  OfiLink* add_link(fid_ep* ep, fi_addr_t peer, Opener* opener = nullptr) {
    // Reserves space, so that later events of the link are noted without an allocation.
    events_.reserve(num_receives_ + kMaxEvents * (links_.size() + 1));
    auto link = std::make_unique<OfiLink>();
    link->ep = ep;
    link->peer = peer;
    link->opener = opener;
    while (link->own_token == 0 || links_.contains(link->own_token))
      if (::getrandom(&link->own_token, sizeof link->own_token, 0) < 0) link->own_token = 0;
    links_[link->own_token] = link.get();
    if (opener != nullptr) ++opener->num_links;
    return link.release();
  }
  Code post(OfiLink& link, Bytes head, Bytes body, WorkRequest* request) {
    if (head.size() + body.size() > limits_.message_max) return Code::bad_argument;
    std::lock_guard lock(mutex_);
    if (link.is_down) return Code::peer_lost;
    if (!link.is_up || link.num_sends >= kSendsOfLink) return Code::again;
    const Code code = send(link, Kind::message, link.peer_token, head, body, request);
    if (code == Code::ok) ++link.num_sent;
    return code;
  }
  Code send(OfiLink& link, Kind kind, std::uint64_t token, Bytes head, Bytes body,
            WorkRequest* request = nullptr);
  void post_receive(Buffer& buffer);
  void take_down(OfiLink& link, Code why) {
    if (std::exchange(link.is_down, true)) return;
    events_.push_back({EventKind::down, link.own_token, why});
  }
  void on_received(Buffer& buffer, std::size_t length, Events* events,
                   std::unique_lock<std::mutex>& lock);
  void on_hello(const Head& head, Bytes bytes);
  void on_given_up(std::uint64_t token);
  WorkRequest* take_request(std::uint64_t link);
  bool read_completions(Events* events, std::unique_lock<std::mutex>& lock);
  void end(Posted& posted, int error, std::size_t length, Events* events,
           std::unique_lock<std::mutex>& lock);
  void end_send(Buffer& buffer, bool is_good, std::unique_lock<std::mutex>& lock);
  void end_get(PostedGet& transfer, int error, std::unique_lock<std::mutex>& lock);
  Status add_opener();
  void close_unused_openers();
  // Posts new buffers to this endpoint; null: they are for sending.
  Status add_buffers(std::size_t count, fid_ep* receives);
  bool need_send_buffer();
  Status register_for(void* address, std::size_t bytes, std::uint64_t access, fid_mr*& mr);
  static void close_local(PostedGet& transfer) {
    if (transfer.local != nullptr) fi_close(&transfer.local->fid);
    transfer.local = nullptr;
  }
  void dispatch(Events& events, Event& event);
  void accept(OfiLink& link, std::uint64_t number);

  std::mutex mutex_;
  std::unique_ptr<lib::Endpoint> ep_;
  Limits limits_;
  bool is_over_tcp_ = false;
  std::vector<std::unique_ptr<Opener>> openers_;  // the last one opens links
  fid_ep closed_ep_{};                            // in place of those that were closed
  std::vector<Buffer*> spare_receives_;           // that were posted to those
  std::vector<fid_mr*> mrs_;
  std::size_t num_refused_ = 0;
  std::size_t buffer_bytes_ = 0, inject_max_ = 0, num_receives_ = 0;
  // There may be more than a descriptor shows: completions, or what the provider holds while
  // receive buffers wait in events_.
  bool may_hold_ = false;
  unsigned num_vain_arms_ = 0;  // since something came
  std::deque<Buffer> buffers_;
  std::deque<weft::Mapping> more_memory_;
  std::vector<Buffer*> free_;
  std::deque<PostedGet> gets_;
  std::vector<PostedGet*> free_gets_;
  std::unordered_map<std::uint64_t, OfiLink*> links_;  // by own token
  std::vector<Event> events_;
};

Status OfiEndpoint::start() {
  if (ep_->is_native_tcp()) {
    // Two of these that connect to each other at once may end up unconnected (libfabric 1.17), so
    // some only connect, and one is only connected to.
    if (Status status = add_opener(); !status) return status;
  } else {
    openers_.push_back(std::make_unique<Opener>());
    openers_.back()->ep = ep_->ep();
    openers_.back()->address = ep_->address();
  }
  if (Status status = add_buffers(ep_->is_native_tcp() ? kFewReceives : kNumReceives, ep_->ep());
      !status)
    return status;
  return add_buffers(kNumSends, nullptr);
}

Status OfiEndpoint::add_opener() {
  make_room(openers_);
  auto opener = std::make_unique<Opener>();
  if (Status status = ep_->add_opener(opener->ep, opener->address); !status) return status;
  openers_.push_back(std::move(opener));
  fid_ep* ep = openers_.back()->ep;
  std::size_t num_posted = 0;
  for (; num_posted < kFewReceives && !spare_receives_.empty(); ++num_posted) {
    Buffer& buffer = *spare_receives_.back();
    spare_receives_.pop_back();
    buffer.receives = ep;
    post_receive(buffer);
  }
  return num_posted < kFewReceives ? add_buffers(kFewReceives - num_posted, ep) : Status();
}

void OfiEndpoint::close_unused_openers() {
  for (std::size_t i = 0; i + 1 < openers_.size();) {
    if (openers_[i]->num_links > 0) {
      ++i;
      continue;
    }
    fid_ep* ep = openers_[i]->ep;
    make_room(spare_receives_, num_receives_);
    for (Buffer& buffer : buffers_)
      if (buffer.receives == ep) buffer.receives = &closed_ep_;
    ep_->close_opener(ep);
    openers_.erase(openers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Status OfiEndpoint::add_buffers(std::size_t count, fid_ep* receives) {
  weft::Mapping memory;
  if (Status status = memory.map(count * buffer_bytes_); !status) return status;
  fid_mr* mr = nullptr;
  if (ep_->has_mode(FI_MR_LOCAL)) {
    make_room(mrs_);
    if (Status status = register_for(memory.data(), memory.bytes(), FI_SEND | FI_RECV, mr); !status)
      return status;
    mrs_.push_back(mr);
  }
  std::byte* data = memory.data();
  more_memory_.push_back(std::move(memory));
  make_room(free_, buffers_.size() + count);  // giving back takes no memory
  for (std::size_t i = 0; i < count; ++i, data += buffer_bytes_) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.data = data;
    buffer.mr = mr;
    if (receives != nullptr) {
      buffer.receives = receives;
      post_receive(buffer);
    } else {
      free_.push_back(&buffer);
    }
  }
  if (receives != nullptr) num_receives_ += count;
  return {};
}

// A peer that takes nothing keeps what is under way to it, and the provider keeps that even after
// the link's end. The other peers must not wait for it.
bool OfiEndpoint::need_send_buffer() {
  if (!free_.empty()) return true;
  if (buffers_.size() >= kMostBuffers) return false;
  return or_no_memory([&] { return add_buffers(kSendsOfLink, nullptr); }).ok();
}

OfiEndpoint::~OfiEndpoint() {
  // The messages that report closed links are still to be sent.
  for (const std::uint64_t limit = now_ns() + kGoodbyeNs;
       free_.size() < buffers_.size() - num_receives_ && now_ns() < limit;) {
    std::unique_lock lock(mutex_);
    read_completions(nullptr, lock);
  }
  for (auto& [token, link] : links_) delete link;
  for (PostedGet& transfer : gets_) close_local(transfer);
  ep_.reset();
  for (fid_mr* mr : mrs_) fi_close(&mr->fid);
}

void OfiEndpoint::post_receive(Buffer& buffer) {
  if (buffer.receives == &closed_ep_) [[unlikely]]
    return spare_receives_.push_back(&buffer);
  void* descriptor = buffer.mr != nullptr ? fi_mr_desc(buffer.mr) : nullptr;
  const ssize_t error = fi_recv(buffer.receives, buffer.data, buffer_bytes_, descriptor,
                                FI_ADDR_UNSPEC, &buffer.context);
  if (error != 0) log_line(LogLevel::error, -1, "ofi: fi_recv: {}", lib::error_text(error));
}

Code OfiEndpoint::send(OfiLink& link, Kind kind, std::uint64_t token, Bytes head, Bytes body,
                       WorkRequest* request) {
  const std::size_t length = head.size() + body.size();
  const Head first{token, kind, link.num_sent, static_cast<std::uint32_t>(length)};
  const bool is_short = sizeof first + length <= inject_max_ && request == nullptr;
  std::byte on_stack[kMaxInject];
  if (!is_short && !need_send_buffer()) return Code::again;
  std::byte* to = is_short ? on_stack : free_.back()->data;
  std::memcpy(to, &first, sizeof first);
  if (!head.empty()) std::memcpy(to + sizeof first, head.data(), head.size());
  if (!body.empty() && request == nullptr)
    std::memcpy(to + sizeof first + head.size(), body.data(), body.size());
  ssize_t error = 0;
  if (is_short) {
    error = fi_inject(link.ep, to, sizeof first + length, link.peer);
  } else {
    iovec parts[] = {{to, sizeof first + length}, {const_cast<std::byte*>(body.data()), 0}};
    if (request != nullptr) {
      parts[0].iov_len = sizeof first + head.size();
      parts[1].iov_len = body.size();
    }
    fid_mr* mr = free_.back()->mr;
    void* descriptor = mr != nullptr ? fi_mr_desc(mr) : nullptr;
    fi_msg message{};
    message.msg_iov = parts;
    message.desc = mr != nullptr ? &descriptor : nullptr;
    message.iov_count = request != nullptr ? 2 : 1;
    message.addr = link.peer;
    message.context = &free_.back()->context;
    error = fi_sendmsg(link.ep, &message, FI_COMPLETION);
  }
  if (error == -FI_EAGAIN) return Code::again;
  if (error != 0) {
    take_down(link, Code::peer_lost);
    return Code::peer_lost;
  }
  if (is_short) return Code::ok;
  Buffer& buffer = *free_.back();
  free_.pop_back();
  buffer.link = link.own_token;
  buffer.request = request;
  ++link.num_sends;
  return Code::ok;
}

Status OfiEndpoint::open(Bytes address, Bytes hello, Link*& out) {
  if (address.size() != ep_->address().size() || hello.size() > kMaxHelloBytes)
    return Code::bad_argument;
  std::lock_guard lock(mutex_);
  return or_no_memory([&] { return open_locked(address, hello, out); });
}

Status OfiEndpoint::open_locked(Bytes address, Bytes hello, Link*& out) {
  fi_addr_t peer = FI_ADDR_UNSPEC;
  if (fi_av_insert(ep_->av(), address.data(), 1, &peer, 0, nullptr) != 1)
    return {Code::bad_argument, "libfabric does not take the peer's address"};
  const std::string_view to{reinterpret_cast<const char*>(address.data()), address.size()};
  if (const auto& distrusted = openers_.back()->distrusted;
      std::ranges::find(distrusted, to) != distrusted.end())
    if (Status status = add_opener(); !status) return status;
  close_unused_openers();
  Opener& opener = *openers_.back();
  HelloBody body{};
  const std::string& own = opener.address;
  body.address_bytes = static_cast<std::uint16_t>(own.size());
  body.hello_bytes = static_cast<std::uint16_t>(hello.size());
  std::memcpy(body.address, own.data(), own.size());
  if (!hello.empty()) std::memcpy(body.hello, hello.data(), hello.size());
  const auto* first = reinterpret_cast<const std::byte*>(&body);
  Event again{EventKind::hello_again, 0, Code::ok, {first, first + sizeof body}};
  OfiLink* link = add_link(opener.ep, peer, &opener);
  std::memcpy(link->address, address.data(), address.size());
  again.link = link->own_token;
  const Code code = send(*link, Kind::hello, link->own_token, {first, sizeof body}, {});
  if (code == Code::again) events_.push_back(std::move(again));  // as while a connection is made
  out = link;
  return {};
}

void OfiEndpoint::distrust(Link& base) {
  const auto& link = static_cast<OfiLink&>(base);
  // Other providers choose connections by themselves.
  if (link.opener == nullptr || !ep_->is_native_tcp()) return;
  std::lock_guard lock(mutex_);
  // Without memory for its address the old connection is used again.
  [[maybe_unused]] const Code code = or_no_memory(
      [&] { link.opener->distrusted.emplace_back(link.address, ep_->address().size()); });
}

void OfiEndpoint::close(Link& base) {
  auto& link = static_cast<OfiLink&>(base);
  std::unique_lock lock(mutex_);
  link.is_cut_off = link.is_up && !link.is_down;
  if (!link.is_down && link.peer != FI_ADDR_UNSPEC) {
    // Best effort: silence ends the link at the peer as well. Without a message, a peer that may
    // have let this link in already would keep it.
    const bool was_answered = link.peer_token != 0;
    [[maybe_unused]] const Code code = was_answered
                                           ? send(link, Kind::closed, link.peer_token, {}, {})
                                           : send(link, Kind::given_up, link.own_token, {}, {});
  }
  for (auto it = events_.begin(); it != events_.end();) {
    if (it->link != link.own_token) {
      ++it;
      continue;
    }
    if (it->buffer != nullptr) post_receive(*it->buffer);
    it = events_.erase(it);
  }
  if (link.is_cut_off && buffers_.size() < kMostBuffers) {
    // It may have stopped in the middle of a message, whose buffer the provider keeps.
    [[maybe_unused]] const Status status = or_no_memory([&] { return add_buffers(2, link.ep); });
  }
  const std::uint64_t token = link.own_token;
  links_.erase(token);
  if (link.opener != nullptr) --link.opener->num_links;
  delete &link;
  while (WorkRequest* request = take_request(token)) {
    lock.unlock();
    request->done(*request, Code::cancelled);
    lock.lock();
  }
}

// Takes a request that this link has under way, which ends now; null: none is left.
WorkRequest* OfiEndpoint::take_request(std::uint64_t link) {
  for (Buffer& buffer : buffers_)
    if (buffer.request != nullptr && buffer.link == link)
      return std::exchange(buffer.request, nullptr);
  for (PostedGet& transfer : gets_) {
    if (transfer.request == nullptr || transfer.link != link) continue;
    close_local(transfer);
    return std::exchange(transfer.request, nullptr);
  }
  return nullptr;
}

void OfiEndpoint::on_hello(const Head& head, Bytes bytes) {
  HelloBody body;
  if (bytes.size() != sizeof body || head.token == 0) return;
  std::memcpy(&body, bytes.data(), sizeof body);
  if (body.address_bytes != ep_->address().size() || body.hello_bytes > kMaxHelloBytes) return;
  // Without memory there is no answer, and the peer tries again.
  [[maybe_unused]] const Code code = or_no_memory([&] {
    Event event{EventKind::incoming, 0, Code::ok, {body.hello, body.hello + body.hello_bytes}};
    OfiLink* link = add_link(ep_->ep(), FI_ADDR_UNSPEC);
    link->peer_token = head.token;
    std::memcpy(link->address, body.address, body.address_bytes);
    event.link = link->own_token;
    events_.push_back(std::move(event));
  });
}

void OfiEndpoint::on_given_up(std::uint64_t token) {
  for (auto& [own, link] : links_)
    if (link->peer_token == token && link->ep == ep_->ep())
      return take_down(*link, Code::peer_lost);
}

// The buffer goes back here, or with the event that shows it.
void OfiEndpoint::on_received(Buffer& buffer, std::size_t length, Events* events,
                              std::unique_lock<std::mutex>& lock) {
  Head head;
  bool is_shown = false;
  if (length >= sizeof head) {
    std::memcpy(&head, buffer.data, sizeof head);
    const Bytes bytes{buffer.data + sizeof head, length - sizeof head};
    if (head.length == bytes.size()) {
      const bool is_openers = head.kind == Kind::hello || head.kind == Kind::given_up;
      OfiLink* link = is_openers ? nullptr : find(head.token);
      if (head.kind == Kind::hello) {
        on_hello(head, bytes);
      } else if (link != nullptr && head.kind == Kind::accept && !link->is_up &&
                 bytes.size() == sizeof link->peer_token) {
        std::memcpy(&link->peer_token, bytes.data(), sizeof link->peer_token);
        link->is_up = true;
        events_.push_back({EventKind::up, link->own_token});
      } else if (head.kind == Kind::given_up) {
        on_given_up(head.token);
      } else if (link != nullptr && head.kind == Kind::closed) {
        take_down(*link, Code::peer_lost);
      } else if (link != nullptr && head.kind == Kind::message && link->is_up && !link->is_down) {
        if (head.sequence != link->num_received++) {
          take_down(*link, Code::peer_lost);
        } else if (events_.empty() && events != nullptr) {
          lock.unlock();
          events->on_message(*link, bytes);
          lock.lock();
        } else {
          // A message that is not yet delivered keeps its buffer: that is the back-pressure.
          events_.push_back({EventKind::message, link->own_token, Code::ok, {}, &buffer});
          is_shown = true;
          may_hold_ = true;
        }
      }
    }
  }
  if (!is_shown) post_receive(buffer);
}

void OfiEndpoint::end_send(Buffer& buffer, bool is_good, std::unique_lock<std::mutex>& lock) {
  WorkRequest* request = std::exchange(buffer.request, nullptr);
  free_.push_back(&buffer);
  if (OfiLink* link = find(buffer.link); link != nullptr) {
    --link->num_sends;
    if (!is_good) take_down(*link, Code::peer_lost);
  }
  if (request == nullptr) return;
  lock.unlock();
  request->done(*request, is_good ? Code::ok : Code::peer_lost);
  lock.lock();
}

// One-sided.

Status OfiEndpoint::register_for(void* address, std::size_t bytes, std::uint64_t access,
                                 fid_mr*& mr) {
  const std::size_t key_bytes = std::min<std::size_t>(8, ep_->info().domain_attr->mr_key_size);
  int error = 0;
  // Another try with another key, should two collide.
  for (int i = 0; i < 4; ++i) {
    std::uint64_t key = 0;
    if (::getrandom(&key, key_bytes, 0) < 0) return Code::unsupported;
    error = fi_mr_reg(ep_->domain(), address, bytes, access, 0, key, 0, &mr, nullptr);
    if (error != -FI_ENOKEY) break;
  }
  if (error != 0)
    return {Code::no_memory, fmt::format("libfabric cannot register {} bytes: {} (see ulimit -l)",
                                         bytes, lib::error_text(error))};
  return {};
}

Status OfiEndpoint::register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                                    Registration& registration) {
  // All other accesses go by target-side emulation.
  if (!limits_.gets || (rights & kRead) == 0 || bytes == 0) return {};
  fid_mr* mr = nullptr;
  std::lock_guard lock(mutex_);
  if (Status status = register_for(address, bytes, FI_REMOTE_READ, mr); !status) return status;
  const std::uint64_t named =
      ep_->has_mode(FI_MR_VIRT_ADDR) ? reinterpret_cast<std::uintptr_t>(address) : 0;
  registration.handle = mr;
  registration.key = key_of({named, bytes, fi_mr_key(mr)});
  return {};
}

void OfiEndpoint::deregister(Registration& registration) {
  auto* mr = static_cast<fid_mr*>(std::exchange(registration.handle, nullptr));
  if (mr == nullptr) return;
  std::lock_guard lock(mutex_);
  fi_close(&mr->fid);
}

Code OfiEndpoint::get(Link& base, void* here, std::size_t bytes, const Key& key,
                      std::uint64_t offset, WorkRequest& request) {
  if (!limits_.gets) return Code::unsupported;
  const KeyParts parts = parts_of(key);
  auto& link = static_cast<OfiLink&>(base);
  std::lock_guard lock(mutex_);
  if (link.is_down) return Code::peer_lost;
  if (!link.is_up || link.num_sends >= kSendsOfLink) return Code::again;
  const Code room = or_no_memory([&] {
    if (!free_gets_.empty()) return;
    make_room(free_gets_, gets_.size() + 1);  // giving back takes no memory
    free_gets_.push_back(&gets_.emplace_back());
  });
  if (room != Code::ok) return room;
  PostedGet& transfer = *free_gets_.back();
  transfer.is_rma = true;
  transfer.here = here;
  transfer.bytes = bytes;
  iovec local{here, bytes};
  void* descriptor = nullptr;
  if (ep_->has_mode(FI_MR_LOCAL)) {
    if (Status status = register_for(here, bytes, FI_READ, transfer.local); !status)
      return status.code();
    descriptor = fi_mr_desc(transfer.local);
  } else {
    transfer.copy.reset(new (std::nothrow) std::byte[bytes]);
    if (transfer.copy == nullptr) return Code::no_memory;
    local.iov_base = transfer.copy.get();
  }
  const fi_rma_iov remote{parts.address + offset, bytes, parts.secret};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = descriptor != nullptr ? &descriptor : nullptr;
  message.iov_count = 1;
  message.addr = link.peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &transfer.context;
  const ssize_t error = fi_readmsg(link.ep, &message, FI_COMPLETION);
  if (error != 0) {
    close_local(transfer);
    transfer.copy.reset();
    if (error == -FI_EAGAIN) return Code::again;
    take_down(link, Code::peer_lost);
    return Code::peer_lost;
  }
  free_gets_.pop_back();
  transfer.link = link.own_token;
  transfer.request = &request;
  ++link.num_sends;
  return Code::ok;
}

void OfiEndpoint::end_get(PostedGet& transfer, int error, std::unique_lock<std::mutex>& lock) {
  WorkRequest* request = std::exchange(transfer.request, nullptr);
  close_local(transfer);
  OfiLink* link = find(transfer.link);
  if (link != nullptr) --link->num_sends;
  Code code = Code::ok;
  if (error == FI_EACCES || error == FI_EKEYREJECTED) {
    code = Code::not_permitted;
  } else if (error != 0) {
    code = Code::peer_lost;
    if (link != nullptr) take_down(*link, code);
  }
  if (request != nullptr && code == Code::ok && transfer.copy != nullptr)
    std::memcpy(transfer.here, transfer.copy.get(), transfer.bytes);
  transfer.copy.reset();
  free_gets_.push_back(&transfer);
  if (request == nullptr) return;
  lock.unlock();
  request->done(*request, code);
  lock.lock();
}

// Ends what the provider has completed; error 0: success.
void OfiEndpoint::end(Posted& posted, int error, std::size_t length, Events* events,
                      std::unique_lock<std::mutex>& lock) {
  if (posted.is_rma) return end_get(static_cast<PostedGet&>(posted), error, lock);
  auto& buffer = static_cast<Buffer&>(posted);
  if (buffer.receives == nullptr) return end_send(buffer, error == 0, lock);
  if (error == 0) return on_received(buffer, length, events, lock);
  post_receive(buffer);  // also where its connection was replaced in the middle of a message
}

bool OfiEndpoint::read_completions(Events* events, std::unique_lock<std::mutex>& lock) {
  fi_cq_data_entry entries[kBatch];
  bool any = false;
  for (int round = 0; round < 8; ++round) {
    const ssize_t count = fi_cq_read(ep_->cq(), entries, kBatch);
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      if (fi_cq_readerr(ep_->cq(), &error, 0) < 0 || error.op_context == nullptr) continue;
      end(*static_cast<Posted*>(error.op_context), error.err, 0, events, lock);
      continue;
    }
    if (count <= 0) return any;
    any = true;
    for (ssize_t i = 0; i < count; ++i)
      end(*static_cast<Posted*>(entries[i].op_context), 0, entries[i].len, events, lock);
    if (count < kBatch) return any;
  }
  may_hold_ = true;
  return any;
}

bool OfiEndpoint::poll(Events& events) {
  std::unique_lock lock(mutex_);
  bool any = read_completions(&events, lock);
  if (any) num_vain_arms_ = 0;
  for (std::size_t left = events_.size(); left > 0 && !events_.empty(); --left) {
    Event event = std::move(events_.front());
    events_.erase(events_.begin());
    lock.unlock();
    dispatch(events, event);
    lock.lock();
    if (event.buffer != nullptr) post_receive(*event.buffer);
    any = true;
  }
  return any;
}

// Reports to the peer that it is let in.
void OfiEndpoint::accept(OfiLink& link, std::uint64_t number) {
  const auto* token = reinterpret_cast<const std::byte*>(&link.own_token);
  if (send(link, Kind::accept, link.peer_token, {token, sizeof link.own_token}, {}) == Code::again)
    events_.push_back({EventKind::accept_again, number});  // until the route back is there
  else
    link.is_up = true;
}

void OfiEndpoint::dispatch(Events& events, Event& event) {
  OfiLink* link;
  {
    std::lock_guard lock(mutex_);
    link = find(event.link);
  }
  if (link == nullptr) return;  // closed by an event before
  switch (event.kind) {
    case EventKind::incoming: {
      {
        std::lock_guard lock(mutex_);
        if (link->is_down) {  // given up by now
          links_.erase(event.link);
          delete link;
          return;
        }
      }
      const bool accepted = events.on_incoming(*link, event.data);
      std::unique_lock lock(mutex_);
      link = find(event.link);
      if (link == nullptr) return;
      // A refused link's address may be forged, and answering connects to it: after some refusals
      // no more are answered.
      const bool answers = accepted || num_refused_++ < kMaxRefusals;
      const bool known =
          answers && fi_av_insert(ep_->av(), link->address, 1, &link->peer, 0, nullptr) == 1;
      if (!accepted || !known) {
        if (known) {
          [[maybe_unused]] const Code sent = send(*link, Kind::closed, link->peer_token, {}, {});
        }
        links_.erase(event.link);
        delete link;
        return;
      }
      return accept(*link, event.link);
    }
    case EventKind::accept_again: {
      std::lock_guard lock(mutex_);
      return accept(*link, event.link);
    }
    case EventKind::hello_again: {
      std::lock_guard lock(mutex_);
      if (link->is_down) return;
      // A host that refuses connections would be asked for another one by each poll.
      const std::uint64_t now = now_ns();
      if (now >= event.at_ns &&
          send(*link, Kind::hello, link->own_token, event.data, {}) != Code::again)
        return;
      if (now >= event.at_ns) event.at_ns = now + kHelloAgainNs;
      events_.push_back(std::move(event));
      return;
    }
    case EventKind::up:
      return events.on_up(*link);
    case EventKind::down:
      return events.on_down(*link, event.code);
    case EventKind::message: {
      Head head;
      std::memcpy(&head, event.buffer->data, sizeof head);
      return events.on_message(*link, {event.buffer->data + sizeof head, head.length});
    }
  }
}

}  // namespace

Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint) {
  std::unique_ptr<lib::Endpoint> opened;
  if (Status status = lib::Endpoint::open(settings, opened); !status) return status;
  auto made = std::make_unique<OfiEndpoint>(std::move(opened));
  if (Status status = made->start(); !status) return status;
  endpoint = std::move(made);
  return {};
}

}  // namespace weft::fabric::ofi
