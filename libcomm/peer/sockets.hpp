#pragma once
// Addresses of bootstrap sockets. Any thread.
#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft::peer {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool is_unix = false;
  std::string path;  // of a Unix socket in the file system

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

enum class Names { ask, refuse };
// Asks name servers for a name, which may block, or returns `again` for a name. bad_argument: no
// address; not_found: no such host. Exported for libweft_mcast, which is linked by itself.
WEFT_API Status resolve(std::string_view text, SocketAddress& address, Names names = Names::ask);
// As bound: "host:port" with the port that the kernel chose.
std::string bound_text(int fd);
// Of this host's interfaces that are up, without the loopback, in their order: "10.0.0.1",
// "[fd00::1]".
std::vector<std::string> own_addresses();
// The host of "host:port".
std::string_view host_of(std::string_view address);
// The addresses at which others reach sockets bound to these: 0.0.0.0 or [::] becomes the addresses
// of the interfaces. At most `most`; among similar ones those of the first interface come last.
std::vector<std::string> reached_at(const std::vector<std::string>& bound, std::size_t most);
// Describes the other end, for messages: "the process at 10.0.0.2", "process 123 of user 1000".
std::string other_end(int fd);
// Returns true if the process at the other end of this Unix socket has the same user.
bool is_same_user(int fd);

}  // namespace weft::peer
