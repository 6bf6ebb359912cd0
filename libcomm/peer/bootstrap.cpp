#include "peer/bootstrap.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/os/keepalive.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "peer/sockets.hpp"

namespace weft::peer {

namespace {

constexpr std::uint64_t kPauseNs = 100'000'000;       // of a listener when descriptors are used up
constexpr std::uint64_t kRefusedNs = 60'000'000'000;  // between two equal lines of the log
constexpr std::size_t kMostRefused = 64;              // that are remembered for it
constexpr std::size_t kMostPassed = 16;               // descriptors that one read takes
constexpr const char* kOtherUser = "without a secret only processes of the same user are met";

// Which of the two a descriptor in epoll belongs to: the lowest bit of its pointer.
constexpr std::uintptr_t kIsListener = 1;

Status error(Code code, std::string_view what, std::string_view whom) {
  return {code, fmt::format("{} {}: {}", what, whom, std::strerror(errno))};
}

Descriptor open_socket(const SocketAddress& address) {
  return Descriptor(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Of a connection over TCP.
void set_options(int fd, int silence_ms) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch_for_death(fd, silence_ms);
}

}  // namespace

Bootstrap::Bootstrap(const Secret& secret, NodeAddress own, int silence_ms)
    : secret_(secret),
      own_(std::move(own)),
      silence_ms_(silence_ms),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Bootstrap::~Bootstrap() {
  for (auto* list : {&connections_, &met_})
    while (!list->empty()) close(*list->back());
  for (auto& listener : listeners_)
    if (!listener->path.empty()) ::unlink(listener->path.c_str());
}

Status Bootstrap::listen(std::string_view text) {
  if (!epoll_) return {Code::no_memory, "no descriptors were left to wait for peers with"};
  SocketAddress address;
  if (Status status = resolve(text, address); !status) return status;
  if (secret_.is_empty && !address.is_unix)
    return {Code::not_permitted,
            fmt::format("listening on {} needs a secret, as anybody can connect there; without one "
                        "listen on unix:/path, for processes of the same user",
                        text)};
  Descriptor socket = open_socket(address);
  if (!socket) return error(Code::no_memory, "cannot listen on", text);
  const int fd = socket.get();
  auto listener =
      std::make_unique<Listener>(Listener{std::move(socket), address.is_unix, address.path, 0});
  make_room(listeners_);
  const int on = 1;
  if (!address.is_unix) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int failed = ::bind(fd, address.raw(), address.length);
  if (failed != 0 && errno == EADDRINUSE && !address.path.empty()) {
    // The path may be left behind by a process that was killed: only a refused connection shows it.
    const Descriptor probe = open_socket(address);
    if (probe && ::connect(probe.get(), address.raw(), address.length) != 0 &&
        errno == ECONNREFUSED) {
      ::unlink(address.path.c_str());
      failed = ::bind(fd, address.raw(), address.length);
    } else {
      errno = EADDRINUSE;
    }
  }
  if (failed != 0 || ::listen(fd, 128) != 0)
    return error(errno == EACCES ? Code::not_permitted : Code::bad_argument, "cannot listen on",
                 text);
  if (!watch(*listener)) return error(Code::no_memory, "cannot listen on", text);
  own_.bootstraps.push_back(address.is_unix ? std::string(text) : bound_text(fd));
  listeners_.push_back(std::move(listener));
  return {};
}

Status Bootstrap::connect(std::string_view text, std::uint64_t deadline_ns, void* client) {
  if (!epoll_) return {Code::no_memory, "no descriptors were left to wait for peers with"};
  SocketAddress address;
  Status resolved = resolve(text, address, Names::refuse);
  const bool is_name = resolved == Code::again;
  if (!resolved && !is_name) return resolved;
  if (secret_.is_empty && !address.is_unix)
    return {Code::not_permitted,
            fmt::format("connecting to {} needs a secret; without one only unix:... of the same "
                        "user can be reached",
                        text)};
  auto connection = std::make_unique<Connection>();
  connection->client = client;
  connection->connects_ = true;
  connection->target_ = text;
  connection->deadline_ns_ = deadline_ns;
  if (is_name) {
    connection->state_ = Connection::State::resolving;
    if (Status status = resolver_.start(text, connection->lookup_, connection->fd_); !status)
      return status;
    return add(std::move(connection), EPOLLIN);
  }
  if (Status status = begin(*connection, address); !status) return status;
  return add(std::move(connection), EPOLLIN | EPOLLOUT);
}

// The connection has its socket afterwards, unless this fails.
Status Bootstrap::begin(Connection& connection, const SocketAddress& address) {
  Descriptor socket = open_socket(address);
  if (!socket) return error(Code::no_memory, "cannot connect to", connection.target_);
  if (!address.is_unix) set_options(socket.get(), silence_ms_);
  if (::connect(socket.get(), address.raw(), address.length) != 0 && errno != EINPROGRESS)
    return error(errno == EACCES ? Code::not_permitted : Code::not_found, "cannot connect to",
                 connection.target_);
  connection.is_unix_ = address.is_unix;
  connection.fd_ = std::move(socket);
  return {};
}

// To the address that its name was found to have. again: the name is still looked up.
Status Bootstrap::go_on_to(Connection& connection) {
  const std::shared_ptr<Lookup> lookup = connection.lookup_;
  // acquire: the result; pairs with Resolver::serve.
  if (!lookup->is_done.load(std::memory_order_acquire)) return Code::again;
  if (!lookup->status) return lookup->status;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd_.get(), nullptr);  // the lookup's
  if (Status status = begin(connection, lookup->address); !status) return status;
  connection.lookup_ = nullptr;
  connection.state_ = Connection::State::connecting;
  if (watch(connection, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD)) return {};
  return error(Code::no_memory, "cannot watch", connection.target_);
}

bool Bootstrap::watch(Connection& connection, std::uint32_t events, int operation) {
  connection.wants_write_ = (events & EPOLLOUT) != 0;
  epoll_event event{};
  event.events = events;
  event.data.u64 = reinterpret_cast<std::uintptr_t>(&connection);
  return ::epoll_ctl(epoll_.get(), operation, connection.fd_.get(), &event) == 0;
}

bool Bootstrap::watch(Listener& listener) {
  const std::uintptr_t data = reinterpret_cast<std::uintptr_t>(&listener) | kIsListener;
  return watch_for_input(epoll_, listener.fd.get(), reinterpret_cast<void*>(data));
}

// Sets whether poll() is also called when there is room.
void Bootstrap::want_room(Connection& connection, bool wants) {
  if (connection.wants_write_ == wants) return;
  const std::uint32_t room = wants ? std::uint32_t{EPOLLOUT} : 0u;
  watch(connection, EPOLLIN | room, EPOLL_CTL_MOD);
}

Status Bootstrap::add(std::unique_ptr<Connection> connection, std::uint32_t events) {
  // So that close() needs none.
  make_room(dropped_, connections_.size() + met_.size() + 1);
  make_room(connections_);
  if (!watch(*connection, events, EPOLL_CTL_ADD))
    return error(Code::no_memory, "cannot watch", connection->target_);
  connections_.push_back(std::move(connection));
  return {};
}

void Bootstrap::accept_all(Listener& listener) {
  for (;;) {
    Descriptor accepted(
        ::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int fd = accepted.get();
    if (!accepted) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // EMFILE and the like: waiting connections stay in the queue.
      log_line(LogLevel::warn, -1, "cannot accept a connection: {}", std::strerror(errno));
      listener.paused_until_ns = now_ns() + kPauseNs;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.fd.get(), nullptr);
      return;
    }
    auto connection = std::make_unique<Connection>();
    connection->fd_ = std::move(accepted);
    connection->is_unix_ = listener.is_unix;
    connection->target_ = other_end(fd);
    connection->state_ = Connection::State::shaking_hands;
    connection->deadline_ns_ = now_ns() + kHandshakeMs * 1'000'000;
    connection->handshake_ =
        std::make_unique<Handshake>(Handshake::Role::listens, secret_, encode(own_));
    if (!listener.is_unix) set_options(fd, silence_ms_);
    if (!may_meet(*connection)) {
      const std::string frame = make_frame(FrameType::refused, kOtherUser);
      [[maybe_unused]] const auto sent = ::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL);
      log_refused(connection->target_, kOtherUser, false);
      continue;
    }
    std::size_t half_open = 0;
    Connection* eldest = nullptr;
    for (const auto& other : connections_) {
      if (other->connects_) continue;
      if (eldest == nullptr) eldest = other.get();
      ++half_open;
    }
    if (half_open >= kMaxHalfOpen) close(*eldest);
    if (!add(std::move(connection), EPOLLIN)) return;
  }
}

