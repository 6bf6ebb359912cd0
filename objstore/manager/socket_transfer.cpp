#include "socket_transfer.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint32_t kSocketMagic = 0x32747377;  // "wst2"
constexpr std::size_t kPieceBytes = 4096;           // the paper's
constexpr int kPiecesAtOnce = 1024;                 // then others have their turn
constexpr std::size_t kMostGiving = 4096;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// flags: AI_NUMERICHOST does not ask a name server.
Addresses addresses_of(const std::string& text, const char* port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  std::string host = text.substr(0, text.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (::getaddrinfo(host.c_str(), port, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

bool is_wildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == INADDR_ANY;
  const auto& wide = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return std::memcmp(&wide, &in6addr_any, sizeof wide) == 0;
}

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Checks the result of one send or recv. Again: -1 with errno EAGAIN.
bool is_broken(ssize_t result) {
  return result == 0 || (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// Fills `bytes` up; -1: nothing came, 0: the connection is broken.
int fill(int fd, void* bytes, std::size_t size, std::size_t& have) {
  const ssize_t got = ::recv(fd, static_cast<char*>(bytes) + have, size - have, 0);
  if (is_broken(got)) return 0;
  if (got < 0) return -1;
  have += static_cast<std::size_t>(got);
  return 1;
}

int flush(int fd, std::string& unsent) {
  const ssize_t sent = ::send(fd, unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (is_broken(sent)) return 0;
  if (sent < 0) return -1;
  unsent.erase(0, static_cast<std::size_t>(sent));
  return 1;
}

}  // namespace

SocketTransfer::~SocketTransfer() {
  for (const ServingConnection& giving : giving_)
    if (giving.is_holding) user_.drop(giving.object);
}

Status SocketTransfer::listen(const std::string& address) {
  if (address.starts_with("unix:") || address.rfind(':') == std::string::npos)
    return {Code::bad_argument,
            "--protocol socket: '" + address + "' is no host:port that a TCP socket can listen at"};
  const Addresses found = addresses_of(address, "0", 0);
  if (found == nullptr)
    return {Code::bad_argument, "--protocol socket: no host is known for '" + address + "'"};
  if (is_wildcard(found->ai_addr))
    return {Code::bad_argument, "--protocol socket: '" + address +
                                    "' is every address of this host; give the one that others "
                                    "connect to"};
  listener_ = Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (!listener_ || ::bind(listener_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener_.get(), 128) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    return system_error("listening at " + address + " for the socket protocol");
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&bound), length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return system_error("naming the address of the socket protocol");
  address_ = std::string(host) + ":" + port;
  return Code::ok;
}

// --- The requester's side ---

SocketTransfer::RequestConnection& SocketTransfer::connection_to(const std::string& address) {
  for (RequestConnection& asking : asking_)
    if (asking.address == address) return asking;
  RequestConnection& asking = asking_.emplace_back();
  asking.address = address;
  asking.moved_ns = monotonic_ns();
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return asking;  // without a socket: progress() fails it
  const Addresses found = addresses_of(address, address.c_str() + colon + 1, AI_NUMERICHOST);
  if (found == nullptr) return asking;
  asking.socket =
      Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!asking.socket) return asking;
  send_at_once(asking.socket.get());
  if (::connect(asking.socket.get(), found->ai_addr, found->ai_addrlen) != 0 &&
      errno != EINPROGRESS)
    asking.socket = Descriptor();
  return asking;
}

void SocketTransfer::ask(const std::string& address, const ObjectId& id, std::uint64_t number) {
  RequestConnection& asking = connection_to(address);
  ObjectRequest request{};
  request.magic = kSocketMagic;
  request.id = id;
  request.number = number;
  if (asking.asked.empty()) asking.moved_ns = monotonic_ns();
  asking.unsent.append(reinterpret_cast<const char*>(&request), sizeof request);
  asking.asked.push_back(number);
}

void SocketTransfer::cancel(std::uint64_t number) {
  for (RequestConnection& asking : asking_)
    for (std::size_t i = 0; i < asking.asked.size(); ++i)
      if (asking.asked[i] == number) {
        asking.asked[i] = 0;
        if (i == 0) asking.to = nullptr;
      }
}

void SocketTransfer::take_answer(RequestConnection& asking) {
  const ObjectAnswer& answer = asking.answer;
  const std::uint64_t number = asking.asked.front();
  asking.left = answer.is_here != 0 ? answer.data_bytes + answer.metadata_bytes : 0;
  asking.to = nullptr;
  if (number == 0) return;
  if (answer.is_here == 0) {
    asking.asked.front() = 0;
    user_.failed(number, true);
    return;
  }
  asking.to = user_.make_room(number, answer.data_bytes, answer.metadata_bytes);
  // A user without room has ended the ask.
  if (asking.to == nullptr) asking.asked.front() = 0;
}

void SocketTransfer::end_object(RequestConnection& asking) {
  const std::uint64_t number = asking.asked.front();
  asking.asked.pop_front();
  asking.answer_bytes = 0;
  asking.to = nullptr;
  if (number != 0) user_.arrived(number);
}

void SocketTransfer::fail_all(RequestConnection& asking) {
  const std::deque<std::uint64_t> asked = std::exchange(asking.asked, {});
  asking.to = nullptr;
  for (const std::uint64_t number : asked)
    if (number != 0) user_.failed(number, false);
}

SocketTransfer::Moved SocketTransfer::advance(RequestConnection& asking, std::uint64_t now_ns) {
  if (!asking.socket) return Moved::broken;
  const int fd = asking.socket.get();
  bool has_moved = false;
  if (!asking.is_connected) {
    pollfd ready{fd, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return Moved::nothing;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Moved::broken;
    asking.is_connected = has_moved = true;
  }
  while (!asking.unsent.empty()) {
    const int sent = flush(fd, asking.unsent);
    if (sent == 0) return Moved::broken;
    if (sent < 0) break;
    has_moved = true;
  }
  for (int i = 0; i < kPiecesAtOnce; ++i) {
    if (asking.answer_bytes < sizeof asking.answer) {
      const int got = fill(fd, &asking.answer, sizeof asking.answer, asking.answer_bytes);
      if (got == 0) return Moved::broken;
      if (got < 0) break;
      has_moved = true;
      if (asking.answer_bytes < sizeof asking.answer) continue;
      // An answer without a request, or an impossible length.
      if (asking.asked.empty() || asking.answer.magic != kSocketMagic ||
          asking.answer.data_bytes > INT64_MAX)
        return Moved::broken;
      take_answer(asking);
    } else {
      std::array<std::byte, kPieceBytes> nowhere;
      const std::size_t piece = std::min<std::uint64_t>(asking.left, kPieceBytes);
      const ssize_t got = ::recv(fd, asking.to != nullptr ? asking.to : nowhere.data(), piece, 0);
      if (is_broken(got)) return Moved::broken;
      if (got < 0) break;
      has_moved = true;
      if (asking.to != nullptr) asking.to += got;
      asking.left -= static_cast<std::uint64_t>(got);
    }
    if (asking.left == 0 && asking.answer_bytes == sizeof asking.answer) end_object(asking);
  }
  if (has_moved) asking.moved_ns = now_ns;
  return has_moved ? Moved::something : Moved::nothing;
}

// --- The holder's side ---

void SocketTransfer::accept_all(std::uint64_t now_ns) {
  if (!listener_) return;
  while (giving_.size() < kMostGiving) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    send_at_once(socket.get());
    ServingConnection& giving = giving_.emplace_back();
    giving.socket = std::move(socket);
    giving.moved_ns = now_ns;
  }
}

SocketTransfer::Moved SocketTransfer::advance(ServingConnection& giving, std::uint64_t now_ns) {
  const int fd = giving.socket.get();
  bool has_moved = false;
  for (int i = 0; i < kPiecesAtOnce; ++i) {
    if (!giving.unsent.empty()) {
      const int sent = flush(fd, giving.unsent);
      if (sent == 0) return Moved::broken;
      if (sent < 0) break;
    } else if (giving.is_holding) {
      if (giving.sent < giving.total) {
        const std::size_t piece = std::min<std::uint64_t>(giving.total - giving.sent, kPieceBytes);
        const ssize_t sent = ::send(fd, giving.object.bytes + giving.sent, piece, MSG_NOSIGNAL);
        if (is_broken(sent)) return Moved::broken;
        if (sent < 0) break;
        giving.sent += static_cast<std::uint64_t>(sent);
      }
      if (giving.sent == giving.total) {
        giving.is_holding = false;
        user_.drop(giving.object);
      }
    } else {
      const int got = fill(fd, &giving.request, sizeof giving.request, giving.request_bytes);
      if (got == 0) return Moved::broken;
      if (got < 0) break;
      if (giving.request_bytes == sizeof giving.request) {
        if (giving.request.magic != kSocketMagic) return Moved::broken;
        giving.request_bytes = 0;
        giving.has_asked = true;
        giving.object = {};
        giving.is_holding = user_.hold(giving.request.id, giving.object);
        giving.sent = 0;
        giving.total = giving.object.data_bytes + giving.object.metadata_bytes;
        ObjectAnswer answer{};
        answer.magic = kSocketMagic;
        answer.is_here = giving.is_holding;
        answer.number = giving.request.number;
        answer.data_bytes = giving.object.data_bytes;
        answer.metadata_bytes = giving.object.metadata_bytes;
        giving.unsent.assign(reinterpret_cast<const char*>(&answer), sizeof answer);
      }
    }
    has_moved = true;
  }
  if (has_moved) giving.moved_ns = now_ns;
  return has_moved ? Moved::something : Moved::nothing;
}

// --- Both ---

bool SocketTransfer::progress(std::uint64_t now_ns) {
  accept_all(now_ns);
  bool has_moved = false;
  const auto is_idle_too_long = [&](std::uint64_t moved_ns) {
    return moved_ns + idle_ms_ * std::uint64_t{1'000'000} < now_ns;
  };
  for (auto asking = asking_.begin(); asking != asking_.end();) {
    Moved moved = advance(*asking, now_ns);
    if (moved == Moved::nothing && !asking->asked.empty() && is_idle_too_long(asking->moved_ns))
      moved = Moved::broken;
    has_moved |= moved == Moved::something;
    if (moved != Moved::broken) {
      ++asking;
      continue;
    }
    // The user may ask anew in failed(), through another connection.
    std::list<RequestConnection> broken;
    broken.splice(broken.begin(), asking_, asking++);
    fail_all(broken.front());
  }
  for (auto giving = giving_.begin(); giving != giving_.end();) {
    Moved moved = advance(*giving, now_ns);
    const bool is_due = !giving->has_asked || giving->is_holding || giving->request_bytes != 0 ||
                        !giving->unsent.empty();
    if (moved == Moved::nothing && is_due && is_idle_too_long(giving->moved_ns))
      moved = Moved::broken;
    has_moved |= moved == Moved::something;
    if (moved != Moved::broken) {
      ++giving;
      continue;
    }
    if (giving->is_holding) user_.drop(giving->object);
    giving = giving_.erase(giving);
  }
  return has_moved;
}

void SocketTransfer::await(std::vector<pollfd>& descriptors) const {
  if (listener_ && giving_.size() < kMostGiving)
    descriptors.push_back({listener_.get(), POLLIN, 0});
  const auto events = [](bool reads, bool writes) {
    return static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
  };
  for (const RequestConnection& asking : asking_)
    if (asking.socket)
      descriptors.push_back(
          {asking.socket.get(), events(true, !asking.is_connected || !asking.unsent.empty()), 0});
  for (const ServingConnection& giving : giving_) {
    const bool has_more = giving.is_holding || !giving.unsent.empty();
    descriptors.push_back({giving.socket.get(), events(!has_more, has_more), 0});
  }
}

}  // namespace weft::objstore
