#include "fabric/verbs/device.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <hwloc.h>
#include <hwloc/openfabrics-verbs.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "fabric/verbs/port_address.hpp"

namespace weft::verbs {
namespace {

constexpr const char* kNeedsName = "taken where WEFT_DEVICE names it";

double speed(const ibv_port_attr& port) noexcept {
  static constexpr struct {
    int code;
    double gbit;
  } kLanes[] = {{1, 2.5}, {2, 5}, {4, 10}, {8, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}};
  const int width = port.active_width == 1   ? 1
                    : port.active_width == 2 ? 4
                    : port.active_width == 4 ? 8
                    : port.active_width == 8 ? 12
                                             : 2;
  for (const auto& lane : kLanes)
    if (lane.code == port.active_speed) return lane.gbit * width;
  return 0;
}

// Returns true if the process may run next to the device. Without knowledge of the topology every
// device is near.
bool is_near(hwloc_topology_t topology, ibv_device* device) {
  hwloc_bitmap_t near = hwloc_bitmap_alloc();
  hwloc_bitmap_t own = hwloc_bitmap_alloc();
  const bool apart = topology != nullptr &&
                     hwloc_ibv_get_device_cpuset(topology, device, near) == 0 &&
                     hwloc_get_cpubind(topology, own, HWLOC_CPUBIND_PROCESS) == 0 &&
                     !hwloc_bitmap_iszero(near) && !hwloc_bitmap_intersects(near, own);
  hwloc_bitmap_free(near);
  hwloc_bitmap_free(own);
  return !apart;
}

bool is_in_software(const std::string& device) {
  std::error_code error;
  const auto path = std::filesystem::canonical("/sys/class/infiniband/" + device, error);
  return path.string().find("/devices/virtual/") != std::string::npos;
}

std::string why_not_active(const ibv_port_attr& port) {
  const bool waits = port.state == IBV_PORT_INIT || port.state == IBV_PORT_ARMED;
  return fmt::format("the port is {} ({})", ibv_port_state_str(port.state),
                     waits && port.link_layer == IBV_LINK_LAYER_INFINIBAND
                         ? "no subnet manager has come to it: is opensm, or the switch's own, "
                           "running? sminfo, ibstat"
                         : "cable? ip link set up?");
}

void look_at_ports(ibv_device* device, hwloc_topology_t topology, std::vector<Port>& ports) {
  Port port;
  port.device = ibv_get_device_name(device);
  port.near = is_near(topology, device);
  port.in_software = is_in_software(port.device);
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) {
    port.why_unusable = fmt::format("cannot be opened: {} (see the rights of /dev/infiniband/{})",
                                    std::strerror(errno), device->dev_name);
    ports.push_back(port);
    return;
  }
  ibv_device_attr limits{};
  if (ibv_query_device(context, &limits) != 0) limits.phys_port_cnt = 1;
  for (int number = 1; number <= limits.phys_port_cnt; ++number) {
    Port one = port;
    one.number = number;
    ibv_port_attr state{};
    if (ibv_query_port(context, static_cast<std::uint8_t>(number), &state) != 0) {
      one.why_unusable = fmt::format("cannot be asked: {}", std::strerror(errno));
    } else {
      one.active = state.state == IBV_PORT_ACTIVE;
      one.transport = device->transport_type == IBV_TRANSPORT_IWARP ? Transport::iwarp
                      : state.link_layer == IBV_LINK_LAYER_ETHERNET ? Transport::roce
                                                                    : Transport::infiniband;
      one.gbit_per_s = one.in_software ? 0 : speed(state);
      if (device->transport_type != IBV_TRANSPORT_IB &&
          device->transport_type != IBV_TRANSPORT_IWARP)
        one.why_unusable = "neither of the InfiniBand transport nor of iWARP (left to ofi)";
      else if (!one.active)
        one.why_unusable = why_not_active(state);
      else
        find_address(context, one);
    }
    ports.push_back(one);
  }
  ibv_close_device(context);
}

}  // namespace

