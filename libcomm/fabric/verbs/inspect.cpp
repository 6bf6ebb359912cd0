#include "fabric/verbs/inspect.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/os/lock_limit.hpp"
#include "fabric/verbs/device.hpp"
#include "fabric/verbs/port_address.hpp"

namespace weft::verbs {
namespace {

using Level = Finding::Level;
using Findings = std::vector<Finding>;
namespace fs = std::filesystem;

std::string word_of(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// Cards in a slot that the kernel knows as no RDMA device. The modules: rdma-core's
// kernel-boot/rdma-hw-modules.rules.
void look_for_cards_without_module(Findings& findings) {
  static const std::map<std::string, const char*> kModules = {{"0x15b3", "mlx5_ib"},
                                                              {"0x14e4", "bnxt_re"},
                                                              {"0x19e5", "hns_roce_hw_v2"},
                                                              {"0x1425", "iw_cxgb4"}};
  for (const std::string& slot : entries_of("/sys/bus/pci/devices")) {
    const fs::path card = fs::path("/sys/bus/pci/devices") / slot;
    const auto module = kModules.find(word_of(card / "vendor"));
    const bool is_network = word_of(card / "class").starts_with("0x02");
    if (module == kModules.end() || !is_network || fs::exists(card / "infiniband")) continue;
    findings.push_back({Level::note, "PCI " + slot,
                        "a network card that may have RDMA, and no RDMA device of it",
                        fmt::format("modprobe {}; dmesg | grep {}", module->second, slot)});
  }
}

// /dev/infiniband as this user sees it. False: no device can be opened.
bool look_at_nodes(const std::vector<std::string>& devices, Findings& findings) {
  bool usable = true;
  for (const std::string& device : devices) {
    std::string node;
    for (const std::string& name : entries_of("/sys/class/infiniband_verbs"))
      if (word_of(fs::path("/sys/class/infiniband_verbs") / name / "ibdev") == device) node = name;
    if (node.empty()) {
      findings.push_back(
          {Level::error, device, "the kernel offers it to no program", "modprobe ib_uverbs"});
      usable = false;
      continue;
    }
    const std::string path = "/dev/infiniband/" + node;
    if (access(path.c_str(), R_OK | W_OK) == 0) continue;
    const bool is_there = errno != ENOENT;
    findings.push_back(
        {Level::error, device,
         is_there ? fmt::format("{} is not this user's to open: {}", path, strerror(errno))
                  : fmt::format("there is no {}, as in a container that was not given it", path),
         is_there ? fmt::format("ls -l {}; chmod 666 {}, for good by a udev rule or the group rdma",
                                path, path)
                  : "start the container with --device=/dev/infiniband --cap-add=IPC_LOCK "
                    "--ulimit memlock=-1; outside of one: systemctl restart udev"});
    usable = false;
  }
  if (usable && access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0) {
    findings.push_back({Level::error, "/dev/infiniband/rdma_cm", strerror(errno),
                        errno == ENOENT
                            ? "modprobe rdma_ucm; in a container: --device=/dev/infiniband"
                            : "chmod 666 /dev/infiniband/rdma_cm"});
    usable = false;
  }
  return usable;
}

constexpr const char* gid_type(std::uint32_t type) {
  return type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "IB";
}

constexpr unsigned mtu_bytes(ibv_mtu mtu) { return 128u << static_cast<unsigned>(mtu); }

// The GIDs of a port, with the chosen one and why.
std::string gids_text(ibv_context* context, const Port& port) {
  constexpr int kShown = 16;
  std::string text;
  int num_left_out = 0, num_shown = 0;
  for (const ibv_gid_entry& entry : read_gids(context)) {
    if (static_cast<int>(entry.port_num) != port.number) continue;
    const bool is_chosen = static_cast<int>(entry.gid_index) == port.gid_index;
    if (!is_chosen && num_shown >= kShown) {
      ++num_left_out;
      continue;
    }
    ++num_shown;
    const int rank = gid_rank(entry.gid);
    text += fmt::format("{}{} {} {}{}", text.empty() ? "" : "; ", entry.gid_index,
                        gid_type(entry.gid_type), gid_address(entry.gid),
                        !is_chosen  ? ""
                        : rank == 3 ? " (chosen: IPv4 that hosts route)"
                        : rank == 2 ? " (chosen: IPv6 that hosts route, there is no IPv4)"
                                    : " (chosen: link-local, as there is no other)");
  }
  if (num_left_out > 0) text += fmt::format("; and {} more", num_left_out);
  return text.empty() ? "none" : text;
}

std::string interface_of(ibv_context* context, const Port& port) {
  ibv_gid_entry entry;
  if (port.gid_index < 0 ||
      ibv_query_gid_ex(context, static_cast<std::uint32_t>(port.number),
                       static_cast<std::uint32_t>(port.gid_index), &entry, 0) != 0)
    return {};
  for (const std::string& name : entries_of("/sys/class/net"))
    if (word_of(fs::path("/sys/class/net") / name / "ifindex") ==
        std::to_string(entry.ndev_ifindex))
      return name;
  return {};
}

// The limits of a device that change what Weft does.
void look_at_limits(const std::string& device, const ibv_device_attr& limits, Findings& findings) {
  const char* atomics = limits.atomic_cap == IBV_ATOMIC_GLOB  ? "with processors, too"
                        : limits.atomic_cap == IBV_ATOMIC_HCA ? "among devices: owners do them"
                                                              : "none: owners do them";
  const std::string text =
      fmt::format("{} queue pairs, {} reads and atomics at once, {} SGEs, atomics {}",
                  limits.max_qp, limits.max_qp_rd_atom, limits.max_sge, atomics);
  if (limits.max_qp < 1024)
    findings.push_back({Level::warning, device + " limits", text,
                        "each peer takes a queue pair for each thread that posts, up to "
                        "WEFT_VERBS_QPS: WEFT_VERBS_QPS=1"});
  else if (limits.max_qp_rd_atom < 4)
    findings.push_back({Level::note, device + " limits", text + "; gets wait for one another",
                        "look in the firmware's settings (mlxconfig) for more reads at once"});
  else
    findings.push_back({Level::ok, device + " limits", text, ""});
}

void look_at_port(const Port& port, bool is_chosen, fabric::Inspection& inspection) {
  const std::string name = fmt::format("{}:{}", port.device, port.number);
  if (!port.why_unusable.empty()) {
    inspection.findings.push_back({Level::warning, name, port.why_unusable,
                                   fmt::format("rdma link show {}/{}; ibv_devinfo -v -d {}",
                                               port.device, port.number, port.device)});
    return;
  }
  std::unique_ptr<Device> device;
  if (const Status status = Device::open(port, device); !status) {
    inspection.findings.push_back({Level::error, name, status.text(), "ulimit -l; dmesg | tail"});
    return;
  }
  ibv_port_attr state{};
  (void)ibv_query_port(device->context, static_cast<std::uint8_t>(port.number), &state);
  fabric::Place place{name, interface_of(device->context, port), port.address, port.gbit_per_s,
                      mtu_bytes(state.active_mtu)};
  std::string text = fmt::format("{}, {}, {}, MTU {} of {}, {}{}", facts_of(port.transport).name,
                                 ibv_port_state_str(state.state), rate_text(port), place.mtu,
                                 mtu_bytes(state.max_mtu), port.address,
                                 place.interface.empty() ? "" : " on " + place.interface);
  if (port.transport == Transport::roce) text += ", GIDs " + gids_text(device->context, port);
  if (is_chosen) text += "; taken unless WEFT_DEVICE says otherwise";
  inspection.findings.push_back({Level::ok, name, text, ""});
  if (port.transport != Transport::infiniband && place.mtu < 1024)
    inspection.findings.push_back(
        {Level::warning, name + " MTU",
         fmt::format("packets of {} bytes cost bandwidth", place.mtu),
         fmt::format("ip link set {} mtu 9000, at both ends and in the switches between",
                     place.interface.empty() ? "DEV" : place.interface)});
  if (!port.near) {
    const std::string node =
        word_of(fmt::format("/sys/class/infiniband/{}/device/numa_node", port.device));
    inspection.findings.push_back(
        {is_chosen ? Level::warning : Level::note, name + " place",
         fmt::format("at NUMA node {}, this process may run on the cores of others alone", node),
         fmt::format("numactl --cpunodebind={} PROGRAM, or weftrun --bind numa", node)});
  }
  look_at_limits(port.device, device->limits, inspection.findings);
  inspection.places.push_back(std::move(place));
}

// What registering memory needs, on a host with a device.
void look_at_locking(Findings& findings) {
  constexpr std::size_t kLeast = 64u << 20, kGood = 1u << 30;
  const std::size_t limit = lock_limit_bytes();
  if (limit >= kGood) return;
  findings.push_back(
      {limit < kLeast ? Level::error : Level::warning, "locked memory for RDMA",
       fmt::format("{} KiB: {}", limit >> 10,
                   limit < kLeast ? "too little for any job" : "long messages run out of it"),
       "ulimit -l unlimited; for logins \"* - memlock unlimited\" in /etc/security/limits.conf, "
       "for "
       "services LimitMEMLOCK=infinity, for containers --ulimit memlock=-1"});
}

}  // namespace

void inspect(const Settings& settings, fabric::Inspection& inspection) {
  Findings& findings = inspection.findings;
  const std::vector<std::string> devices = entries_of("/sys/class/infiniband");
  look_for_cards_without_module(findings);
  if (devices.empty()) {
    const bool is_wanted =
        settings.text(Setting::fabric) == "verbs" || !settings.text(Setting::device).empty();
    findings.push_back({is_wanted ? Level::error : Level::note, "RDMA",
                        "no device: other hosts are reached over TCP",
                        is_wanted
                            ? "rdma link; lspci | grep -i -e mellanox -e ethernet; WEFT_FABRIC and "
                              "WEFT_DEVICE ask for one"
                            : "nothing, unless this host should have one: rdma link"});
    return;
  }
  if (!look_at_nodes(devices, findings)) return;
  look_at_locking(findings);
  std::vector<Port> ports;
  if (const Status status = find_ports(ports); !status) {
    findings.push_back({Level::error, "RDMA", status.text(),
                        "the user's part of the driver may be missing: apt install "
                        "ibverbs-providers; ibv_devices"});
    return;
  }
  Port chosen;
  const Status choice = choose_port(ports, settings.text(Setting::device), chosen);
  if (!choice)
    findings.push_back({Level::error, "RDMA", choice.text(),
                        "take a port up (ip link set DEV up; rdma link), or clear WEFT_DEVICE"});
  for (const Port& port : ports)
    look_at_port(port, choice && port.device == chosen.device && port.number == chosen.number,
                 inspection);
}

}  // namespace weft::verbs
