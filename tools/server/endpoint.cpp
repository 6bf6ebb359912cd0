#include "tools/server/endpoint.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/os/thread.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "peer/sockets.hpp"
#include "tools/server/request.hpp"

namespace weft::server {
namespace {

constexpr std::size_t kMaxConnections = 16;
constexpr std::size_t kMaxDrainedBytes = 1 << 20;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kRequestNs = 5 * kSecondNs, kAnswerNs = 5 * kSecondNs, kDrainNs = kSecondNs;
// Requests of one moment share the numbers: what a server spends on them has a bound.
constexpr std::uint64_t kMomentNs = kSecondNs / 10;

constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kMetrics = "text/plain; version=0.0.4; charset=utf-8";

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), body);
}

Status failed(const std::string& where, const std::string& why) {
  const Code code = errno == EACCES || errno == EPERM ? Code::not_permitted
                    : errno == EADDRNOTAVAIL          ? Code::not_found
                    : errno == EADDRINUSE             ? Code::exists
                                                      : Code::no_memory;
  return {code, fmt::format("--metrics {}: {}: {}", where, why, std::strerror(errno))};
}

// A socket that a killed server left: nothing listens there.
void remove_stale(const peer::SocketAddress& address) {
  struct stat info {};
  if (::lstat(address.path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (probe && ::connect(probe.get(), address.raw(), address.length) != 0 && errno == ECONNREFUSED)
    ::unlink(address.path.c_str());
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Endpoint::~Endpoint() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
}

Status Endpoint::open(const std::string& where, EndpointSources sources) {
  sources_ = std::move(sources);
  if (Status status = listen(where); !status) return status;
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return failed(where, "eventfd");
  return start_thread(thread_, [this] { run(); });
}

Status Endpoint::listen(const std::string& where) {
  peer::SocketAddress address;
  if (const Status status = peer::resolve(where, address); !status)
    return {Code::bad_argument,
            fmt::format("--metrics {}: {}; it takes HOST:PORT, [IPV6]:PORT or unix:PATH", where,
                        status.text())};
  listener_ = Descriptor(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) return failed(where, "socket");
  const int on = 1;
  if (!address.is_unix)
    (void)::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  else if (!address.path.empty())
    remove_stale(address);
  if (::bind(listener_.get(), address.raw(), address.length) != 0) return failed(where, "bind");
  unix_path_ = address.path;
  if (::listen(listener_.get(), 64) != 0) return failed(where, "listen");
  address_ = address.is_unix ? where : peer::bound_text(listener_.get());
  return Code::ok;
}

void Endpoint::run() {
  bool accepts = true;  // false: there are no descriptors for a moment
  std::array<pollfd, 2 + kMaxConnections> ready{};
  for (;;) {
    const std::uint64_t before_ns = now_ns();
    std::uint64_t until_ns = before_ns + kSecondNs;
    ready[0] = {wake_.get(), POLLIN, 0};
    ready[1] = {listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0};
    nfds_t num_ready = 2;
    for (const Connection& connection : connections_) {
      ready[num_ready++] = {
          connection.socket.get(),
          static_cast<short>(connection.stage == Stage::writing ? POLLOUT : POLLIN), 0};
      until_ns = std::min(until_ns, connection.deadline_ns);
    }
    const std::uint64_t wait_ns = until_ns > before_ns ? until_ns - before_ns : 0;
    const int wait_ms = accepts ? static_cast<int>(wait_ns / 1'000'000 + 1) : 100;
    if (::poll(ready.data(), num_ready, wait_ms) < 0 && errno != EINTR) return;
    if (ready[0].revents != 0) return;
    const std::uint64_t now = now_ns();
    std::size_t number = 2;
    for (auto at = connections_.begin(); at != connections_.end(); ++number) {
      const bool stays = (ready[number].revents == 0 || advance(*at)) && now < at->deadline_ns;
      at = stays ? std::next(at) : connections_.erase(at);
    }
    accepts = !accepts || ready[1].revents == 0 || accept_connections();
  }
}

// False: there are no descriptors, or no memory, for more.
bool Endpoint::accept_connections() {
  for (std::size_t i = 0; i < kMaxConnections; ++i) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return !is_shortage(errno);
    if (connections_.size() == kMaxConnections) connections_.pop_front();
    if (or_no_memory([&] { connections_.emplace_back(); }) != Code::ok) return false;
    connections_.back().socket = std::move(socket);
    connections_.back().deadline_ns = now_ns() + kRequestNs;
  }
  return true;
}

bool Endpoint::advance(Connection& connection) {
  bool stays = false;
  // Without memory for it the connection ends, rather than the server.
  or_no_memory([&] {
    stays = connection.stage == Stage::reading   ? read(connection)
            : connection.stage == Stage::writing ? write(connection)
                                                 : drain(connection);
  });
  return stays;
}

bool Endpoint::read(Connection& connection) {
  char piece[4096];
  const ssize_t got = ::recv(connection.socket.get(), piece, sizeof piece, 0);
  if (got < 0) return would_block();
  if (got == 0) return false;
  connection.received.append(piece, static_cast<std::size_t>(got));
  const Request request = read_request(connection.received);
  if (request.state == RequestState::incomplete) return true;
  connection.answer = request.state == RequestState::wrong
                          ? response("400 Bad Request", kText, "not a request of GET\n")
                          : answer_to(request.path);
  connection.stage = Stage::writing;
  connection.deadline_ns = now_ns() + kAnswerNs;
  return write(connection);
}

bool Endpoint::write(Connection& connection) {
  while (connection.sent < connection.answer.size()) {
    const ssize_t put = ::send(connection.socket.get(), connection.answer.data() + connection.sent,
                               connection.answer.size() - connection.sent, MSG_NOSIGNAL);
    if (put < 0) return would_block();
    connection.sent += static_cast<std::size_t>(put);
  }
  // A socket that is closed with bytes unread resets the connection, and the answer may be lost.
  (void)::shutdown(connection.socket.get(), SHUT_WR);
  connection.stage = Stage::draining;
  connection.deadline_ns = now_ns() + kDrainNs;
  return true;
}

bool Endpoint::drain(Connection& connection) {
  char piece[4096];
  const ssize_t got = ::recv(connection.socket.get(), piece, sizeof piece, 0);
  if (got <= 0) return got < 0 && would_block();
  connection.drained += static_cast<std::size_t>(got);
  return connection.drained < kMaxDrainedBytes;
}

std::string Endpoint::answer_to(std::string_view path) {
  if (path == "/healthz")
    return sources_.is_healthy()
               ? response("200 OK", kText, "ok\n")
               : response("503 Service Unavailable", kText, "the server does not answer\n");
  if (path != "/metrics")
    return response("404 Not Found", kText, "here are /metrics and /healthz\n");
  if (now_ns() >= metrics_until_ns_) {
    auto made = sources_.metrics();
    if (!made) return response("503 Service Unavailable", kText, "the server does not answer\n");
    metrics_ = std::move(*made);
    metrics_until_ns_ = now_ns() + kMomentNs;
  }
  return response("200 OK", kMetrics, metrics_);
}

}  // namespace weft::server
