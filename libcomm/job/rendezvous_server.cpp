#include "job/rendezvous_server.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/os/keepalive.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "job/boards.hpp"
#include "job/rendezvous_link.hpp"
#include "job/rendezvous_wire.hpp"

namespace weft::rendezvous {
namespace {

constexpr std::size_t kMaxNames = 65536, kMaxNameBytes = 4096;
constexpr std::size_t kMaxUnidentified = 64;  // besides the ranks, which may all come at once
constexpr int kMaxEvents = 64;
// The most unidentified connections reported at a time; the others are counted.
constexpr std::size_t kMaxNotes = 8;
constexpr std::uint64_t kNotesNs = 10'000'000'000;

constexpr std::uint64_t ms_to_ns(std::uint64_t ms) { return ms * 1'000'000u; }

// Takes the same time whatever the difference is, so that a key cannot be guessed byte by byte.
bool equal_keys(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < b.size(); ++i)
    difference |= static_cast<unsigned char>(b[i] ^ a[a.empty() ? 0 : i % a.size()]);
  return difference == 0;
}

std::string peer_name(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[64], port[16];
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(fd, generic, &length) != 0 ||
      getnameinfo(generic, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  return fmt::format("{}:{}", host, port);
}

}  // namespace

struct Server::Connection {
  int fd = -1;
  int rank = -1;  // -1: none
  Party party = Party::mpi;
  int visitor = -1;  // -1: none; with neither it is unidentified
  std::uint64_t hello_deadline_ns = 0;
  std::string peer;
  std::string input, output;
  bool closing = false;       // to be closed once `output` has left
  bool dead = false;          // to be closed now
  bool wants_output = false;  // epoll also watches for room

  bool is_unidentified() const { return rank < 0 && visitor < 0; }
  ~Connection() { ::close(fd); }
};

Server::Server(const Options& options) : options_(options) {
  for (Group& group : groups_) group.ranks.resize(static_cast<std::size_t>(options.size));
}

Server::Group& Server::group_of(const Connection& connection) noexcept {
  return groups_[static_cast<std::size_t>(connection.party)];
}
Server::Rank& Server::rank_of(const Connection& connection) noexcept {
  return group_of(connection).ranks[static_cast<std::size_t>(connection.rank)];
}

Server::~Server() {
  connections_.clear();
  if (listener_ >= 0) ::close(listener_);
  if (epoll_ >= 0) ::close(epoll_);
}

Status Server::listen(const Options& options, std::unique_ptr<Server>& server) {
  if (options.size < 1 || options.size > kMaxRanks)
    return {Code::bad_argument, fmt::format("a job has 1 to {} ranks", kMaxRanks)};
  std::unique_ptr<Server> opened(new Server(options));
  Status status = opened->bind_and_listen();
  if (status) server = std::move(opened);
  return status;
}

// -1 with errno if it cannot be.
int Server::bound_socket(const std::string& host) const {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(options_.port).c_str(), &hints, &found) != 0)
    return errno = EADDRNOTAVAIL, -1;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1, off = 0;
  if (fd >= 0 && found->ai_family == AF_INET6)  // :: is then every IPv4 address, too
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const bool listening = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                         bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                         ::listen(fd, 1024) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (listening) return fd;
  if (fd >= 0) ::close(fd);
  return errno = error, -1;
}

Status Server::bind_and_listen() {
  listener_ = bound_socket(options_.host.empty() ? "::" : options_.host);
  if (listener_ < 0 && options_.host.empty()) listener_ = bound_socket("0.0.0.0");
  if (listener_ < 0)
    return {Code::not_permitted,
            fmt::format("cannot listen at {}: {}", join_address(options_.host, options_.port),
                        strerror(errno))};
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                              : reinterpret_cast<sockaddr_in&>(address).sin_port);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {.fd = listener_}};
  if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event) != 0)
    return {Code::no_memory, fmt::format("epoll: {}", strerror(errno))};
  return {};
}

int Server::timeout_ms() const noexcept {
  std::uint64_t earliest = num_unnoted_ > 0 ? notes_until_ns_ : UINT64_MAX;
  for (const auto& [fd, connection] : connections_)
    if (connection->is_unidentified()) earliest = std::min(earliest, connection->hello_deadline_ns);
  for (const Group& group : groups_)
    for (const Rank& rank : group.ranks) {
      if (rank.at_fence) earliest = std::min(earliest, rank.fence_deadline_ns);
      if (rank.state == RankState::lost && rank.gone.empty())
        earliest = std::min(earliest, rank.gone_at_ns);
    }
  if (earliest == UINT64_MAX) return -1;
  const std::uint64_t now = now_ns();
  if (earliest <= now) return 0;
  return static_cast<int>(std::min<std::uint64_t>((earliest - now) / 1'000'000u + 1, 1u << 30));
}

