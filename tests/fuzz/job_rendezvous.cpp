// The rendezvous server against whoever connects to its port: three connections that say what the
// input tells them, in pieces. The input is a row of pieces: which connection (one byte, modulo 3;
// 255 closes them all), length (one byte), bytes.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/log.hpp"
#include "job/rendezvous_server.hpp"

using namespace weft;
using rendezvous::Server;

namespace {

// Reset at its end, so that no port is kept for a while.
class Caller {
 public:
  explicit Caller(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const linger reset{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      // A connect that the fuzzer's own timer interrupts goes on by itself.
      pollfd connected{fd_, POLLOUT, 0};
      if (errno != EINTR || poll(&connected, 1, 1000) != 1) std::abort();
    }
  }
  ~Caller() { close(fd_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void say(const std::uint8_t* data, std::size_t length) const {
    // What the server has closed takes nothing more.
    if (send(fd_, data, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  }

 private:
  const int fd_;
};

void serve(Server& server) {
  // What was said is there at once, on one host; what a turn leaves is taken by the next.
  for (int turn = 0; turn < 4; ++turn) server.serve();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(static_cast<LogLevel>(-1));
  Server::Options options;
  options.size = 2;
  options.key = "key";
  std::unique_ptr<Server> server;
  if (!Server::listen(options, server)) std::abort();
  std::unique_ptr<Caller> callers[3];
  while (size >= 2) {
    const std::size_t length = std::min<std::size_t>(data[1], size - 2);
    if (data[0] == 255) {
      for (auto& caller : callers) caller.reset();
    } else {
      auto& caller = callers[data[0] % 3];
      if (!caller) {
        caller = std::make_unique<Caller>(server->port());
        serve(*server);
      }
      caller->say(data + 2, length);
    }
    serve(*server);
    data += 2 + length, size -= 2 + length;
  }
  for (const int rank : {0, 1}) {
    // Nobody joins without the key.
    if (server->state(rank) == Server::RankState::joined && server->quiet()) std::abort();
  }
  for (auto& caller : callers) caller.reset();
  serve(*server);
  if (!server->quiet()) std::abort();  // all are gone, and no connection is left over
  return 0;
}
