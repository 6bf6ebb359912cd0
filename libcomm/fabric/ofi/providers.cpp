#include "fabric/ofi/providers.hpp"

#include <fmt/core.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <atomic>

namespace weft::ofi {
namespace {

constexpr Provider kProviders[] = {
    {.name = "efa",
     .is_native = true,
     .ends_with_endpoint = true,
     .why = "the device does them where both ends' can; its atomics are messages"},
    {.name = "cxi",
     .is_native = true,
     .has_atomics = true,
     .ends_with_endpoint = true,
     .why = "the device does them; its atomics are not atomic with processors"},
    {.name = "verbs;ofi_rxm",
     .is_delivered = true,
     .ends_with_endpoint = true,
     .why = "the fabric verbs is for these devices, and libfabric's cache of registrations keeps "
            "keys valid that were withdrawn"},
    {.name = "shm",
     .is_delivered = true,
     .why = "it copies between processes without a look at the key; the fabric shm is for that"},
    {.name = "tcp;ofi_rxm", .ends_with_endpoint = true, .why = "it sends messages for them"},
    {.name = "tcp", .why = "it sends messages for them, and closes no connection to a single peer"},
    {.name = "net", .why = "it sends messages for them, and closes no connection to a single peer"},
    {.name = "sockets", .why = "it sends messages for them"},
    {.name = "udp", .why = "it sends messages for them"},
    {.name = "psm", .why = "the owner's processor does them"},
    {.name = "opx", .why = "the owner's processor takes part in them"},
};
constexpr Provider kUnknown{.name = "", .why = "Weft does not know how it does them"};

// relaxed: tests set it before they make endpoints.
std::atomic<bool> is_forced{false};

}  // namespace

const Provider& provider_of(std::string_view name) noexcept {
  for (const Provider& provider : kProviders)
    if (name.starts_with(provider.name)) return provider;
  return kUnknown;
}

void force_one_sided(bool on) noexcept { is_forced.store(on, std::memory_order_relaxed); }

bool wants_one_sided(const Provider& provider) noexcept {
  return provider.is_native || is_forced.load(std::memory_order_relaxed);
}

bool wants_atomics(const Provider& provider, const Settings& settings) {
  if (is_forced.load(std::memory_order_relaxed)) return true;
  return provider.has_atomics && settings.text(Setting::verbs_atomics) == "device";
}

OneSided choose_one_sided(const fi_info& info, const Settings& settings, bool is_confirmed) {
  const Provider& provider = provider_of(info.fabric_attr->prov_name);
  const auto mr_mode = static_cast<std::uint64_t>(info.domain_attr->mr_mode);
  OneSided chosen;
  chosen.why = provider.why;
  if (!wants_one_sided(provider) || info.ep_attr->protocol == FI_PROTO_XNET) return chosen;
  if ((info.caps & FI_RMA) == 0) {
    chosen.why = "it has none that Weft can use";
    return chosen;
  }
  if ((mr_mode & FI_MR_RAW) != 0 || info.domain_attr->mr_key_size > sizeof(std::uint64_t)) {
    chosen.why = fmt::format("its keys have {} bytes, and those of Weft have room for 8",
                             info.domain_attr->mr_key_size);
    return chosen;
  }
  if ((mr_mode & FI_MR_LOCAL) != 0 && (mr_mode & FI_MR_ENDPOINT) != 0) {
    chosen.why = "it wants each buffer registered with an endpoint (FI_MR_LOCAL, FI_MR_ENDPOINT)";
    return chosen;
  }
  if (!provider.is_delivered && !is_confirmed) {
    chosen.why = "it does not tell when a put has arrived (FI_DELIVERY_COMPLETE)";
    return chosen;
  }
  chosen.puts = chosen.gets = true;
  chosen.atomics = (info.caps & FI_ATOMIC) != 0 && wants_atomics(provider, settings);
  chosen.is_in_place = provider.ends_with_endpoint;
  chosen.put_flags = provider.is_delivered ? 0 : FI_DELIVERY_COMPLETE;
  return chosen;
}

}  // namespace weft::ofi
