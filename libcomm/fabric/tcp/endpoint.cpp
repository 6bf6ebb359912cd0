#include "fabric/tcp/endpoint.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/listeners.hpp"
#include "fabric/tcp/endpoint_impl.hpp"
#include "fabric/tcp/sockets.hpp"
#include "fabric/traffic_class.hpp"

namespace weft::fabric::tcp {
namespace {

constexpr std::size_t kInPlaceMin = 4096;  // a shorter body is copied faster than it is waited for
constexpr std::size_t kMostAsked = 256;    // puts and gets of a link under way
// Connections without a hello: so many, for so long. A peer says it with its connection.
constexpr std::size_t kMostGreeting = 256;
constexpr std::uint64_t kGreetingNs = 10'000'000'000;
constexpr long kAcceptAgainNs = 5'000'000;
// The link that had something last is asked for more before the others: that is one system call.
constexpr unsigned kSocketsEvery = 4;
constexpr unsigned kMostMisses = 2000;  // polls in which it had nothing
constexpr int kMostAccepts = 64;        // of a poll
constexpr int kMostDrains = 256;        // each of kMessageMax

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TcpEndpoint::TcpEndpoint(Interface interface, std::uint8_t traffic_class, Descriptor listener,
                         std::string address)
    : interface_(std::move(interface)),
      traffic_class_(traffic_class),
      listener_(std::move(listener)),
      address_(std::move(address)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  // The ring's size, so that an entry is as long as one message carries.
  limits_ = {.message_max = kMessageMax,
             .puts = true,
             .gets = true,
             .in_place_min = kInPlaceMin,
             .lane_eager_max = 64u << 10,
             .lane_ring_min = 1056u << 10};
  keep_listener(this, listener_.get());
}

Status TcpEndpoint::start() {
  if (Status status = buffer_.map(kReadBytes + kMostHead + kAlign); !status) return status;
  if (!epoll_ || !bell_ || !watch_for_input(epoll_, bell_.get(), this) ||
      !watch_for_input(epoll_, listener_.get(), nullptr))
    return {Code::no_memory,
            fmt::format("cannot watch sockets: {} (see ulimit -n)", std::strerror(errno))};
  return {};
}

TcpEndpoint::~TcpEndpoint() {
  while (!greeting_.empty()) close(*greeting_.back());
  forget_listener(this);
}

std::string TcpEndpoint::kind() const { return fmt::format("tcp/{}", address_.size()); }

std::string TcpEndpoint::way_to(Bytes address) const {
  return fmt::format("tcp from {} to {} (WEFT_INTERFACE chooses others)", list_text({interface_}),
                     address_text(text_of(address)));
}

// Links.

TcpLink* TcpEndpoint::add_link(Descriptor socket, TcpLink::State state) {
  auto link = std::make_unique_for_overwrite<TcpLink>();  // its stash is not touched
  link->socket = std::move(socket);
  link->state = state;
  // So that no later step lacks memory.
  make_room(closed_, num_links_ + 1);
  make_room(greeting_);
  if (!watch_for_input(epoll_, link->socket.get(), link.get())) throw std::bad_alloc();
  ++num_links_;
  return link.release();
}

Status TcpEndpoint::open(Bytes address, Bytes hello, Link*& out) {
  if (hello.size() > kMaxHelloBytes) return Code::bad_argument;
  return or_no_memory([&]() -> Status {
    Descriptor socket;
    Code at_once;
    if (Status status = connect_to(address, address_, traffic_class_, socket, at_once); !status)
      return status;
    TcpLink* link = add_link(std::move(socket), TcpLink::State::asking);
    out = link;
    std::lock_guard lock(link->mutex);
    const Frame frame{Kind::hello, Code::ok, 0, static_cast<std::uint32_t>(hello.size()), kMagic};
    if (at_once != Code::ok)
      after_send(*link, at_once);
    else
      greet(*link, {.frame = bytes_of(&frame, sizeof frame), .body = hello});
    return {};
  });
}

void TcpEndpoint::close(Link& base) {
  auto& link = static_cast<TcpLink&>(base);
  link.is_closed = true;
  --num_links_;
  std::erase(greeting_, &link);
  if (hot_ == &link) hot_ = nullptr;
  {
    std::lock_guard lock(link.mutex);
    if (link.socket) {
      // What was sent is to arrive: bytes that nobody has read here would reset the connection.
      if (link.state == TcpLink::State::up && link.why == Code::ok) [[maybe_unused]]
        const Code code = link.queue.flush(link.socket.get(), regions_);
      ::shutdown(link.socket.get(), SHUT_WR);
      for (int i = 0; i < kMostDrains; ++i)
        if (::recv(link.socket.get(), link.stash.data(), kMessageMax, MSG_DONTWAIT | MSG_TRUNC) <=
            0)
          break;
      // Explicitly: a forked child may still have the socket.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket.get(), nullptr);
      link.socket = {};
    }
    link.why = Code::cancelled;
  }
  end_requests(link, Code::cancelled);
  if (!is_listener_watched_) watch_listener(true);
  closed_.emplace_back(&link);
  if (!in_poll_) free_closed();
}

void TcpEndpoint::free_closed() {
  TcpLink* link = listed_.exchange(nullptr);
  while (link != nullptr) {
    TcpLink& one = *std::exchange(link, link->next_listed);
    one.is_listed.store(false);
    if (!one.is_closed) list(one);
  }
  closed_.clear();
}

void TcpEndpoint::end_requests(TcpLink& link, Code code) {
  for (;;) {
    WorkRequest* request;
    bool is_finished = false;
    {
      std::lock_guard lock(link.mutex);
      request = link.queue.take_finished();
      is_finished = request != nullptr;
      if (request == nullptr) request = link.queue.take_any();
      if (request == nullptr) request = link.take_asked();
    }
    if (request == nullptr) return;
    request->done(*request, is_finished ? Code::ok : code);
  }
}

void TcpEndpoint::take_down(Events& events, TcpLink& link, Code why) {
  if (is_over(link)) return;
  // The client never heard of it.
  if (link.state == TcpLink::State::greeting) return close(link);
  if (link.state == TcpLink::State::asking && why == Code::corrupt)
    why = Code::not_found;  // another program listens there now, or this very socket
  if (hot_ == &link) hot_ = nullptr;
  {
    std::lock_guard lock(link.mutex);
    // What was seen first tells more: the kernel says once that nobody listens.
    if (link.why != Code::ok) why = link.why;
    link.state = TcpLink::State::down;
    link.why = why;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket.get(), nullptr);
    ::shutdown(link.socket.get(), SHUT_RDWR);  // a forked child may have it, too
    link.socket = {};
  }
  end_requests(link, Code::peer_lost);
  if (!link.is_closed) events.on_down(link, why);
}

// Memory.

Status TcpEndpoint::register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                                    Registration& registration) {
  return or_no_memory([&]() -> Status {
    std::uint64_t secret = 0;
    if (Status status = regions_.add(address, bytes, rights, secret); !status) return status;
    registration.key = key_of({reinterpret_cast<std::uintptr_t>(address), bytes, secret});
    registration.handle = this;
    return {};
  });
}