bool Bootstrap::may_meet(const Connection& connection) const {
  return !secret_.is_empty || is_same_user(connection.fd_.get());
}

Status Bootstrap::send(Connection& connection, FrameType type, std::string_view body,
                       std::span<const int> descriptors) {
  if (body.size() > kMaxFrameBytes || descriptors.size() > kMaxDescriptors)
    return Code::bad_argument;
  if (connection.unsent_bytes_ > kMaxUnsentBytes) return Code::again;
  Connection::Unsent unsent{make_frame(type, body, descriptors.size()), 0, {}};
  for (const int descriptor : descriptors) {
    Descriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!copy)
      return error(Code::no_memory, "cannot pass a descriptor to", connection.theirs().name);
    unsent.descriptors.push_back(std::move(copy));
  }
  const std::size_t bytes = unsent.bytes.size();
  connection.unsent_.push_back(std::move(unsent));
  connection.unsent_bytes_ += bytes;
  flush(connection);  // if the socket has failed, reading from it reports the error
  return {};
}

void Bootstrap::flush(Connection& connection) {
  while (!connection.unsent_.empty()) {
    Connection::Unsent& unsent = connection.unsent_.front();
    iovec part{unsent.bytes.data() + unsent.sent, unsent.bytes.size() - unsent.sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
    if (!unsent.descriptors.empty()) {
      const std::size_t bytes = unsent.descriptors.size() * sizeof(int);
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(bytes);
      int passed[kMaxDescriptors];
      std::ranges::transform(unsent.descriptors, passed, &Descriptor::get);
      std::memcpy(CMSG_DATA(head), passed, bytes);
    }
    const ssize_t sent = ::sendmsg(connection.fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      want_room(connection, errno == EAGAIN);
      return;
    }
    // They went with the first byte.
    unsent.descriptors.clear();
    unsent.sent += static_cast<std::size_t>(sent);
    if (unsent.sent < unsent.bytes.size()) continue;
    connection.unsent_bytes_ -= unsent.bytes.size();
    connection.unsent_.pop_front();
  }
  want_room(connection, false);
}

// Frees it at the next poll(): the current one may still hold it.
void Bootstrap::close(Connection& connection) {
  if (!connection.fd_) return;
  flush(connection);  // such as the reason for a refusal
  connection.fd_ = Descriptor();
  connection.received_.clear();
  connection.unsent_.clear();
  for (auto* list : {&connections_, &met_}) {
    const auto found =
        std::ranges::find_if(*list, [&](const auto& item) { return item.get() == &connection; });
    if (found == list->end()) continue;
    dropped_.push_back(std::move(*found));
    list->erase(found);
    return;
  }
}

void Bootstrap::read_frames(Events& events, Connection& connection) {
  char bytes[16384];
  for (int rounds = 0; rounds < 8; ++rounds) {  // then other connections are served
    iovec part{bytes, sizeof bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostPassed)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t length =
        ::recvmsg(connection.fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length <= 0) {
      // A reset comes from a process that ends without reading all, but also from kernels and
      // firewalls that give a connection up: of who was met another sign must tell.
      const bool was_reset = length < 0 && (errno == ECONNRESET || errno == EPIPE);
      const bool is_local = connection.is_unix_ || connection.state_ != Connection::State::met;
      const bool is_end = length == 0 || (was_reset && is_local);
      return fail(connection, is_end ? Status{Code::peer_lost, "the peer has closed the connection"}
                                     : error(Code::timed_out, "the connection to", "a peer broke"));
    }
    bool is_short = false;
    std::size_t num_passed = 0;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      num_passed += count;
      for (std::size_t i = 0; i < count; ++i) {
        int number;
        std::memcpy(&number, CMSG_DATA(head) + i * sizeof(int), sizeof number);
        Descriptor descriptor(number);
        is_short |= or_no_memory([&] { connection.received_.push_back(std::move(descriptor)); }) !=
                    Code::ok;
      }
    }
    if (is_short) return fail(connection, Code::no_memory);
    const bool is_unauthenticated = connection.state_ != Connection::State::met;
    const bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
    // The kernel also drops descriptors that this process has no room for.
    if (is_cut && !is_unauthenticated && num_passed < kMostPassed)
      return fail(connection, {Code::no_memory, "no descriptors are left for what a peer passes"});
    if (connection.received_.size() > (is_unauthenticated ? 0 : 64) || is_cut)
      return fail(connection, {Code::corrupt, "a peer sends descriptors that nobody asked for"});
    connection.reader_.feed({bytes, static_cast<std::size_t>(length)});
    FrameHead head;
    std::string_view body;
    for (;;) {
      const FrameReader::Next next = connection.reader_.next(head, body);
      if (next == FrameReader::Next::none) break;
      if (next == FrameReader::Next::corrupt || head.num_descriptors > connection.received_.size())
        return fail(connection, {Code::corrupt, "what answers there is no Node"});
      if (connection.state_ == Connection::State::met) {
        int descriptors[kMaxDescriptors];
        const std::span<int> taken(descriptors, head.num_descriptors);
        for (int& descriptor : taken) {
          descriptor = connection.received_.front().release();
          connection.received_.pop_front();
        }
        bool makes_sense = false;
        const Code code = or_no_memory(
            [&] { makes_sense = events.on_frame(connection, head.type, body, taken); });
        for (const int descriptor : taken)
          if (descriptor >= 0) ::close(descriptor);
        if (!connection.fd_) return;  // closed by the client
        if (code != Code::ok) return fail(connection, code);
        if (!makes_sense)
          return fail(connection, {Code::corrupt, "a frame of the peer is invalid"});
        continue;
      }
      std::string out;
      const Handshake::State state = connection.handshake_->on_frame(head.type, body, out);
      if (!out.empty()) {
        connection.unsent_bytes_ += out.size();
        connection.unsent_.push_back({std::move(out), 0, {}});
        flush(connection);
      }
      if (state == Handshake::State::failed)
        return fail(connection, connection.handshake_->status());
      if (state != Handshake::State::done) continue;
      make_room(met_);
      connection.state_ = Connection::State::met;
      const auto found = std::ranges::find_if(
          connections_, [&](const auto& item) { return item.get() == &connection; });
      met_.push_back(std::move(*found));
      connections_.erase(found);
      if (!events.on_met(connection, connection.connects_)) return close(connection);
      if (!connection.fd_) return;
    }
  }
}

