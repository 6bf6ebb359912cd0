#include "node/endpoints.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"
#include "fabric/registry.hpp"

namespace weft {

namespace {

using Endpoints = std::vector<std::unique_ptr<fabric::Endpoint>>;

Status make_one(const fabric::Row& row, const Settings& settings, Endpoints& endpoints) {
  std::unique_ptr<fabric::Endpoint> endpoint;
  Status status = row.make(settings, endpoint);
  if (status) endpoints.push_back(std::move(endpoint));
  return status;
}

// One for each device that WEFT_DEVICE names. One of them is enough.
Status make_by_device(const fabric::Row& row, const Settings& settings, Endpoints& endpoints) {
  Status failed;
  const std::size_t num_before = endpoints.size();
  std::string_view rest = settings.text(Setting::device);
  do {
    const std::string_view device = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), device.size() + 1));
    Settings own = settings;
    if (Status status = own.set("DEVICE", std::string(device)); !status) return status;
    if (Status status = make_one(row, own, endpoints); !status) failed = status;
  } while (!rest.empty());
  if (endpoints.size() == num_before) return failed;
  if (!failed)
    log_line(LogLevel::warn, -1, "{}: a device is left out: {}", row.name, failed.text());
  return {};
}

}  // namespace

Status make_endpoints(std::string_view fabrics, const Settings& settings, Endpoints& endpoints) {
  std::string why;
  for (std::string_view rest = fabrics; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const fabric::Row* const row = fabric::find_row(name);
    if (row == nullptr) continue;
    Status status(Code::unsupported, "not in this build");
    if (row->make != nullptr)
      status = (row->by_device ? make_by_device : make_one)(*row, settings, endpoints);
    if (!status) why += fmt::format(" {}: {}.", name, status.text());
  }
  if (!endpoints.empty()) return {};
  return {Code::bad_setting, fmt::format("no fabric of '{}' is there for a Node.{}", fabrics, why)};
}

}  // namespace weft