void Server::serve() {
  epoll_event events[kMaxEvents];
  const int ready = epoll_wait(epoll_, events, kMaxEvents, 0);
  for (int i = 0; i < ready; ++i) {
    if (events[i].data.fd == listener_) {
      accept_all();
      continue;
    }
    const auto found = connections_.find(events[i].data.fd);
    if (found == connections_.end()) continue;
    if (events[i].events & EPOLLOUT) flush(*found->second);
    if (events[i].events & ~EPOLLOUT) receive(*found->second);
  }
  const std::uint64_t now = now_ns();
  for (auto& [fd, connection] : connections_)
    if (connection->is_unidentified() && !connection->dead && connection->hello_deadline_ns <= now)
      drop(*connection, "said no hello in time");
  for (Group& group : groups_) resolve_fence(group);
  const auto num_ended = std::erase_if(connections_, [this](const auto& entry) {
    const bool has_ended =
        entry.second->dead || (entry.second->closing && entry.second->output.empty());
    if (has_ended)
      std::erase_if(names_, [&](const auto& name) { return name.second.by == entry.first; });
    return has_ended;
  });
  if (num_ended > 0) watch_listener(true);
}

// Off while no connection could be accepted, which would keep poll_fd() readable.
void Server::watch_listener(bool watched) {
  if (watched == watches_listener_) return;
  watches_listener_ = watched;
  epoll_event event{EPOLLIN, {.fd = listener_}};
  epoll_ctl(epoll_, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_, &event);
}

void Server::accept_all() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      const int error = errno;
      // The kernel reserves a descriptor before it checks whether a connection waits.
      pollfd waits{listener_, POLLIN, 0};
      if (is_shortage(error) && poll(&waits, 1, 0) == 1 && !drop_oldest_unidentified(0)) {
        failure_ = {Code::no_memory,
                    fmt::format("cannot take the connection of a process: {}", strerror(error))};
        watch_listener(false);
      }
      return;
    }
    limit_unidentified();
    auto connection = std::make_unique<Connection>();
    connection->fd = fd;
    connection->hello_deadline_ns =
        now_ns() + ms_to_ns(static_cast<std::uint64_t>(options_.hello_timeout_ms));
    connection->peer = peer_name(fd);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch_for_death(fd, options_.silence_ms);
    epoll_event event{EPOLLIN, {.fd = fd}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) continue;
    connections_.insert_or_assign(fd, std::move(connection));
  }
}

// The oldest unidentified connection makes room for a new one, so that idle connections cannot keep
// ranks out.
void Server::limit_unidentified() {
  drop_oldest_unidentified(kMaxUnidentified + groups_[0].ranks.size() - 1);
}

// False if there are no more than `at_most`.
bool Server::drop_oldest_unidentified(std::size_t at_most) {
  std::size_t num_unidentified = 0;
  Connection* oldest = nullptr;
  for (auto& [fd, connection] : connections_) {
    if (!connection->is_unidentified() || connection->dead) continue;
    ++num_unidentified;
    if (oldest == nullptr || connection->hello_deadline_ns < oldest->hello_deadline_ns)
      oldest = connection.get();
  }
  if (num_unidentified <= at_most) return false;
  drop(*oldest, "made room for another");
  return true;
}

void Server::note(std::string text) {
  if (const std::uint64_t now = now_ns(); num_unnoted_ == 0 && now >= notes_until_ns_) {
    notes_until_ns_ = now + kNotesNs;
    num_noted_ = 0;
  }
  if (num_noted_ == kMaxNotes) {
    ++num_unnoted_;
    return;
  }
  ++num_noted_;
  notices_.push_back(std::move(text));
}

std::vector<std::string> Server::take_notices() {
  if (num_unnoted_ > 0 && now_ns() >= notes_until_ns_)
    notices_.push_back(fmt::format("refused {} more connections", std::exchange(num_unnoted_, 0)));
  return std::exchange(notices_, {});
}

