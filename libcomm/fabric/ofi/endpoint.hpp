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
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "fabric/interfaces.hpp"
#include "fabric/ofi/providers.hpp"
#include "weft/status.hpp"

namespace weft::ofi {

// Returns true if data of this provider go through TCP sockets.
bool is_tcp(std::string_view provider) noexcept;

// The offers of libfabric for the fabric's needs, and the one that the settings choose.
class Offers {
 public:
  Offers() = default;
  Offers(const Offers&) = delete;
  ~Offers();
  // Call it once. unsupported or bad_setting, with libfabric's message and what to do about it.
  Status find(const Settings& settings);
  const fi_info& info() const noexcept { return *info_; }  // the chosen one
  // The chosen one first.
  const std::vector<fabric::Interface>& interfaces() const noexcept { return interfaces_; }
  const OneSided& one_sided() const noexcept { return one_sided_; }

 private:
  bool confirm_one_sided(const Settings& settings);

  fi_info* list_ = nullptr;
  const fi_info* info_ = nullptr;
  std::vector<fabric::Interface> interfaces_;
  OneSided one_sided_;
};

// For weft-info: the offers of libfabric on this machine, and the one that these settings choose.
std::string describe(const Settings& settings);

class Endpoint {
 public:
  // Errors as Offers::find().
  static Status open(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);
  // Opens an endpoint that connects to others; it shares queues and peers with ep(), and no
  // connection with other openers.
  Status add_opener(fid_ep*& ep, std::string& address);
  // Ends its connections; what is posted there ends with an error.
  void close_opener(fid_ep* ep);
  ~Endpoint();

  fid_ep* ep() const noexcept { return ep_; }
  fid_cq* cq() const noexcept { return cq_; }
  fid_av* av() const noexcept { return av_; }
  fid_domain* domain() const noexcept { return domain_; }
  const fi_info& info() const noexcept { return *info_; }
  const fabric::Interface& interface() const noexcept { return interface_; }
  const OneSided& one_sided() const noexcept { return one_sided_; }
  // Bytes, as the provider's; texts are filled up with zeros to one length.
  const std::string& address() const noexcept { return address_; }
  int wait_fd() const noexcept { return wait_fd_; }
  // False: there is something to read already.
  bool try_wait() noexcept;

  // RDM endpoints right over sockets (provider net, in later versions tcp).
  bool is_native_tcp() const noexcept { return info_->ep_attr->protocol == FI_PROTO_XNET; }

  bool has_mode(std::uint64_t bit) const noexcept {
    return (static_cast<std::uint64_t>(info_->domain_attr->mr_mode) & bit) != 0;
  }

 private:
  Endpoint() = default;
  Status open_objects();
  Status open_ep(fid_ep*& ep, std::string& address);

  fi_info* info_ = nullptr;
  fabric::Interface interface_;
  OneSided one_sided_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
  fid_cq* cq_ = nullptr;
  // The native RDM endpoints over TCP write to a descriptor at every completion of a queue that has
  // one, and nothing makes that one unreadable again. But the descriptor of a queue that is used
  // for nothing is readable when a socket is, which is what a sleeper needs, and costs nothing.
  fid_cq* bell_ = nullptr;
  fid_ep* ep_ = nullptr;
  std::vector<fid_ep*> openers_;
  int timer_ = -1;  // of providers without anything to wait for, as EFA's
  int wait_fd_ = -1;
  std::string address_;
};

}  // namespace weft::ofi
