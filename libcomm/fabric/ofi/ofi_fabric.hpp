#pragma once
// The fabric over libfabric's reliable datagram endpoints (FI_EP_RDM) with remote memory access and
// atomics: between hosts without an RDMA device over TCP (provider tcp;ofi_rxm), or over a device
// that libfabric has a provider for (WEFT_OFI_PROVIDER).
#include <memory>
#include <string>

#include "fabric/fabric.hpp"
#include "job/job.hpp"

namespace weft {

// See registry.hpp.
Status make_ofi_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric);

// For weft-info: what libfabric finds on this machine, and what of it these settings choose.
std::string ofi_text(const Settings& settings);

}  // namespace weft