Status find_ports(std::vector<Port>& ports) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) {
    if (devices != nullptr) ibv_free_device_list(devices);
    return {Code::not_found,
            "no RDMA device (rdma link shows them; is the device's driver loaded, and are "
            "/dev/infiniband and /sys/class/infiniband visible here?)"};
  }
  hwloc_topology_t topology = nullptr;
  if (count > 1 && (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0))
    topology = nullptr;
  for (int i = 0; i < count; ++i) look_at_ports(devices[i], topology, ports);
  if (topology != nullptr) hwloc_topology_destroy(topology);
  ibv_free_device_list(devices);
  return {};
}

Status choose_port(const std::vector<Port>& ports, std::string_view wanted, Port& chosen) {
  if (const std::size_t comma = wanted.find(','); comma != std::string_view::npos) {
    const Status first = choose_port(ports, wanted.substr(0, comma), chosen);
    return first.code() == Code::unsupported ? choose_port(ports, wanted.substr(comma + 1), chosen)
                                             : first;
  }
  std::string_view name = wanted;
  int number = 0;
  if (const std::size_t colon = wanted.rfind(':'); colon != std::string_view::npos) {
    name = wanted.substr(0, colon);
    const char* end = wanted.data() + wanted.size();
    const auto parsed = std::from_chars(wanted.data() + colon + 1, end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number < 1)
      return {Code::bad_setting,
              fmt::format("WEFT_DEVICE={}: name or name:port is wanted", wanted)};
  }
  const Port* best = nullptr;
  std::string there;
  for (const Port& port : ports) {
    const bool lacks_name = name.empty() && facts_of(port.transport).needs_name;
    there += fmt::format("{}{}:{} ({})", there.empty() ? "" : ", ", port.device, port.number,
                         !port.why_unusable.empty() ? port.why_unusable
                         : lacks_name               ? kNeedsName
                                                    : "usable");
    if (!name.empty() && (port.device != name || (number != 0 && port.number != number))) continue;
    if (!port.why_unusable.empty() || lacks_name) continue;
    if (best == nullptr || (port.near && !best->near) ||
        (port.near == best->near && port.gbit_per_s > best->gbit_per_s))
      best = &port;
  }
  if (best == nullptr)
    return {Code::unsupported,
            fmt::format("no usable RDMA port{}; there are: {}",
                        wanted.empty() ? "" : fmt::format(" (WEFT_DEVICE={})", wanted), there)};
  chosen = *best;
  return {};
}

std::string rate_text(const Port& port) {
  return port.in_software       ? "in software"
         : port.gbit_per_s == 0 ? "rate unknown"
                                : fmt::format("{:g} Gbit/s", port.gbit_per_s);
}

std::string ports_text() {
  std::vector<Port> ports;
  if (Status status = find_ports(ports); !status)
    return fmt::format("  verbs: {}\n", status.text());
  Port chosen;
  const bool any = choose_port(ports, "", chosen).ok();
  std::string text;
  for (const Port& port : ports) {
    text += fmt::format("  verbs: {}:{} {}, {}, ", port.device, port.number,
                        facts_of(port.transport).name, rate_text(port));
    if (!port.why_unusable.empty()) {
      text += port.why_unusable + "\n";
      continue;
    }
    text += fmt::format("address {}", port.address);
    if (port.gid_index >= 0) text += fmt::format(" (GID {}, RoCE v2)", port.gid_index);
    if (!port.near) text += ", far from this process's cores";
    if (facts_of(port.transport).needs_name) text += fmt::format(", {}", kNeedsName);
    if (any && port.device == chosen.device && port.number == chosen.number)
      text += " <- chosen unless WEFT_DEVICE says otherwise";
    text += "\n";
  }
  return text;
}

