#include "tools/weft-switch/xdp_port.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::innet {
namespace {

// Packets of further queues come through the kernel.
constexpr unsigned kMostQueues = 64;

unsigned num_queues(const std::string& interface) noexcept {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // A driver that cannot say has one queue.
  if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request) != 0) channels = {};
  if (fd >= 0) ::close(fd);
  return std::clamp(channels.combined_count + channels.rx_count, 1u, kMostQueues);
}

}  // namespace

Status XdpPort::open(const std::string& interface, const Mac& mac, std::uint32_t ipv4,
                     bool by_driver) {
  const unsigned index = if_nametoindex(interface.c_str());
  const unsigned queues = num_queues(interface);
  if (const Status loaded = program_.load(mac, ipv4, queues); !loaded) return loaded;
  // Until a queue has its socket its packets come through the kernel.
  if (const Status attached = program_.attach(index, by_driver); !attached) return attached;
  for (unsigned queue = 0; queue < queues; ++queue) {
    sockets_.push_back(std::make_unique<XdpSocket>());
    if (const Status opened = sockets_[queue]->open(index, queue, by_driver); !opened)
      return opened;
    const Status set = program_.set_socket(queue, sockets_[queue]->descriptor());
    if (!set) return set;
  }
  return {};
}

}  // namespace weft::innet
