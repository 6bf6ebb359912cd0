#include "node/endpoints.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"

#include "fabric/loopback/loopback.hpp"
#include "fabric/shm/endpoint.hpp"
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/messages.hpp"
#endif
#ifdef WEFT_HAVE_VERBS
#include "fabric/verbs/endpoint.hpp"
#endif

namespace weft {

namespace {

using Endpoints = std::vector<std::unique_ptr<fabric::Endpoint>>;

#ifdef WEFT_HAVE_OFI
Status make_ofi_endpoint(const Settings& settings, Endpoints& endpoints) {
  std::unique_ptr<fabric::Endpoint> endpoint;
  Status status = fabric::ofi::make_endpoint(settings, endpoint);
  if (status) endpoints.push_back(std::move(endpoint));
  return status;
}
#endif

#ifdef WEFT_HAVE_VERBS
// One for each device that WEFT_DEVICE names. One of them is enough.
Status make_verbs_endpoints(const Settings& settings, Endpoints& endpoints) {
  Status failed;
  std::size_t num_made = 0;
  std::string_view rest = settings.text(Setting::device);
  do {
    const std::string_view device = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), device.size() + 1));
    Settings own = settings;
    if (Status status = own.set("DEVICE", std::string(device)); !status) return status;
    std::unique_ptr<fabric::Endpoint> endpoint;
    if (Status status = fabric::verbs::make_endpoint(own, endpoint); !status) {
      failed = status;
      continue;
    }
    endpoints.push_back(std::move(endpoint));
    ++num_made;
  } while (!rest.empty());
  if (num_made == 0) return failed;
  if (!failed) log_line(LogLevel::warn, -1, "verbs: a device is left out: {}", failed.text());
  return {};
}
#endif

}  // namespace

Status make_endpoints(std::string_view fabrics, [[maybe_unused]] const Settings& settings,
                      std::vector<std::unique_ptr<fabric::Endpoint>>& endpoints) {
  std::string why;
  for (std::string_view rest = fabrics; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (name == "shm") endpoints.push_back(fabric::shm::make_endpoint());
    Status (*make)(const Settings&, Endpoints&) = nullptr;
#ifdef WEFT_HAVE_VERBS
    if (name == "verbs") make = make_verbs_endpoints;
#endif
#ifdef WEFT_HAVE_OFI
    if (name == "ofi") make = make_ofi_endpoint;
#endif
    if (make != nullptr)
      if (Status status = make(settings, endpoints); !status)
        why += fmt::format(" {}: {}.", name, status.text());
    if (name == "loopback") endpoints.push_back(fabric::loopback::make_endpoint());
  }
  if (!endpoints.empty()) return {};
  return {Code::bad_setting, fmt::format("no fabric of '{}' is there for a Node.{}", fabrics, why)};
}

}  // namespace weft
