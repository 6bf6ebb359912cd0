#include "job/rendezvous_link.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

#include "base/os/keepalive.hpp"

namespace weft::rendezvous {

bool split_address(std::string_view address, std::string& host, std::uint16_t& port) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const std::string_view digits = address.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc{} && end == digits.data() + digits.size() && port != 0;
}

std::string join_address(std::string_view host, std::uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void Link::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

Status Link::lost() const {
  return {Code::peer_lost, fmt::format("the rendezvous server at {} is gone", address_)};
}

Status Link::no_server() const {
  return {Code::corrupt, fmt::format("what answers at {} is no rendezvous server", address_)};
}

Status Link::connect(const std::string& address, const Deadline& deadline) {
  close();
  address_ = address;
  std::string host;
  std::uint16_t port = 0;
  if (!split_address(address, host, port))
    return {Code::bad_setting, fmt::format("{} is not host:port", address)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return {Code::bad_setting, fmt::format("{}: {}", address, gai_strerror(error))};
  // A name may stand for several addresses, not all of which lead there.
  Status status = Code::again;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    close();
    socket_ = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0) {
      status = {Code::no_memory, fmt::format("socket: {}", strerror(errno))};
      continue;
    }
    int error = ::connect(socket_, entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd done{socket_, POLLOUT, 0};
      socklen_t length = sizeof error;
      if (poll(&done, 1, deadline.left_ms()) != 1 ||
          getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = ETIMEDOUT;
    }
    status = error == 0 ? Status() : Status(Code::again, strerror(error));
    if (error == 0) break;
    // Waiting does not help: even this host's own addresses cannot be reached.
    if ((error == ENETUNREACH || error == EADDRNOTAVAIL) && is_loopback(host))
      status = {Code::unsupported,
                fmt::format("{}: {}; the loopback interface seems to be down (ip link set lo up)",
                            address, strerror(error))};
  }
  freeaddrinfo(found);
  if (!status) {
    close();
    return status;
  }
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch_for_death(socket_, silence_ms_);
  return {};
}

Status Link::greet(const std::string& address, std::string_view greeting,
                   const Deadline& deadline) {
  Status status = connect(address, deadline);
  if (!status) return status;
  Type type{};
  std::string body;
  status = send_bytes(greeting, deadline);
  if (status) status = receive_frame(type, body, deadline);
  if (status && type == Type::welcome) return {};
  close();
  if (status.code() == Code::peer_lost) return Code::again;
  if (!status) return status;
  BodyReader reader(body);
  const std::string_view why = reader.text();
  if (type != Type::refused || !reader.complete()) return no_server();
  return {Code::not_permitted, std::string(why)};
}

Status Link::send_bytes(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t length = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (length >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(length));
    } else if (errno == EAGAIN) {
      pollfd room{socket_, POLLOUT, 0};
      if (deadline.left_ms() == 0) return Code::timed_out;
      poll(&room, 1, deadline.left_ms());
    } else if (errno != EINTR) {
      return lost();
    }
  }
  return {};
}

Status Link::send_frame(Type type, std::string_view body, const Deadline& deadline) {
  return send_bytes(make_frame(type, body), deadline);
}

Status Link::receive_bytes(char* bytes, std::size_t length, const Deadline& deadline) {
  while (length > 0) {
    const ssize_t received = recv(socket_, bytes, length, 0);
    if (received > 0) {
      bytes += received;
      length -= static_cast<std::size_t>(received);
    } else if (received < 0 && errno == EAGAIN) {
      if (deadline.left_ms() == 0)
        return {Code::timed_out,
                fmt::format("the rendezvous server at {} does not answer", address_)};
      pollfd data{socket_, POLLIN, 0};
      poll(&data, 1, deadline.left_ms());
    } else if (received == 0 || errno != EINTR) {
      return lost();
    }
  }
  return {};
}

Status Link::receive_frame(Type& type, std::string& body, const Deadline& deadline) {
  char bytes[kHeadBytes];
  Status status = receive_bytes(bytes, sizeof bytes, deadline);
  if (!status) return status;
  const Head head = read_head(bytes);
  if (head.magic != kMagic || head.length > kMaxReleaseBytes) return no_server();
  type = head.type;
  // Memory grows with the received bytes, not with the length that the peer claims.
  constexpr std::size_t kStepBytes = std::size_t{1} << 20;
  body.clear();
  while (status && body.size() < head.length) {
    const std::size_t before = body.size();
    body.resize(std::min(head.length, before + kStepBytes));
    status = receive_bytes(body.data() + before, body.size() - before, deadline);
  }
  return status;
}

Status Link::ask(Type type, std::string_view body, const Deadline& deadline, std::string& text) {
  Status status = send_frame(type, body, deadline);
  Type answered{};
  std::string answer;
  if (status) status = receive_frame(answered, answer, deadline);
  if (!status) return status;
  BodyReader reader(answer);
  const std::uint32_t code = reader.word();
  text = reader.text();
  if (answered != Type::answer || !reader.complete() ||
      code > static_cast<std::uint32_t>(Code::exists))
    return no_server();
  return code == 0 ? Status() : Status(static_cast<Code>(code), text);
}

}  // namespace weft::rendezvous
