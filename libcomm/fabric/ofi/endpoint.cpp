#include "fabric/ofi/endpoint.hpp"

#include <fmt/core.h>
#include <rdma/fi_errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "fabric/listeners.hpp"
#include "fabric/ofi/library.hpp"

namespace weft::ofi {
namespace {

// The interval at which a sleeper polls where the provider cannot wake it.
constexpr long kLookNs = 500'000;

void close_ep(fid_ep* ep) {
  fabric::forget_listener(ep);
  fi_close(&ep->fid);
}

Status failed(const char* what, int error) {
  return {Code::unsupported, fmt::format("libfabric's {} failed: {}", what, error_text(error))};
}

// The length of addresses that are texts.
constexpr std::size_t kTextAddressBytes = 128;

fi_info* make_hints(const std::string& provider, std::uint64_t caps, std::uint64_t op_flags) {
  fi_info* hints = library().dupinfo(nullptr);
  if (hints == nullptr) return nullptr;
  hints->caps = caps;
  // Each request that ends with a completion has room for it.
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  // We have a lock of our own, so the provider needs none.
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->op_flags = op_flags;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  // Credit bounds the requests under way; the default of 2048 only costs memory.
  hints->tx_attr->size = 256;
  hints->rx_attr->size = 256;
  return hints;
}

int get_offers(const std::string& provider, std::uint64_t caps, std::uint64_t op_flags,
               fi_info*& list) {
  fi_info* hints = make_hints(provider, caps, op_flags);
  if (hints == nullptr) return -FI_ENOMEM;
  // From 1.18 on efa does RDMA by every device that can; nothing else differs for Weft.
  const bool is_newer = FI_VERSION_GE(library().version(), FI_VERSION(1, 18));
  const std::uint32_t version = is_newer ? FI_VERSION(1, 18) : FI_VERSION(1, 15);
  int error = library().getinfo(version, nullptr, nullptr, 0, hints, &list);
  library().freeinfo(hints);
  if (error == 0 && list == nullptr) error = -FI_ENODATA;
  return error;
}

// The offers of libfabric for the first of these providers (separated by commas) that is there.
int find_provider(const std::string& providers, fi_info*& list) {
  int error = -FI_ENODATA;
  std::size_t start = 0;
  for (std::size_t end = 0; end != std::string::npos; start = end + 1) {
    end = providers.find(',', start);
    const std::string provider = providers.substr(start, end - start);
    error = get_offers(provider, FI_MSG | FI_RMA, 0, list);
    if (error != 0) error = get_offers(provider, FI_MSG, 0, list);
    if (error == 0) return 0;
  }
  return error;
}

fabric::Interface interface_of(const fi_info& info, const std::string& route,
                               const std::string& route_v6) {
  fabric::Interface interface;
  if (info.domain_attr->name != nullptr) interface.name = info.domain_attr->name;
  if (info.addr_format != FI_SOCKADDR_IN && info.addr_format != FI_SOCKADDR_IN6) return interface;
  interface.address =
      fabric::address_text({static_cast<const char*>(info.src_addr), info.src_addrlen});
  interface.has_default_route =
      interface.name == (info.addr_format == FI_SOCKADDR_IN ? route : route_v6);
  return interface;
}

}  // namespace

bool is_tcp(std::string_view provider) noexcept {
  return provider.starts_with("tcp") || provider.starts_with("net");
}

Offers::~Offers() {
  if (list_ != nullptr) library().freeinfo(list_);
}

// Returns true if the provider says when a put has arrived. The offers are then those with atomics,
// if these are wanted and there.
bool Offers::confirm_one_sided(const Settings& settings) {
  const std::string name = list_->fabric_attr->prov_name;
  const Provider& provider = provider_of(name);
  if (!wants_one_sided(provider) || (list_->caps & FI_RMA) == 0) return false;
  const std::uint64_t flags = provider.is_delivered ? 0 : FI_DELIVERY_COMPLETE;
  fi_info* list = nullptr;
  int error = -FI_ENODATA;
  if (wants_atomics(provider, settings))
    error = get_offers(name, FI_MSG | FI_RMA | FI_ATOMIC, flags, list);
  if (error != 0) error = get_offers(name, FI_MSG | FI_RMA, flags, list);
  if (error != 0) return false;
  library().freeinfo(std::exchange(list_, list));
  // Only puts ask for it.
  for (fi_info* info = list_; info != nullptr; info = info->next) info->tx_attr->op_flags &= ~flags;
  return true;
}

Status Offers::find(const Settings& settings) {
  const Library* library = nullptr;
  if (Status status = load(library); !status) return status;
  const std::string& provider = settings.text(Setting::ofi_provider);
  if (const int error = find_provider(provider, list_); error != 0)
    return {Code::unsupported, fmt::format("libfabric has no provider '{}' with all that Weft "
                                           "needs: {} (fi_info -l lists what there is; "
                                           "WEFT_OFI_PROVIDER chooses)",
                                           provider, error_text(error))};
  const bool is_confirmed = confirm_one_sided(settings);
  const std::string route = fabric::default_route(false), route_v6 = fabric::default_route(true);
  std::vector<const fi_info*> infos;
  for (const fi_info* info = list_; info != nullptr; info = info->next) {
    // Entries behind those of the best provider are others that build the same from parts.
    if (std::string_view(info->fabric_attr->prov_name) != list_->fabric_attr->prov_name) continue;
    fabric::Interface interface = interface_of(*info, route, route_v6);
    const auto same = [&](const fabric::Interface& other) {
      return other.name == interface.name && other.address == interface.address;
    };
    if (fabric::is_link_local(interface.address) ||
        std::any_of(interfaces_.begin(), interfaces_.end(), same))
      continue;
    infos.push_back(info);
    interfaces_.push_back(std::move(interface));
  }
  std::size_t chosen = 0;
  if (Status status =
          fabric::choose_interface(interfaces_, settings.text(Setting::interface), chosen);
      !status)
    return status;
  info_ = infos[chosen];
  one_sided_ = choose_one_sided(*info_, settings, is_confirmed);
  std::rotate(interfaces_.begin(), interfaces_.begin() + static_cast<std::ptrdiff_t>(chosen),
              interfaces_.begin() + static_cast<std::ptrdiff_t>(chosen) + 1);
  return {};
}

std::string describe(const Settings& settings) {
  Offers offers;
  if (Status status = offers.find(settings); !status)
    return fmt::format("  ofi: not here: {}\n", status.text());
  const auto& all = offers.interfaces();
  std::string text = fmt::format("  ofi: {} on {}", offers.info().fabric_attr->prov_name,
                                 fabric::list_text({all.front()}));
  if (all.size() > 1)
    text += fmt::format(" (WEFT_INTERFACE chooses; there are also {})",
                        fabric::list_text({all.begin() + 1, all.end()}));
  const OneSided& one_sided = offers.one_sided();
  text += fmt::format("; puts and gets: {} ({})", one_sided.puts ? "the provider's" : "by messages",
                      one_sided.why);
  return text + "\n";
}

Status Endpoint::open(const Settings& settings, std::unique_ptr<Endpoint>& endpoint) {
  Offers offers;
  if (Status status = offers.find(settings); !status) return status;
  std::unique_ptr<Endpoint> opened(new Endpoint);
  opened->interface_ = offers.interfaces().front();
  opened->one_sided_ = offers.one_sided();
  const std::string_view provider = offers.info().fabric_attr->prov_name;
  if (wants_one_sided(provider_of(provider)) && !offers.one_sided().puts)
    log_line(LogLevel::warn, -1, "ofi: puts and gets over {} go by messages: {}", provider,
             offers.one_sided().why);
  opened->info_ = library().dupinfo(&offers.info());
  if (opened->info_ == nullptr) return Code::no_memory;
  // Memory has the address that its owner knows it by, as with other fabrics: these endpoints do as
  // the domain is asked.
  if (opened->is_native_tcp()) opened->info_->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
  if (Status status = opened->open_objects(); !status) return status;
  endpoint = std::move(opened);
  return {};
}

Status Endpoint::open_objects() {
  int error = library().fabric(info_->fabric_attr, &fabric_, nullptr);
  if (error != 0) return failed("fi_fabric", error);
  error = fi_domain(fabric_, info_, &domain_, nullptr);
  if (error != 0) return failed("fi_domain", error);

  fi_av_attr av_attr{};
  av_attr.type = FI_AV_TABLE;
  error = fi_av_open(domain_, &av_attr, &av_, nullptr);
  if (error != 0) return failed("fi_av_open", error);

  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_DATA;
  cq_attr.wait_obj = is_native_tcp() ? FI_WAIT_NONE : FI_WAIT_FD;
  cq_attr.size = 8192;
  error = fi_cq_open(domain_, &cq_attr, &cq_, nullptr);
  if (error == -FI_ENOSYS) {
    cq_attr.wait_obj = FI_WAIT_NONE;
    error = fi_cq_open(domain_, &cq_attr, &cq_, nullptr);
  }
  if (error != 0) return failed("fi_cq_open", error);

  if (Status status = open_ep(ep_, address_); !status) return status;

  if (is_native_tcp()) {
    cq_attr.wait_obj = FI_WAIT_FD;
    cq_attr.size = 1;
    error = fi_cq_open(domain_, &cq_attr, &bell_, nullptr);
    if (error != 0) return failed("fi_cq_open", error);
  }
  if (fi_control(&(is_native_tcp() ? bell_ : cq_)->fid, FI_GETWAIT, &wait_fd_) != 0) {
    timer_ = wait_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer_ < 0)
      return {Code::no_memory,
              fmt::format("cannot make a timer: {} (see ulimit -n)", std::strerror(errno))};
  }
  return {};
}