void Server::receive(Connection& connection) {
  // A bounded number of reads at a time, so that one sender cannot keep the others waiting.
  for (int turn = 0; turn < 16 && !connection.dead && !connection.closing; ++turn) {
    const ssize_t length = recv(connection.fd, buffer_.data(), buffer_.size(), 0);
    if (length > 0) {
      connection.input.append(buffer_.data(), static_cast<std::size_t>(length));
      if (!take_frames(connection)) return;
      continue;
    }
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    drop(connection, length == 0 ? "closed its connection" : strerror(errno));
  }
  if (connection.closing) {
    // Bytes after the last word are of no interest, but must be taken to see the end.
    const ssize_t length = recv(connection.fd, buffer_.data(), buffer_.size(), 0);
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) connection.dead = true;
  }
}

// False once the connection is of no more use.
bool Server::take_frames(Connection& connection) {
  std::size_t taken = 0;
  const std::string& input = connection.input;
  while (input.size() - taken >= kHeadBytes) {
    const Head head = read_head(input.data() + taken);
    const bool greets = head.type == Type::hello || head.type == Type::visit;
    const bool is_unidentified = connection.is_unidentified();
    const bool is_about_names =
        head.type == Type::publish || head.type == Type::look_up || head.type == Type::unpublish;
    if (head.magic != kMagic || is_unidentified != greets ||
        (connection.visitor >= 0 && !is_about_names) ||
        head.length > (is_unidentified ? kMaxHelloBytes : kMaxBodyBytes)) {
      drop(connection, "does not speak this protocol");
      return false;
    }
    if (input.size() - taken - kHeadBytes < head.length) break;
    const auto body = std::string_view(input).substr(taken + kHeadBytes, head.length);
    taken += kHeadBytes + head.length;
    bool good = false;
    switch (head.type) {
      case Type::hello:
        good = handle_hello(connection, body);
        break;
      case Type::visit:
        good = handle_visit(connection, body);
        break;
      case Type::fence:
        good = handle_fence(connection, body);
        break;
      case Type::publish:
      case Type::look_up:
      case Type::unpublish:
        good = handle_names(connection, head.type, body);
        break;
      case Type::spawn:
      case Type::check_spawned:
        good = handle_spawn(connection, head.type, body);
        break;
      case Type::abort: {
        BodyReader reader(body);
        const auto exit_code = static_cast<int>(reader.word());
        const std::string_view message = reader.text();
        good = reader.complete();
        if (good && !abort_)
          abort_ = AbortRequest{connection.rank, exit_code, std::string(message)};
        if (good) mark_gone(connection.rank, "ended the job");
        break;
      }
      case Type::goodbye: {
        Rank& rank = rank_of(connection);
        rank.state = RankState::left;
        rank.connection = nullptr;
        rank.at_fence = false;
        mark_gone(group_of(connection), connection.rank, "has left the job");
        connection.closing = true;
        send(connection, make_frame(Type::farewell, {}));
        return false;
      }
      default:
        break;
    }
    if (!good) {
      if (!connection.dead && !connection.closing) drop(connection, "sent a malformed message");
      return false;
    }
  }
  connection.input.erase(0, taken);
  return true;
}

bool Server::handle_hello(Connection& connection, std::string_view body) {
  BodyReader reader(body);
  const std::uint32_t version = reader.word();
  const std::uint32_t rank = reader.word();
  const std::uint32_t size = reader.word();
  reader.word();  // the process id, for a reader of the traffic
  const std::uint32_t party = reader.word();
  const std::string_view key = reader.text();
  if (!reader.complete() || !may_enter(connection, version, key)) return false;
  if (party >= kNumParties) return false;
  auto& ranks = groups_[party].ranks;
  if (size != ranks.size() || rank >= ranks.size()) {
    refuse(connection,
           fmt::format("the job has {} ranks, so no rank {} of {}", ranks.size(), rank, size));
  } else if (ranks[rank].state != RankState::absent) {
    refuse(connection, fmt::format("rank {} has joined before", rank));
  } else {
    connection.rank = static_cast<int>(rank);
    connection.party = static_cast<Party>(party);
    ranks[rank].state = RankState::joined;
    ranks[rank].connection = &connection;
    send(connection, make_frame(Type::welcome, {}));
    return !connection.dead;
  }
  return false;
}

bool Server::handle_visit(Connection& connection, std::string_view body) {
  BodyReader reader(body);
  const std::uint32_t version = reader.word();
  const std::uint32_t visitor = reader.word();
  const std::string_view key = reader.text();
  if (!reader.complete() || visitor > INT32_MAX || !may_enter(connection, version, key))
    return false;
  connection.visitor = static_cast<int>(visitor);
  send(connection, make_frame(Type::welcome, {}));
  return !connection.dead;
}

