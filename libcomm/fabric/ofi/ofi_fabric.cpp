#include "fabric/ofi/ofi_fabric.hpp"

#include <fmt/core.h>
#include <rdma/fi_errno.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/thread.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft {
namespace ofi {
namespace {

// Where rings do not come through them few are enough, and stay in the caches: each message takes
// the next one.
constexpr std::size_t kNumReceives = 64;
constexpr std::size_t kFewReceives = 8;
// Several gets of this size are under way at once for one long message.
constexpr std::size_t kPiece = std::size_t{4} << 20;

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

Status OfiFabric::start() {
  const Settings& settings = job_.settings();
  {
    const SignalsBlocked blocked;  // some providers start threads
    if (Status status = Endpoint::open(settings, endpoint_); !status) return status;
  }
  const fi_info& info = endpoint_->info();
  timeout_ns_ = static_cast<std::uint64_t>(settings.number(Setting::peer_timeout_ms)) * 1'000'000;
  eager_max_ = std::min(settings.bytes(Setting::ofi_eager_max_bytes),
                        settings.bytes(Setting::ring_max_bytes));
  piece_max_ = std::min<std::size_t>(kPiece, info.ep_attr->max_msg_size);
  inject_max_ = info.tx_attr->inject_size;
  if (info.domain_attr->cq_data_size < 4 || inject_max_ < sizeof(Control))
    return {Code::unsupported,
            fmt::format("provider {} has no immediate data of 32 bits, or cannot take {} bytes at "
                        "once",
                        info.fabric_attr->prov_name, sizeof(Control))};
  tokens_ = info.domain_attr->cq_data_size >= 8;
  // A control message must not overtake writes for this, nor be overtaken.
  counts_checked_ = by_message_ = is_tcp(info.fabric_attr->prov_name);
  rings_written_ = endpoint_->is_native_tcp() && tokens_;
  part_max_ =
      std::string_view(info.fabric_attr->prov_name).ends_with("ofi_rxm") ? kMaxPartRxm : kMaxPart;

  std::uint64_t random[3];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return {Code::unsupported, fmt::format("no random numbers: {}", std::strerror(errno))};
  secret_ = random[0];
  next_key_ = random[1];
  key_secret_ = random[2];
  peers_ = std::vector<PeerNode>(static_cast<std::size_t>(job_.size()));
  for (int peer = 0; peer < job_.size(); ++peer) node(peer).context.peer = peer;
  // Each has a peer once at most: they never allocate later.
  for (auto* list : {&watched_, &full_outboxes_, &waiting_peers_}) list->reserve(peers_.size());
  const std::size_t num_receives = rings_written_ ? kFewReceives : kNumReceives;
  if (Status status = receive_memory_.map(num_receives * part_max_); !status) return status;
  if (endpoint_->has_mode(FI_MR_LOCAL)) {
    if (Status status =
            add(receive_memory_.data(), receive_memory_.bytes(), FI_RECV, receive_registration_);
        !status)
      return status;
  }
  for (std::size_t i = 0; i < num_receives; ++i) {
    receive_buffers_.push_back(std::make_unique<ReceiveBuffer>());
    receive_buffers_.back()->data = receive_memory_.data() + i * part_max_;
    post_receive(*receive_buffers_.back());
  }
  const std::string secret(reinterpret_cast<const char*>(&secret_), sizeof secret_);
  return job_.board().put("ofi.address", fmt::format("{} {} {}", info.fabric_attr->prov_name,
                                                     to_hex(secret), to_hex(endpoint_->address())));
}

OfiFabric::~OfiFabric() {
  const std::lock_guard lock(lock_);
  for (auto& lane : send_lanes_)
    if (lane != nullptr) close_lane(*lane);
  for (auto& lane : receive_lanes_)
    if (lane != nullptr && lane->registration.mr != nullptr) fi_close(&lane->registration.mr->fid);
  for (auto& [key, registration] : registrations_)
    if (registration.mr != nullptr) fi_close(&registration.mr->fid);
  if (receive_registration_.mr != nullptr) fi_close(&receive_registration_.mr->fid);
  endpoint_.reset();
}

}  // namespace ofi

Status make_ofi_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric) {
  auto made = std::make_unique<ofi::OfiFabric>(job, local);
  if (Status status = made->start(); !status) return status;
  fabric = std::move(made);
  return {};
}

std::string ofi_text(const Settings& settings) {
  ofi::Offers offers;
  if (Status status = offers.find(settings); !status)
    return fmt::format("  ofi: not here: {}\n", status.text());
  const auto& all = offers.interfaces();
  std::string text = fmt::format("  ofi: {} on {}", offers.info().fabric_attr->prov_name,
                                 ofi::list_text({all.front()}));
  if (all.size() > 1)
    text += fmt::format(" (WEFT_OFI_INTERFACE chooses; there are also {})",
                        ofi::list_text({all.begin() + 1, all.end()}));
  return text + "\n";
}

}  // namespace weft
