#pragma once
// The address that a Node gives to others: the identity of this run of it, the addresses of its
// bootstrap sockets, and its address on each fabric. As text it may travel by any means: a file,
// Redis, PMIx, a mail. Any thread.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft::peer {

inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxAddressTextBytes = 8192;
inline constexpr std::size_t kMaxBootstraps = 16;

struct NodeAddress {
  struct OnFabric {
    std::string fabric, address;
    bool operator==(const OnFabric&) const = default;
  };
  std::string name;                     // for people
  std::uint64_t generation = 0;         // of this life of the Node; random, never 0
  std::string host;                     // equal on equal hosts
  std::vector<std::string> bootstraps;  // "unix:/path", "unix:@abstract", "host:port"
  std::vector<OnFabric> fabrics;

  bool operator==(const NodeAddress&) const = default;
  // A Node has as many addresses on a fabric as it has devices for it.
  std::string_view on(std::string_view fabric, std::size_t device = 0) const;
  std::size_t num_devices(std::string_view fabric) const;
};

std::string encode(const NodeAddress& address);
// corrupt: no address, or one of another version, which the text names.
Status decode(std::string_view bytes, NodeAddress& address);

// The same in letters that survive a command line or a JSON file; begins with "weft:". What is
// exported is for libweft_mcast, which is linked by itself.
std::string to_text(const NodeAddress& address);
WEFT_API Status from_text(std::string_view text, NodeAddress& address);
WEFT_API bool is_address_text(std::string_view text);

// The identity of this machine's run and network namespace: Unix sockets connect processes that
// share it.
std::string host_identity();

}  // namespace weft::peer