Status Device::open(const Port& port, std::unique_ptr<Device>& device) {
  // Before anything is registered: pages that the device writes must stay this process's when it
  // forks. Kernels from 5.12 copy pinned pages at fork and report so; then nothing is needed.
  if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED) (void)ibv_fork_init();
  auto made = std::make_unique<Device>();
  made->port = port;
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; devices != nullptr && i < count; ++i)
    if (port.device == ibv_get_device_name(devices[i])) made->context = ibv_open_device(devices[i]);
  if (devices != nullptr) ibv_free_device_list(devices);
  if (made->context == nullptr)
    return {Code::not_permitted,
            fmt::format("cannot open {}: {}", port.device, std::strerror(errno))};
  ibv_port_attr state{};
  if (ibv_query_device(made->context, &made->limits) != 0 ||
      ibv_query_port(made->context, static_cast<std::uint8_t>(port.number), &state) != 0)
    return {Code::unsupported,
            fmt::format("cannot ask {} for its limits: {}", port.device, std::strerror(errno))};
  made->max_message = state.max_msg_sz;
  made->pd = ibv_alloc_pd(made->context);
  if (made->pd == nullptr)
    return {Code::no_memory,
            fmt::format("{} gives no protection domain: {}", port.device, std::strerror(errno))};
  const int flags = fcntl(made->context->async_fd, F_GETFL);
  fcntl(made->context->async_fd, F_SETFL, flags | O_NONBLOCK);
  device = std::move(made);
  return {};
}

Device::~Device() {
  if (pd != nullptr) ibv_dealloc_pd(pd);
  if (context != nullptr) ibv_close_device(context);
}

ibv_mtu Device::active_mtu() const noexcept {
  ibv_port_attr asked{};
  const bool is_known =
      ibv_query_port(context, static_cast<std::uint8_t>(port.number), &asked) == 0;
  return is_known ? asked.active_mtu : ibv_mtu{};
}

bool Device::port_is_active() const noexcept {
  ibv_port_attr asked{};
  return ibv_query_port(context, static_cast<std::uint8_t>(port.number), &asked) != 0 ||
         asked.state == IBV_PORT_ACTIVE;
}

int Device::make_room(ibv_cq& queue, int need) const noexcept {
  if (need <= queue.cqe) return 0;
  int error = EINVAL;
  for (const int room : {std::min(queue.cqe * 2, limits.max_cqe), need}) {
    if (room < need || room > limits.max_cqe) continue;
    error = ibv_resize_cq(&queue, room);
    if (error == 0) return 0;
  }
  return error;
}

Status registration_error(ibv_context* context, int error, std::size_t bytes) {
  ibv_device_attr limits{};
  if (ibv_query_device(context, &limits) != 0) limits.max_mr_size = ~std::uint64_t{0};
  const std::string what = fmt::format("cannot register {} bytes with the RDMA device {}: ", bytes,
                                       ibv_get_device_name(context->device));
  if (limits.max_mr_size != 0 && bytes > limits.max_mr_size)
    return {Code::no_memory,
            what + fmt::format("it takes {} bytes at once (move it in pieces of at most that)",
                               limits.max_mr_size)};
  if (error == ENOMEM || error == EAGAIN) {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
      return {Code::no_memory,
              what + fmt::format("the limit of locked memory is {} bytes (raise it: ulimit -l "
                                 "unlimited, or memlock in /etc/security/limits.conf; or use "
                                 "less: WEFT_VERBS_CACHE_BYTES, WEFT_RING_MIN_BYTES)",
                                 limit.rlim_cur)};
    return {Code::no_memory,
            what + fmt::format("{}; locked memory is not limited, and the device has {} "
                               "registrations for all processes of this host (fewer processes, or "
                               "less kept: WEFT_VERBS_CACHE_BYTES; dmesg may say more)",
                               std::strerror(error), limits.max_mr)};
  }
  const bool is_argument = error == EFAULT || error == EACCES || error == EINVAL;
  return {is_argument ? Code::bad_argument : Code::no_memory, what + std::strerror(error)};
}

}  // namespace weft::verbs