void Bootstrap::advance(Events& events, Connection& connection, std::uint32_t ready) {
  if (connection.state_ == Connection::State::resolving) {
    if (const Status status = go_on_to(connection); !status && status != Code::again) {
      events.on_failed(connection, status);
      close(connection);
    }
    return;
  }
  if (connection.state_ == Connection::State::connecting) {
    int failed = 0;
    socklen_t length = sizeof failed;
    ::getsockopt(connection.fd_.get(), SOL_SOCKET, SO_ERROR, &failed, &length);
    if (failed != 0) {
      errno = failed;
      fail(connection, error(Code::not_found, "cannot connect to", connection.target_));
    } else if (connection.is_unix_ && !may_meet(connection)) {
      fail(connection,
           {Code::not_permitted, fmt::format("{}: {}", connection.target_, kOtherUser)});
    } else {
      connection.state_ = Connection::State::shaking_hands;
      connection.handshake_ =
          std::make_unique<Handshake>(Handshake::Role::connects, secret_, encode(own_));
      connection.unsent_.push_back({connection.handshake_->start(), 0, {}});
      connection.unsent_bytes_ += connection.unsent_.back().bytes.size();
    }
  }
  if (connection.failure_.ok()) {
    if ((ready & EPOLLOUT) != 0) flush(connection);
    read_frames(events, connection);
  }
  if (connection.fd_ && !connection.failure_.ok()) end_failed(events, connection);
}