void TcpEndpoint::deregister(Registration& registration) {
  if (std::exchange(registration.handle, nullptr) != nullptr)
    regions_.remove(parts_of(registration.key).secret);
}

// Posting.

void TcpEndpoint::list(TcpLink& link) {
  if (link.is_listed.exchange(true)) return;
  link.next_listed = listed_.load();
  // seq_cst: with arm(), either this sees that it is armed, or that sees the list.
  while (!listed_.compare_exchange_weak(link.next_listed, &link)) continue;
  if (is_armed_.load() && is_armed_.exchange(false)) ring_in(1);
}

void TcpEndpoint::ring_in(long ns) {
  const itimerspec at{{}, {0, ns}};
  ::timerfd_settime(bell_.get(), 0, &at, nullptr);
}

bool TcpEndpoint::watch(TcpLink& link) {
  epoll_event event{};
  event.events = EPOLLIN | (link.wants_room ? EPOLLOUT : 0u);
  event.data.ptr = &link;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.socket.get(), &event) == 0;
}

void TcpEndpoint::after_send(TcpLink& link, Code code) {
  if (code == Code::ok && link.wants_room == link.queue.is_empty()) {
    link.wants_room = !link.queue.is_empty();
    if (!watch(link)) code = Code::no_memory;
  }
  if (code != Code::ok && link.why == Code::ok) link.why = code;
  if (code != Code::ok || link.queue.has_finished()) list(link);
}

Code TcpEndpoint::send(TcpLink& link, const Outgoing& out) {
  const Code code = link.queue.send(link.socket.get(), out);
  if (code == Code::again) return code;
  after_send(link, code);
  return link.why == Code::ok ? Code::ok : Code::peer_lost;
}

// What nobody sends again: the next poll() reports what fails, a lack of memory too.
void TcpEndpoint::greet(TcpLink& link, const Outgoing& out) {
  if (send(link, out) == Code::again) after_send(link, Code::no_memory);
}