bool Server::may_enter(Connection& connection, std::uint32_t version, std::string_view key) {
  if (!equal_keys(key, options_.key)) {
    refuse(connection, "the job's key (WEFT_JOB_KEY) is another one");
  } else if (version != kVersion) {
    refuse(connection, fmt::format("the server speaks version {}, not {}", kVersion, version));
  } else {
    return true;
  }
  return false;
}

bool Server::handle_fence(Connection& connection, std::string_view body) {
  Group& group = group_of(connection);
  Rank& rank = rank_of(connection);
  BodyReader reader(body);
  const std::uint32_t timeout_ms = reader.word();
  const std::uint32_t count = reader.word();
  std::string entries;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    append_word(entries, static_cast<std::uint32_t>(connection.rank));
    append_text(entries, reader.text());
    append_text(entries, reader.text());
  }
  if (!reader.complete() || rank.at_fence) return false;
  if (group.pending.size() + entries.size() > kMaxReleaseBytes) return false;
  group.pending += entries;
  group.num_pending += count;
  rank.at_fence = true;
  rank.fence_timeout_ms = timeout_ms;
  rank.fence_deadline_ns = now_ns() + ms_to_ns(timeout_ms);
  return true;
}

bool Server::handle_names(Connection& connection, Type type, std::string_view body) {
  BodyReader reader(body);
  const std::string_view service = reader.text();
  const std::string_view port = type == Type::publish ? reader.text() : std::string_view();
  if (!reader.complete() || service.size() > kMaxNameBytes || port.size() > kMaxNameBytes)
    return false;
  const auto found = names_.find(service);
  if (type == Type::publish) {
    if (found != names_.end())
      answer(connection, {Code::exists, fmt::format("'{}' is published already", service)});
    else if (names_.size() >= kMaxNames)
      answer(connection, {Code::no_memory, fmt::format("{} names are published", kMaxNames)});
    else
      names_.emplace(service, Published{std::string(port), connection.fd}),
          answer(connection, Status());
  } else if (found == names_.end()) {
    answer(connection, {Code::not_found, fmt::format("'{}' is not published", service)});
  } else if (type == Type::look_up) {
    answer(connection, Status(), found->second.port);
  } else {
    names_.erase(found);
    answer(connection, Status());
  }
  return !connection.dead;
}

bool Server::handle_spawn(Connection& connection, Type type, std::string_view body) {
  BodyReader reader(body);
  const auto read_texts = [&reader](std::uint32_t count) {
    std::vector<std::string> texts;
    for (std::uint32_t i = 0; i < count && reader.ok(); ++i) texts.emplace_back(reader.text());
    return texts;
  };
  std::vector<std::string> environment, words;
  const std::uint32_t first = reader.word();
  if (type == Type::spawn) environment = read_texts(first);
  const std::uint32_t second = reader.word();
  if (type == Type::spawn) words = read_texts(second);
  if (!reader.complete() || first > INT32_MAX) return false;
  int id = static_cast<int>(first);
  Status status = Code::unsupported;
  if (options_.spawner != nullptr)
    status = type == Type::spawn
                 ? options_.spawner->spawn(std::move(environment), std::move(words), id)
                 : options_.spawner->check(id, second != 0);
  answer(connection, status, std::to_string(id));
  return !connection.dead;
}

void Server::answer(Connection& connection, const Status& status, std::string_view text) {
  std::string body;
  append_word(body, static_cast<std::uint32_t>(status.code()));
  append_text(body, status.ok() ? text : std::string_view(status.text()));
  send(connection, make_frame(Type::answer, body));
}

void Server::send(Connection& connection, std::string_view frame) {
  connection.output += frame;
  flush(connection);
}

void Server::flush(Connection& connection) {
  std::size_t sent = 0;
  while (sent < connection.output.size() && !connection.dead) {
    const ssize_t length = ::send(connection.fd, connection.output.data() + sent,
                                  connection.output.size() - sent, MSG_NOSIGNAL);
    if (length >= 0) {
      sent += static_cast<std::size_t>(length);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      drop(connection, strerror(errno));
    }
  }
  connection.output.erase(0, sent);
  const bool wants_output = !connection.output.empty() && !connection.dead;
  if (wants_output == connection.wants_output) return;
  connection.wants_output = wants_output;
  epoll_event event{EPOLLIN, {.fd = connection.fd}};
  if (wants_output) event.events |= EPOLLOUT;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
}

void Server::refuse(Connection& connection, std::string_view why) {
  note(fmt::format("refused a process at {}: {}", connection.peer, why));
  std::string body;
  append_text(body, why);
  connection.closing = true;
  send(connection, make_frame(Type::refused, body));
}

