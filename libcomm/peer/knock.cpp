#include "peer/knock.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::transport {

namespace {

// The kernel asks again after 1 s, and after 2 s more: then a new question is asked sooner.
constexpr std::uint64_t kKnockNs = 2'000'000'000;

}  // namespace

void Knock::begin(fabric::Bytes listener, std::uint64_t now_ns) noexcept {
  sockaddr_storage address{};
  if (socket_ || listener.empty() || listener.size() > sizeof address) return;
  std::memcpy(&address, listener.data(), listener.size());
  // The bytes are the peer's.
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return;
  // Without a descriptor nobody is asked, and silence decides.
  socket_ = Descriptor(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return;
  began_ns_ = now_ns;
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address),
                static_cast<socklen_t>(listener.size())) == 0 ||
      errno == EINPROGRESS)
    return;
  is_refused_ = errno == ECONNREFUSED;
  socket_ = {};
}

Knock::Answer Knock::look(std::uint64_t now_ns) noexcept {
  if (std::exchange(is_refused_, false)) return Answer::refused;
  if (!socket_) return Answer::none;
  pollfd state{socket_.get(), POLLOUT, 0};
  if (::poll(&state, 1, 0) != 1) {
    if (now_ns > began_ns_ + kKnockNs) socket_ = {};
    return Answer::none;
  }
  int error = 0;
  socklen_t length = sizeof error;
  const bool is_known = ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0;
  socket_ = {};
  if (!is_known) return Answer::none;
  return error == 0 ? Answer::listens : error == ECONNREFUSED ? Answer::refused : Answer::none;
}

}  // namespace weft::transport
