// Start, end, and memory that others may reach.
#include "fabric/verbs/verbs_fabric.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/log.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {
namespace {

constexpr std::string_view kKey = "verbs.address";
// Messages of 32 KiB and more are announced, and read by the receiver straight into its buffer.
constexpr std::size_t kEagerMaxBytes = (32u << 10) - 1;
constexpr std::uint32_t kReceives = 2048;
constexpr int kFirstPeers = 128;  // for which the completion queue has room from the start
constexpr std::uint32_t kInline = 128;
constexpr int kRepeatsAndFirst = 7;

void not_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Status VerbsFabric::start() {
  const Settings& settings = job_.settings();
  std::vector<Port> ports;
  Port port;
  if (Status status = find_ports(ports); !status) return status;
  if (Status status = choose_port(ports, settings.text(Setting::device), port); !status)
    return status;
  if (Status status = Device::open(port, device_); !status) return status;

  peer_timeout_ns_ =
      static_cast<std::uint64_t>(settings.number(Setting::peer_timeout_ms)) * 1'000'000;
  // The rest of it goes to who waits and has yet to hear of it: out of a sleep, which looks at the
  // clock every 50 to 100 ms.
  patience_ns_ = peer_timeout_ns_ - peer_timeout_ns_ / 8;
  // The longest time between repeats with which a request is given up in half of the time: the
  // rest is for making another queue pair.
  for (ack_timeout_ = 8; ack_timeout_ < 20; ++ack_timeout_)
    if (kRepeatsAndFirst * (4096ull << (ack_timeout_ + 1)) > peer_timeout_ns_ / 2) break;
  repeats_ns_ = kRepeatsAndFirst * (4096ull << ack_timeout_);
  probe_after_ns_ = std::max<std::uint64_t>(peer_timeout_ns_ / 8, 10'000'000);
  eager_max_ = settings.bytes_or(Setting::remote_eager_max_bytes, kEagerMaxBytes);
  ring_min_ = static_cast<std::uint32_t>(settings.bytes(Setting::ring_min_bytes));
  ring_max_ = static_cast<std::uint32_t>(settings.bytes(Setting::ring_max_bytes));
  connections_ = std::vector<Connection>(static_cast<std::size_t>(job_.size()));
  addresses_.resize(connections_.size());
  for (std::size_t i = 0; i < connections_.size(); ++i) connections_[i].peer = static_cast<int>(i);

  const std::string& atomics = settings.text(Setting::verbs_atomics);
  owner_changes_ = atomics == "owner" || device_->limits.atomic_cap == IBV_ATOMIC_NONE ||
                   (atomics == "auto" && device_->limits.atomic_cap != IBV_ATOMIC_GLOB);
  registrations_ =
      std::make_unique<Registrations>(device_->pd, settings.bytes(Setting::verbs_cache_bytes));
  if (!registrations_->watch_status())
    log_line(LogLevel::info, job_.rank(), "memory is registered anew for each use: {}",
             registrations_->watch_status().text());
  if (Status status = start_queues(); !status) return status;
  if (Status status = make_slots(); !status) return status;
  if (Status status = start_listening(); !status) return status;
  if (Status status = start_waiting(); !status) return status;

  if (getrandom(own_key_, sizeof own_key_, 0) != static_cast<ssize_t>(sizeof own_key_))
    return {Code::internal, fmt::format("no random numbers: {}", std::strerror(errno))};
  return job_.board().put(
      kKey, fmt::format("{} {} {} {:x} {:x}", port.roce ? "roce" : "ib", port.address,
                        ntohs(rdma_get_src_port(listener_)), own_key_[0], own_key_[1]));
}

Status VerbsFabric::start_queues() {
  const auto failed = [this](const char* what) -> Status {
    return {Code::no_memory,
            fmt::format("{} gives no {}: {}{}", device_->port.device, what, std::strerror(errno),
                        errno == ENOMEM ? " (see ulimit -l)" : "")};
  };
  completion_channel_ = ibv_create_comp_channel(device_->context);
  if (completion_channel_ == nullptr) return failed("completion channel");
  not_blocking(completion_channel_->fd);
  num_receives_ = std::min<std::uint32_t>(
      kReceives, static_cast<std::uint32_t>(std::max(device_->limits.max_srq_wr, 64)));
  // Some devices cannot enlarge it later.
  const auto num_peers = static_cast<std::uint32_t>(std::clamp(job_.size() - 1, 1, kFirstPeers));
  const int room =
      std::min(static_cast<int>(num_receives_ + num_peers * kDepth), device_->limits.max_cqe);
  queue_ = ibv_create_cq(device_->context, room, nullptr, completion_channel_, 0);
  if (queue_ == nullptr) return failed("completion queue");
  ibv_srq_init_attr init{};
  init.attr.max_wr = num_receives_;
  init.attr.max_sge = 1;
  receives_ = ibv_create_srq(device_->pd, &init);
  if (receives_ == nullptr) return failed("shared receive queue");
  const std::size_t bytes = num_receives_ * sizeof(Control);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed("memory");
  receive_memory_ = static_cast<std::byte*>(memory);
  receive_mr_ = ibv_reg_mr(device_->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (receive_mr_ == nullptr) return registration_error(errno, bytes);
  for (std::uint64_t i = 0; i < num_receives_; ++i) post_receive(i);
  flush_receives();

  // How much a send queue takes inline. Control messages always go so.
  for (max_inline_ = kInline; max_inline_ >= sizeof(Control); max_inline_ /= 2) {
    ibv_qp_init_attr trial{};
    trial.qp_type = IBV_QPT_RC;
    trial.send_cq = trial.recv_cq = queue_;
    trial.srq = receives_;
    trial.cap.max_send_wr = kDepth;
    trial.cap.max_send_sge = 1;
    trial.cap.max_inline_data = max_inline_;
    if (ibv_qp* qp = ibv_create_qp(device_->pd, &trial); qp != nullptr) {
      (void)ibv_destroy_qp(qp);
      return {};
    }
  }
  return failed("reliable queue pair with 32 bytes inline");
}

Status VerbsFabric::start_waiting() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  not_blocking(events_->fd);
  epoll_event event{};
  event.events = EPOLLIN;
  for (const int fd : {completion_channel_->fd, events_->fd, device_->context->async_fd})
    if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      return {Code::no_memory, fmt::format("epoll: {} (see ulimit -n)", std::strerror(errno))};
  return {};
}

VerbsFabric::~VerbsFabric() {
  leaving_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard poll(poll_lock_);
    const std::lock_guard lock(setup_);
    for (Connection& connection : connections_) {
      end_connection(connection, "closed by this process");
      for (auto& lane : connection.writers) lane->mirror.free();
    }
    for (ClosedMirror& mirror : closed_mirrors_) mirror.memory.free();
    for (auto& lane : readers_)
      if (lane != nullptr) lane->ring.free();
  }
  for (const auto& [number, region] : regions_) {
    (void)ibv_dereg_mr(region.mr);
    if (region.mapped_bytes != 0)
      munmap(reinterpret_cast<void*>(region.address), region.mapped_bytes);
  }
  for (rdma_cm_id* id : given_up_) rdma_destroy_id(id);
  if (listener_ != nullptr) rdma_destroy_id(listener_);
  if (events_ != nullptr) rdma_destroy_event_channel(events_);
  if (epoll_ >= 0) close(epoll_);
  registrations_.reset();
  if (slot_mr_ != nullptr) (void)ibv_dereg_mr(slot_mr_);
  if (slots_ != nullptr) munmap(slots_, kNumSlots * kSlotBytes);
  if (receive_mr_ != nullptr) (void)ibv_dereg_mr(receive_mr_);
  if (receive_memory_ != nullptr) munmap(receive_memory_, num_receives_ * sizeof(Control));
  if (!reaper_.idle()) {
    // What a queue pair that is not gone yet uses ends with the process.
    (void)device_.release();
    return;
  }
  if (receives_ != nullptr) (void)ibv_destroy_srq(receives_);
  if (queue_ != nullptr) (void)ibv_destroy_cq(queue_);
  if (completion_channel_ != nullptr) (void)ibv_destroy_comp_channel(completion_channel_);
}

const VerbsFabric::Address& VerbsFabric::address_of(int peer) const {
  Address& address = addresses_[static_cast<std::size_t>(peer)];
  if (address.state != Address::unknown) return address;
  std::string text;
  address.state = Address::none;
  if (!job_.board().get(peer, kKey, text)) return address;
  std::istringstream words(text);
  std::string kind;
  words >> kind >> address.address >> address.port >> std::hex >> address.key[0] >> address.key[1];
  address.roce = kind == "roce";
  address.loops_back = device_->is_software && address.address == device_->port.address;
  // Between RoCE and InfiniBand there is no way.
  if (words && address.roce == device_->port.roce) address.state = Address::known;
  return address;
}

bool VerbsFabric::reaches(int peer) const noexcept {
  return peer != job_.rank() && address_of(peer).state == Address::known;
}

}  // namespace weft::verbs

namespace weft {

Status make_verbs_fabric(Job& job, Fabric& local, std::unique_ptr<Fabric>& fabric) {
  auto made = std::make_unique<verbs::VerbsFabric>(job, local);
  if (Status status = made->start(); !status) return status;
  fabric = std::move(made);
  return {};
}

std::string verbs_text() { return verbs::ports_text(); }

}  // namespace weft