Code TcpEndpoint::message(Link& base, Bytes head, Bytes body) {
  auto& link = static_cast<TcpLink&>(base);
  if (head.size() + body.size() > kMessageMax) return Code::bad_argument;
  std::lock_guard lock(link.mutex);
  if (const Code code = can_post(link); code != Code::ok) return code;
  if (!link.queue.has_room()) return Code::again;
  const Frame frame{Kind::message, Code::ok, 0,
                    static_cast<std::uint32_t>(head.size() + body.size()), 0};
  return send(link, {.frame = bytes_of(&frame, sizeof frame), .head = head, .body = body});
}

Code TcpEndpoint::message_in_place(Link& base, Bytes head, Bytes body, WorkRequest& request) {
  auto& link = static_cast<TcpLink&>(base);
  if (head.size() + body.size() > kMessageMax) return Code::bad_argument;
  std::lock_guard lock(link.mutex);
  if (const Code code = can_post(link); code != Code::ok) return code;
  if (!link.queue.has_room() || !link.queue.has_room_in_place()) return Code::again;
  const Frame frame{Kind::message, Code::ok, 0,
                    static_cast<std::uint32_t>(head.size() + body.size()), 0};
  const Code code = send(
      link,
      {.frame = bytes_of(&frame, sizeof frame), .head = head, .kept = body, .request = &request});
  if (code != Code::ok) link.queue.forget(request);  // it was not posted
  return code;
}

Code TcpEndpoint::ask(TcpLink& link, Kind kind, Bytes from, std::byte* to, std::size_t bytes,
                      const Key& key, std::uint64_t offset, WorkRequest& request) {
  if (bytes > kMostBytes) return Code::bad_argument;
  std::lock_guard lock(link.mutex);
  if (const Code code = can_post(link); code != Code::ok) return code;
  if (link.free_asked.empty()) {
    if (link.asked.size() == kMostAsked) return Code::again;
    const Code room = or_no_memory([&] {
      make_room(link.free_asked, link.asked.size() + 1);  // giving back takes no memory
      link.asked.emplace_back();
      link.free_asked.push_back(static_cast<std::uint32_t>(link.asked.size() - 1));
    });
    if (room != Code::ok) return room;
  }
  const std::uint32_t slot = link.free_asked.back();
  Asked& asked = link.asked[slot];
  if (++asked.uses == 0) asked.uses = 1;  // 0 is that of what is no request
  const std::uint64_t id = static_cast<std::uint64_t>(asked.uses) << 32 | slot;
  struct {
    Frame frame;
    Access access;
  } head{{kind, Code::ok, 0, static_cast<std::uint32_t>(bytes), id},
         {parts_of(key).address + offset, parts_of(key).secret}};
  const Code code = send(link, {.frame = bytes_of(&head, sizeof head), .kept = from, .id = id});
  if (code != Code::ok) return code;
  link.free_asked.pop_back();
  asked.request = &request;
  asked.to = to;
  asked.bytes = static_cast<std::uint32_t>(bytes);
  asked.is_get = kind == Kind::get;
  asked.has_data = false;
  return Code::ok;
}

Code TcpEndpoint::put(Link& link, const void* from, std::size_t bytes, const Key& key,
                      std::uint64_t offset, WorkRequest& request) {
  return ask(static_cast<TcpLink&>(link), Kind::put, bytes_of(from, bytes), nullptr, bytes, key,
             offset, request);
}

Code TcpEndpoint::get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
                      WorkRequest& request) {
  return ask(static_cast<TcpLink&>(link), Kind::get, {}, static_cast<std::byte*>(to), bytes, key,
             offset, request);
}

// Polling.

bool TcpEndpoint::poll(Events& events) {
  in_poll_ = true;
  is_armed_.store(false, std::memory_order_relaxed);
  // acquire: with list().
  bool any = listed_.load(std::memory_order_acquire) != nullptr && look_at_listed(events);
  if (hot_ != nullptr) {
    const bool has_some = read(events, *hot_);
    num_misses_ = has_some ? 0 : num_misses_ + 1;
    if (num_misses_ > kMostMisses) hot_ = nullptr;
    any |= has_some;
  }
  if (hot_ == nullptr || ++num_polls_ % kSocketsEvery == 0) any |= look_at_sockets(events);
  in_poll_ = false;
  if (!closed_.empty()) free_closed();
  return any;
}

