#include "fabric/ofi/inspect.hpp"

#include <fmt/core.h>

#include "fabric/ofi/endpoint.hpp"

namespace weft::ofi {

void inspect(const Settings& settings, fabric::Inspection& inspection) {
  Offers offers;
  if (const Status status = offers.find(settings); !status) {
    inspection.findings.push_back({Finding::Level::error, "libfabric", status.text(),
                                   "install it with its providers (apt install libfabric1), or "
                                   "name what is there: fi_info -l"});
    return;
  }
  fabric::inspect_interface("ofi", fmt::format("{} on ", offers.info().fabric_attr->prov_name),
                            offers.interfaces().front(), inspection);
}

}  // namespace weft::ofi
