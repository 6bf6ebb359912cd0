#include "launcher/name_server.hpp"

#include <fmt/core.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "job/rendezvous_link.hpp"
#include "job/rendezvous_server.hpp"
#include "launcher/hosts.hpp"
#include "launcher/local_host.hpp"
#include "peer/handshake.hpp"

namespace weft::weftrun {

Status serve_names(const Options& options) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  const int signals = signalfd(-1, &mask, SFD_CLOEXEC);
  if (signals < 0) return system_error("signalfd");
  rendezvous::Server::Options server_options;
  server_options.port = static_cast<std::uint16_t>(options.port);
  server_options.key = fmt::format("{:016x}{:016x}", peer::random_word(), peer::random_word());
  server_options.host.clear();  // everywhere
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0')
    return system_error("gethostname");
  if (!options.address.empty()) {
    server_options.host = address_of(options.address);
    if (server_options.host.empty())
      return {
          Code::bad_argument,
          fmt::format("--address {}: no address or interface of this machine", options.address)};
  }
  std::unique_ptr<rendezvous::Server> server;
  if (Status status = rendezvous::Server::listen(server_options, server); !status) return status;
  const std::string& host = server_options.host;
  fmt::print("{}/{}\n", rendezvous::join_address(host.empty() ? name : host, server->port()),
             server_options.key);
  fflush(stdout);
  for (;;) {
    pollfd ready[] = {{server->poll_fd(), POLLIN, 0}, {signals, POLLIN, 0}};
    poll(ready, 2, server->timeout_ms());
    if (ready[1].revents != 0) break;
    server->serve();
    for (const std::string& notice : server->take_notices())
      fmt::print(stderr, "weftrun: {}\n", notice);
  }
  close(signals);
  return {};
}

}  // namespace weft::weftrun
