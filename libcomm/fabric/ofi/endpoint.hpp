#pragma once
// Endpoint: the objects of libfabric that a process needs, opened and closed together. One thread
// at a time.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "weft/status.hpp"

namespace weft::ofi {

// What the fabric asks libfabric for; the caller frees it. load() comes first.
fi_info* make_hints(const std::string& provider);

class Endpoint {
 public:
  // unsupported with what libfabric said and what to do about it.
  static Status open(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);
  ~Endpoint();

  fid_ep* ep() const noexcept { return ep_; }
  fid_cq* cq() const noexcept { return cq_; }
  fid_av* av() const noexcept { return av_; }
  fid_domain* domain() const noexcept { return domain_; }
  const fi_info& info() const noexcept { return *info_; }
  const std::string& address() const noexcept { return address_; }  // bytes, as the provider's
  int wait_fd() const noexcept { return wait_fd_; }
  // False: there is something to read already.
  bool try_wait() noexcept;

  bool has_mode(std::uint64_t bit) const noexcept {
    return (static_cast<std::uint64_t>(info_->domain_attr->mr_mode) & bit) != 0;
  }

 private:
  Endpoint() = default;
  Status open_info(const Settings& settings);
  Status open_objects();

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_ep* ep_ = nullptr;
  int wait_fd_ = -1;
  std::string address_;
};

}  // namespace weft::ofi