void Bootstrap::end_failed(Events& events, Connection& connection) {
  if (connection.state_ == Connection::State::met) {
    events.on_end(connection, connection.failure_);
  } else if (connection.connects_) {
    events.on_failed(connection,
                     {connection.failure_.code(),
                      fmt::format("{}: {}", connection.target_, connection.failure_.text())});
  } else {
    const bool is_short = connection.failure_.code() == Code::no_memory;
    // A process that tries several addresses at once leaves all but one: nobody was refused.
    if (connection.failure_.code() == Code::peer_lost)
      log_line(LogLevel::info, -1, "{} left before it had met this one", connection.target_);
    else
      log_refused(connection.target_, connection.failure_.text(), is_short);
  }
  close(connection);
}

// A process that tries repeatedly is logged once a minute.
void Bootstrap::log_refused(const std::string& who, const std::string& why, bool is_short) {
  const std::string text = fmt::format("refused {}: {}", who, why);
  const std::uint64_t now = now_ns();
  if (refused_ns_.size() >= kMostRefused) refused_ns_.clear();
  std::uint64_t& last_ns = refused_ns_[text];
  const bool is_new = last_ns == 0 || now - last_ns > kRefusedNs;
  if (is_new) last_ns = now;
  log_line(is_new || is_short ? LogLevel::warn : LogLevel::info, -1, "{}", text);
}

