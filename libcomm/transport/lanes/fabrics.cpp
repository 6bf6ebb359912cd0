// The fabrics whose remote lanes are RemoteLanes, each a row of fabric/registry.cpp.
#include <algorithm>

#include "fabric/loopback/loopback.hpp"
#include "fabric/registry.hpp"
#include "transport/lanes/remote_lanes.hpp"
#ifdef WEFT_HAVE_VERBS
#include "fabric/verbs/endpoint.hpp"
#endif
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/messages.hpp"
#endif

namespace weft {

namespace {

Status make_lanes(Members& job, Fabric& local, std::unique_ptr<fabric::Endpoint> endpoint,
                  const transport::LaneTuning& tuning, To to, std::unique_ptr<Fabric>& fabric) {
  auto made = std::make_unique<transport::RemoteLanes>(job, local, std::move(endpoint), tuning, to);
  if (Status status = made->start(); !status) return status;
  fabric = std::move(made);
  return {};
}

}  // namespace

Status make_loopback_fabric(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric) {
  return make_lanes(job, local, fabric::loopback::make_endpoint(), {.name = "loopback"}, to,
                    fabric);
}

#ifdef WEFT_HAVE_VERBS
Status make_verbs_fabric(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric) {
  const Settings& settings = job.settings();
  std::unique_ptr<fabric::Endpoint> endpoint;
  if (Status status = fabric::verbs::make_endpoint(settings, endpoint); !status) return status;
  const transport::LaneTuning tuning{
      .name = "verbs",
      .eager_max = settings.bytes_or(Setting::remote_eager_max_bytes, (32u << 10) - 1)};
  return make_lanes(job, local, std::move(endpoint), tuning, to, fabric);
}
#endif

#ifdef WEFT_HAVE_OFI
Status make_ofi_fabric(Members& job, Fabric& local, To to, std::unique_ptr<Fabric>& fabric) {
  const Settings& settings = job.settings();
  std::unique_ptr<fabric::Endpoint> endpoint;
  if (Status status = fabric::ofi::make_endpoint(settings, endpoint); !status) return status;
  // So that an entry is as long as what one message carries, and credit, which costs a message,
  // seldom.
  const transport::LaneTuning tuning{
      .name = "ofi",
      .eager_max = std::min(settings.bytes_or(Setting::remote_eager_max_bytes, 64u << 10),
                            settings.bytes(Setting::ring_max_bytes)),
      .ring_min = 1056u << 10};
  return make_lanes(job, local, std::move(endpoint), tuning, to, fabric);
}
#endif

}  // namespace weft
