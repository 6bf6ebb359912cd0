#include "fabric/verbs/port_address.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace weft::verbs {
namespace {

constexpr std::size_t kFewGids = 256, kMostGids = 1 << 16;

struct Candidate {
  ibv_gid address{};  // an IPv4 address as IPv6 has it
  int gid_index = -1;
  int interface = 0;
};

std::vector<Candidate> roce_candidates(ibv_context* context, int port) {
  std::vector<Candidate> found;
  for (const ibv_gid_entry& entry : read_gids(context))
    if (static_cast<int>(entry.port_num) == port && entry.gid_type == IBV_GID_TYPE_ROCE_V2)
      found.push_back(
          {entry.gid, static_cast<int>(entry.gid_index), static_cast<int>(entry.ndev_ifindex)});
  return found;
}

// The addresses of all interfaces: which of them are over the port, the connection manager knows.
std::vector<Candidate> interface_candidates() {
  std::vector<Candidate> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    Candidate candidate;
    candidate.interface = static_cast<int>(if_nametoindex(entry->ifa_name));
    if (entry->ifa_addr->sa_family == AF_INET) {
      candidate.address.raw[10] = candidate.address.raw[11] = 0xff;
      std::memcpy(candidate.address.raw + 12,
                  &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, 4);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      std::memcpy(candidate.address.raw,
                  &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr, 16);
    } else {
      continue;
    }
    found.push_back(candidate);
  }
  freeifaddrs(list);
  return found;
}

bool is_ipv4(const ibv_gid& gid) noexcept { return (gid_rank(gid) & 1) != 0; }

sockaddr_storage socket_address(const Candidate& candidate) {
  sockaddr_storage made{};
  if (is_ipv4(candidate.address)) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&made);
    v4->sin_family = AF_INET;
    std::memcpy(&v4->sin_addr, candidate.address.raw + 12, sizeof v4->sin_addr);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&made);
    v6->sin6_family = AF_INET6;
    std::memcpy(&v6->sin6_addr, candidate.address.raw, sizeof v6->sin6_addr);
    if (gid_rank(candidate.address) == 0)
      v6->sin6_scope_id = static_cast<std::uint32_t>(candidate.interface);
  }
  return made;
}

// Whether connections from this address leave by the port.
bool leads_to(rdma_event_channel* channel, const Candidate& candidate, const Port& port) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return false;
  sockaddr_storage address = socket_address(candidate);
  const bool leads = rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 &&
                     id->verbs != nullptr && id->port_num == port.number &&
                     ibv_get_device_name(id->verbs->device) == port.device;
  rdma_destroy_id(id);
  return leads;
}

std::string list_of(const std::vector<Candidate>& candidates) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(candidates.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + gid_address(candidates[i].address);
  return candidates.size() > kShown ? text + ", ..." : text;
}

}  // namespace

void find_address(ibv_context* context, Port& port) {
  std::vector<Candidate> candidates = port.transport == Transport::roce
                                          ? roce_candidates(context, port.number)
                                          : interface_candidates();
  std::ranges::stable_sort(candidates, std::greater<>(),
                           [](const Candidate& one) { return gid_rank(one.address); });
  const Candidate* chosen = nullptr;
  if (rdma_event_channel* channel = rdma_create_event_channel(); channel != nullptr) {
    for (const Candidate& candidate : candidates) {
      if (!leads_to(channel, candidate, port)) continue;
      chosen = &candidate;
      break;
    }
    rdma_destroy_event_channel(channel);
  } else if (port.transport == Transport::roce && !candidates.empty()) {
    chosen = &candidates.front();  // for weft-info: no connection is made without librdmacm
  }
  if (chosen != nullptr) {
    port.gid_index = chosen->gid_index;
    port.address = gid_address(chosen->address);
    port.scope = gid_rank(chosen->address) == 0 ? chosen->interface : 0;
  } else if (port.transport == Transport::iwarp) {
    port.why_unusable =
        "no IP address that connections leave from by it (ip address add on its network interface)";
  } else if (port.transport == Transport::infiniband) {
    port.why_unusable = "no IP address: connections need IPoIB on this port (ip address add)";
  } else if (candidates.empty()) {
    port.why_unusable =
        "no RoCE v2 address: its network interface is down or has no IP address, or the device "
        "speaks RoCE v1 only";
  } else {
    port.why_unusable = fmt::format(
        "connections from its RoCE v2 addresses ({}) do not leave by it: they are of "
        "no interface that is up here (ip address; another network namespace?)",
        list_of(candidates));
  }
}

std::vector<ibv_gid_entry> read_gids(ibv_context* context) {
  // The kernel gives all or none.
  for (std::size_t room = kFewGids; room <= kMostGids; room *= 4) {
    std::vector<ibv_gid_entry> gids(room);
    const ssize_t count = ibv_query_gid_table(context, gids.data(), gids.size(), 0);
    if (count < 0) continue;
    gids.resize(static_cast<std::size_t>(count));
    return gids;
  }
  return {};
}

int gid_rank(const ibv_gid& gid) noexcept {
  static constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0)
    return gid.raw[12] == 169 && gid.raw[13] == 254 ? 1 : 3;
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80 ? 0 : 2;
}

std::string gid_address(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN];
  const bool is_v4 = (gid_rank(gid) & 1) != 0;
  return inet_ntop(is_v4 ? AF_INET : AF_INET6, gid.raw + (is_v4 ? 12 : 0), text, sizeof text);
}

}  // namespace weft::verbs
