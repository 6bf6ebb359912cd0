// A rank's board against a rendezvous server that says anything: the input is all that comes back
// to its hello, its fence and its goodbye.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "job/boards.hpp"

using namespace weft;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(static_cast<LogLevel>(-1));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 8) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    std::abort();
  std::thread server([&] {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) std::abort();
    close(listener);  // a second attempt finds nobody
    // All of it, and its end: then nothing is waited for. What the board says is taken, or closing
    // would reset the connection before it has read.
    std::size_t said = 0;
    for (ssize_t n = 1; said < size && n > 0; said += n > 0 ? static_cast<std::size_t>(n) : 0)
      n = send(fd, data + said, size - said, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    char sink[4096];
    while (recv(fd, sink, sizeof sink, 0) > 0) {
    }
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
  });
  RendezvousParameters place;
  place.rank = 1;
  place.size = 2;
  place.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  place.server_is_launcher = true;
  std::unique_ptr<Board> board;
  constexpr int kJoinMs = 30;  // for second attempts, too
  Status status = make_rendezvous_board(place, kJoinMs, board);
  if (status) {
    if (!board->put("name", "value")) std::abort();
    status = board->fence(1000);
    std::string value;
    for (const int rank : {0, 1, -1})
      if (board->get(rank, "name", value) && !status) std::abort();
    (void)board->fence(1000);
    (void)board->close();
  }
  board.reset();
  server.join();
  return 0;
}