bool TcpEndpoint::look_at_listed(Events& events) {
  TcpLink* link = listed_.exchange(nullptr);
  const bool any = link != nullptr;
  while (link != nullptr) {
    TcpLink& one = *std::exchange(link, link->next_listed);
    one.is_listed.store(false);  // from here on it may be listed once more
    Code why = Code::ok;
    while (!is_over(one)) {
      WorkRequest* request;
      {
        std::lock_guard lock(one.mutex);
        request = one.queue.take_finished();
        why = one.why;
      }
      if (request == nullptr) break;
      request->done(*request, Code::ok);
    }
    if (why != Code::ok) take_down(events, one, why);
  }
  return any;
}

void TcpEndpoint::flush(TcpLink& link) {
  std::lock_guard lock(link.mutex);
  link.has_answers = false;
  if (link.why == Code::ok) after_send(link, link.queue.flush(link.socket.get(), regions_));
}

bool TcpEndpoint::look_at_sockets(Events& events) {
  epoll_event ready[64];
  const int count = ::epoll_wait(epoll_.get(), ready, 64, 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.ptr == nullptr) {
      accept();
      any = true;
      continue;
    }
    if (ready[i].data.ptr == this) {
      std::uint64_t rung;
      [[maybe_unused]] const ssize_t count_read = ::read(bell_.get(), &rung, sizeof rung);
      if (!is_listener_watched_) watch_listener(true);
      continue;
    }
    auto& link = *static_cast<TcpLink*>(ready[i].data.ptr);
    if (is_over(link)) continue;
    if ((ready[i].events & EPOLLOUT) != 0) flush(link);
    if ((ready[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) continue;
    if (!read(events, link)) continue;
    any = true;
    if (is_over(link)) continue;
    hot_ = &link;
    num_misses_ = 0;
  }
  // After their hellos were read: a program may poll rarely.
  if (!greeting_.empty()) drop_old_greeting();
  return any;
}

void TcpEndpoint::watch_listener(bool on) {
  epoll_event event{};
  event.events = on ? EPOLLIN : 0u;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
  is_listener_watched_ = on;
}

void TcpEndpoint::accept() {
  for (int i = 0; i < kMostAccepts; ++i) {
    Code code;
    Descriptor socket = accept_from(listener_, code);
    if (code == Code::no_memory) {  // it would stay readable
      watch_listener(false);
      return ring_in(kAcceptAgainNs);
    }
    if (!socket) return;
    if (greeting_.size() >= kMostGreeting) close(*greeting_.front());
    // Without memory the peer is refused, and tries again.
    [[maybe_unused]] const Code added = or_no_memory([&] {
      greeting_.push_back(add_link(std::move(socket), TcpLink::State::greeting));
      greeting_.back()->since_ns = coarse_now_ns();
    });
  }
}

void TcpEndpoint::drop_old_greeting() {
  while (!greeting_.empty() && coarse_now_ns() - greeting_.front()->since_ns > kGreetingNs)
    close(*greeting_.front());
}

bool TcpEndpoint::arm() {
  is_armed_.store(true);  // seq_cst: with list()
  if (listed_.load() == nullptr) return true;
  is_armed_.store(false, std::memory_order_relaxed);
  return false;
}

Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint) {
  std::vector<Interface> interfaces;
  if (Status status = find_interfaces(settings, interfaces); !status) return status;
  Descriptor listener;
  std::string address;
  std::uint8_t traffic_class = 0;
  if (Status status = read_traffic_class(settings, traffic_class); !status) return status;
  if (Status status = listen_at(interfaces.front(), traffic_class, listener, address); !status)
    return status;
  auto made = std::make_unique<TcpEndpoint>(interfaces.front(), traffic_class, std::move(listener),
                                            address);
  if (Status status = made->start(); !status) return status;
  endpoint = std::move(made);
  return {};
}

std::string describe(const Settings& settings) {
  std::vector<Interface> all;
  if (const Status status = find_interfaces(settings, all); !status)
    return fmt::format("  tcp: not here: {}\n", status.text());
  std::string text = fmt::format("  tcp: on {}", list_text({all.front()}));
  if (all.size() > 1)
    text += fmt::format(" (WEFT_INTERFACE chooses; there are also {})",
                        list_text({all.begin() + 1, all.end()}));
  return text + "\n";
}

void inspect(const Settings& settings, Inspection& inspection) {
  std::vector<Interface> all;
  if (const Status status = find_interfaces(settings, all); !status)
    return inspection.findings.push_back({Finding::Level::error, "tcp", status.text(),
                                          "ip address lists them; WEFT_INTERFACE chooses one"});
  inspect_interface("tcp", "", all.front(), inspection);
}

}  // namespace weft::fabric::tcp