void Bootstrap::expire(Events& events) {
  const std::uint64_t now = now_ns();
  for (auto& listener : listeners_) {
    if (listener->paused_until_ns == 0 || listener->paused_until_ns > now) continue;
    listener->paused_until_ns = watch(*listener) ? 0 : now + kPauseNs;
  }
  for (std::size_t i = 0; i < connections_.size();) {
    Connection& connection = *connections_[i];
    if (connection.deadline_ns_ > now) {
      ++i;
      continue;
    }
    if (connection.state_ == Connection::State::resolving)
      events.on_failed(connection, {Code::timed_out, fmt::format("no name server answers for {}",
                                                                 connection.target_)});
    else if (connection.connects_)
      events.on_failed(connection,
                       {Code::timed_out, fmt::format("{} does not answer", connection.target_)});
    close(connection);
    i = 0;
  }
}

bool Bootstrap::poll(Events& events) {
  epoll_event ready[32];
  const int count = ::epoll_wait(epoll_.get(), ready, 32, 0);
  for (int i = 0; i < count; ++i) {
    const std::uintptr_t pointer = ready[i].data.u64;
    if ((pointer & kIsListener) != 0) {
      // Connections that cannot be accepted are refused.
      if (or_no_memory([&] { accept_all(*reinterpret_cast<Listener*>(pointer & ~kIsListener)); }) !=
          Code::ok)
        log_line(LogLevel::warn, -1, "refused a peer: no memory for it");
      continue;
    }
    auto& connection = *reinterpret_cast<Connection*>(pointer);
    if (!connection.fd_) continue;
    const Code code = or_no_memory([&] { advance(events, connection, ready[i].events); });
    if (code == Code::ok || !connection.fd_) continue;
    fail(connection, code);
    if (or_no_memory([&] { end_failed(events, connection); }) != Code::ok) close(connection);
  }
  // Work that lacks memory is done at the next poll.
  if (!connections_.empty() || !listeners_.empty()) or_no_memory([&] { expire(events); });
  dropped_.clear();
  return count > 0;
}

}  // namespace weft::peer