void Server::drop(Connection& connection, std::string_view why) {
  if (connection.dead) return;
  connection.dead = true;
  if (connection.visitor >= 0) {
    lost_visitors_.push_back(connection.visitor);
    return;
  }
  if (connection.rank < 0) {
    note(fmt::format("dropped an unidentified connection from {}: it {}", connection.peer, why));
    return;
  }
  Rank& rank = rank_of(connection);
  if (rank.connection != &connection) return;  // said goodbye
  rank.state = RankState::lost;
  rank.connection = nullptr;
  rank.at_fence = false;
  rank.gone_at_ns = now_ns() + ms_to_ns(static_cast<std::uint64_t>(options_.loss_grace_ms));
}

Server::RankState Server::state(int rank) const noexcept {
  RankState found = RankState::absent;
  for (const Group& group : groups_) {
    const RankState state = group.ranks[static_cast<std::size_t>(rank)].state;
    // A rank that left as one party and not as the other has not left.
    if (found == RankState::absent || (found == RankState::left && state != RankState::absent))
      found = state;
  }
  return found;
}

void Server::mark_gone(int rank, std::string_view how) {
  for (Group& group : groups_) mark_gone(group, rank, how);
}

void Server::mark_gone(Group& group, int rank, std::string_view how) {
  Rank& entry = group.ranks[static_cast<std::size_t>(rank)];
  if (entry.gone.empty()) entry.gone = fmt::format("rank {} {}", rank, how);
}

bool Server::quiet() const noexcept {
  return std::ranges::none_of(connections_, [](const auto& entry) {
    return !entry.second->dead && (entry.second->rank >= 0 || entry.second->closing);
  });
}

// Ends the fence if all have come, or if some wait for ranks that will not come.
void Server::resolve_fence(Group& group) {
  const std::uint64_t now = now_ns();
  std::size_t num_at_fence = 0;
  const Rank* gone = nullptr;
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    Rank& rank = group.ranks[i];
    num_at_fence += rank.at_fence;
    if (rank.state == RankState::lost && rank.gone.empty() && rank.gone_at_ns <= now)
      mark_gone(group, static_cast<int>(i), "died");
    if (!rank.gone.empty() && gone == nullptr) gone = &rank;
  }
  if (num_at_fence == 0) return;
  if (num_at_fence == group.ranks.size()) return release(group);
  const auto overdue = std::ranges::find_if(group.ranks, [now](const Rank& rank) {
    return rank.at_fence && rank.fence_deadline_ns <= now;
  });
  // A rank that gives up ends the fence for all at it: else the next one would report that rank
  // only, and not the missing ones.
  if (gone != nullptr)
    fail_fence(group, Code::peer_lost, gone->gone);
  else if (overdue != group.ranks.end())
    fail_fence(group, Code::timed_out,
               fmt::format("after {} ms {}", overdue->fence_timeout_ms, name_missing(group)));
}

void Server::release(Group& group) {
  std::string body;
  append_word(body, group.num_pending);
  body += group.pending;
  const std::string frame = make_frame(Type::release, body);
  group.pending.clear();
  group.num_pending = 0;
  for (Rank& rank : group.ranks) {
    rank.at_fence = false;
    if (rank.connection != nullptr) send(*rank.connection, frame);
  }
}

void Server::fail_fence(Group& group, Code code, std::string_view why) {
  std::string body;
  append_word(body, static_cast<std::uint32_t>(code));
  append_text(body, why);
  const std::string frame = make_frame(Type::failed, body);
  for (Rank& rank : group.ranks) {
    if (!rank.at_fence) continue;
    rank.at_fence = false;
    send(*rank.connection, frame);
  }
}

std::string Server::name_missing(const Group& group) {
  std::vector<int> absent, late;
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (group.ranks[i].state == RankState::absent)
      absent.push_back(static_cast<int>(i));
    else if (!group.ranks[i].at_fence)
      late.push_back(static_cast<int>(i));
  }
  const auto have = [](const std::vector<int>& ranks) {
    return ranks.size() == 1 ? "has" : "have";
  };
  std::string text;
  if (!absent.empty()) text = fmt::format("{} {} not started", name_ranks(absent), have(absent));
  if (!absent.empty() && !late.empty()) text += " and ";
  if (!late.empty())
    text += fmt::format("{} {} not come to the fence", name_ranks(late), have(late));
  return text;
}

}  // namespace weft::rendezvous