Status Endpoint::open_ep(fid_ep*& ep, std::string& address) {
  int error = fi_endpoint(domain_, info_, &ep, nullptr);
  if (error != 0) return failed("fi_endpoint", error);
  error = fi_ep_bind(ep, &av_->fid, 0);
  if (error != 0) return failed("fi_ep_bind", error);
  // Only requests that ask for a completion get one, except for errors.
  error = fi_ep_bind(ep, &cq_->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
  if (error == 0) error = fi_ep_bind(ep, &cq_->fid, FI_RECV);
  if (error != 0) return failed("fi_ep_bind", error);
  error = fi_enable(ep);
  if (error != 0) return failed("fi_enable", error);
  std::size_t length = 0;
  error = fi_getname(&ep->fid, nullptr, &length);
  if (error != -FI_ETOOSMALL) return failed("fi_getname", error);
  address.resize(length);
  error = fi_getname(&ep->fid, address.data(), &length);
  if (error != 0) return failed("fi_getname", error);
  if (info_->addr_format == FI_ADDR_STR && length < kTextAddressBytes)
    address.resize(kTextAddressBytes);
  fabric::keep_listener(ep, address);
  return {};
}

Status Endpoint::add_opener(fid_ep*& ep, std::string& address) {
  make_room(openers_);
  Status status = open_ep(ep, address);
  if (status) {
    openers_.push_back(ep);
  } else if (ep != nullptr) {
    close_ep(std::exchange(ep, nullptr));
  }
  return status;
}

void Endpoint::close_opener(fid_ep* ep) {
  std::erase(openers_, ep);
  close_ep(ep);
}

bool Endpoint::try_wait() noexcept {
  if (timer_ >= 0) {
    const itimerspec soon{{0, 0}, {0, kLookNs}};
    return timerfd_settime(timer_, 0, &soon, nullptr) == 0;
  }
  if (is_native_tcp()) return true;
  fid* fids[] = {&cq_->fid};
  return fi_trywait(fabric_, fids, 1) == FI_SUCCESS;
}

Endpoint::~Endpoint() {
  if (timer_ >= 0) close(timer_);
  for (fid_ep* opener : openers_) close_ep(opener);
  if (ep_ != nullptr) close_ep(ep_);
  if (bell_ != nullptr) fi_close(&bell_->fid);
  if (cq_ != nullptr) fi_close(&cq_->fid);
  if (av_ != nullptr) fi_close(&av_->fid);
  if (domain_ != nullptr) fi_close(&domain_->fid);
  if (fabric_ != nullptr) fi_close(&fabric_->fid);
  if (info_ != nullptr) library().freeinfo(info_);
}

}  // namespace weft::ofi
