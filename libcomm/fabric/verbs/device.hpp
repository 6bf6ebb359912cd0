#pragma once
// Devices: the RDMA ports of this machine, which of them to use, and the one in use.
//
// A port is usable if it is active, speaks a transport that Weft knows (transport.hpp) and has an
// IP address, by which connections are made (port_address.hpp).
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/verbs/transport.hpp"
#include "weft/status.hpp"

namespace weft::verbs {

struct Port {
  std::string device;
  int number = 1;
  bool active = false;
  Transport transport = Transport::infiniband;
  int gid_index = -1;        // RoCE: of the GID in use
  std::string address;       // numeric; empty: none
  int scope = 0;             // the interface of a link-local address
  double gbit_per_s = 0;     // 0: nobody knows
  bool in_software = false;  // of the kernel, over some network interface: the rate it says is none
  bool near = true;          // this process may run on a core next to the device
  std::string why_unusable;  // empty: usable
};

// All ports of all devices. not_found with the reason if there is no device.
Status find_ports(std::vector<Port>& ports);
// Chooses the port: the one that `wanted` names ("name" or "name:port"; of several, separated by
// commas, the first that is usable), or the nearest, then the fastest. unsupported: there is none,
// with what was wanted, the ports there are, and why they are unusable.
Status choose_port(const std::vector<Port>& ports, std::string_view wanted, Port& chosen);
// For weft-info.
std::string ports_text();
std::string rate_text(const Port& port);

// A port in use.
struct Device {
  static Status open(const Port& port, std::unique_ptr<Device>& device);
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  bool port_is_active() const noexcept;  // true if it cannot be asked
  ibv_mtu active_mtu() const noexcept;   // now; 0 if it cannot be asked
  // Makes room for `need` entries in a completion queue of it, doubling what it has where the
  // device allows. Returns 0 or an errno.
  int make_room(ibv_cq& queue, int need) const noexcept;

  Port port;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_device_attr limits{};
  std::uint32_t max_message = 0;  // of one operation
};

// The status of a failed registration, with what to do about it.
Status registration_error(ibv_context* context, int error, std::size_t bytes);

}  // namespace weft::verbs
