#include "node/endpoints.hpp"

#include <fmt/core.h>

#include "fabric/loopback/loopback.hpp"
#include "fabric/shm/endpoint.hpp"
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/messages.hpp"
#endif
#ifdef WEFT_HAVE_VERBS
#include "fabric/verbs/endpoint.hpp"
#endif

namespace weft {

Status make_endpoints(std::string_view fabrics, [[maybe_unused]] const Settings& settings,
                      std::vector<std::unique_ptr<fabric::Endpoint>>& endpoints) {
  std::string why;
  for (std::string_view rest = fabrics; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (name == "shm") endpoints.push_back(fabric::shm::make_endpoint());
    Status (*make)(const Settings&, std::unique_ptr<fabric::Endpoint>&) = nullptr;
#ifdef WEFT_HAVE_VERBS
    if (name == "verbs") make = fabric::verbs::make_endpoint;
#endif
#ifdef WEFT_HAVE_OFI
    if (name == "ofi") make = fabric::ofi::make_endpoint;
#endif
    if (make != nullptr) {
      std::unique_ptr<fabric::Endpoint> endpoint;
      if (Status status = make(settings, endpoint); status)
        endpoints.push_back(std::move(endpoint));
      else
        why += fmt::format(" {}: {}.", name, status.text());
    }
    if (name == "loopback") endpoints.push_back(fabric::loopback::make_endpoint());
  }
  if (!endpoints.empty()) return {};
  return {Code::bad_setting, fmt::format("no fabric of '{}' is there for a Node.{}", fabrics, why)};
}

}  // namespace weft
