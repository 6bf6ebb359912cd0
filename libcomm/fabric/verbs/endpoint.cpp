#include "fabric/verbs/endpoint.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/verbs/endpoint_impl.hpp"

namespace weft::fabric::verbs {

namespace {

constexpr std::uint32_t kMaxInline = 256;
constexpr std::uint32_t kMaxReceives = 16384;  // buffers, of all links
constexpr std::uint32_t kReceivesAtOnce = 16;
constexpr int kFirstLinks = 8;  // that the completion queue has room for at first
constexpr int kSpareLinks = 4;  // links that have ended, and whose completions are still in it
constexpr int kRepeatsAndFirst = 7;
constexpr unsigned kEventsAtOnce = 64;

void not_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

int access_of(std::uint32_t rights) {
  int access = 0;
  if ((rights & kRead) != 0) access |= IBV_ACCESS_REMOTE_READ;
  if ((rights & kWrite) != 0) access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if ((rights & kAtomic) != 0) access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
  return access;
}

}  // namespace

Status VerbsEndpoint::start() {
  std::vector<lib::Port> ports;
  lib::Port port;
  if (Status status = lib::find_ports(ports); !status) return status;
  if (Status status = lib::choose_port(ports, settings_.text(Setting::device), port); !status)
    return status;
  if (Status status = lib::Device::open(port, device_); !status) return status;

  const std::uint64_t timeout_ns = settings_.patience_ns();
  attempt_ns_ = std::max<std::uint64_t>(timeout_ns / 4, 1'000'000'000);
  stopped_ns_ = timeout_ns / 2;
  part_bytes_ = std::min<std::size_t>(kPartBytes, device_->max_message);
  // A link is given up after half of the time in which the transport makes another.
  for (ack_timeout_ = 8; ack_timeout_ < 20; ++ack_timeout_)
    if (kRepeatsAndFirst * (4096ull << (ack_timeout_ + 1)) > timeout_ns / 2) break;

  const std::string& atomics = settings_.text(Setting::verbs_atomics);
  limits_ = {.message_max = kBufferBytes - sizeof(Head),
             .puts = true,
             .gets = true,
             .atomics = device_->limits.atomic_cap != IBV_ATOMIC_NONE &&
                        (atomics == "device" ||
                         (atomics == "auto" && device_->limits.atomic_cap == IBV_ATOMIC_GLOB)),
             .writes = device_->max_message >= kPartBytes,
             .breaks = true,
             .links = static_cast<unsigned>(
                 std::clamp<std::int64_t>(settings_.number(Setting::verbs_qps), 1, 16)),
             .lane_eager_max = (32u << 10) - 1};
  registrations_ = std::make_unique<lib::Registrations>(
      device_->pd, settings_.bytes(Setting::verbs_cache_bytes));
  buffers_ = std::make_unique<Blocks>(*registrations_, kBufferBytes, kReceivesAtOnce);
  rings_ = std::make_unique<Blocks>(*registrations_, kRingBytes, 4);
  if (Status status = start_queues(); !status) return status;
  if (Status status = find_inline(); !status) return status;
  if (Status status = start_listening(); !status) return status;
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  for (const int fd : {channel_->fd, cm_channel_->fd, device_->context->async_fd}) {
    not_blocking(fd);
    if (epoll_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      return {Code::no_memory, fmt::format("epoll: {} (see ulimit -n)", std::strerror(errno))};
  }
  return {};
}

Status VerbsEndpoint::start_queues() {
  const auto failed = [this](const char* what) -> Status {
    return {Code::no_memory, fmt::format("{} gives no {}: {} (see ulimit -l and -n)",
                                         device_->port.device, what, std::strerror(errno))};
  };
  max_receives_ = static_cast<std::uint32_t>(
      std::clamp(device_->limits.max_srq_wr, 1, static_cast<int>(kMaxReceives)));
  stash_.reserve(kMostStashed);  // arm() wants no memory
  channel_ = ibv_create_comp_channel(device_->context);
  if (channel_ == nullptr) return failed("completion channel");
  const int room = kFirstLinks * static_cast<int>(kDepth + kFirstCredit);
  queue_ = ibv_create_cq(device_->context, std::min(room, device_->limits.max_cqe), nullptr,
                         channel_, 0);
  if (queue_ == nullptr) return failed("completion queue");
  ibv_srq_init_attr init{};
  init.attr.max_wr = max_receives_;
  init.attr.max_sge = 1;
  receives_ = ibv_create_srq(device_->pd, &init);
  if (receives_ == nullptr) return failed("shared receive queue");
  return {};
}

// Null: see errno.
ibv_qp* VerbsEndpoint::new_queue_pair() const {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = queue_;
  init.srq = receives_;
  init.cap.max_send_wr = kDepth;
  init.cap.max_send_sge = 1;
  init.cap.max_inline_data = max_inline_;
  return ibv_create_qp(device_->pd, &init);
}

// The number of bytes that a send queue takes inline.
Status VerbsEndpoint::find_inline() {
  for (max_inline_ = kMaxInline;; max_inline_ = max_inline_ < 16 ? 0 : max_inline_ / 2) {
    if (ibv_qp* qp = new_queue_pair(); qp != nullptr) {
      (void)ibv_destroy_qp(qp);
      return {};
    }
    if (max_inline_ == 0)
      return {Code::no_memory, fmt::format("{} gives no reliable queue pair: {} (see ulimit -l)",
                                           device_->port.device, std::strerror(errno))};
  }
}

Status VerbsEndpoint::start_listening() {
  cm_channel_ = rdma_create_event_channel();
  if (cm_channel_ == nullptr)
    return {Code::unsupported,
            fmt::format("librdmacm does not work here: {} (is the module rdma_ucm loaded, and "
                        "/dev/infiniband/rdma_cm there?)",
                        std::strerror(errno))};
  const char* const ip = device_->port.address.c_str();
  Address own{kMagic, 4, device_->port.roce ? std::uint8_t{1} : std::uint8_t{0}, 0, {}};
  if (::inet_pton(AF_INET, ip, own.ip) != 1) {
    own.family = 6;
    if (::inet_pton(AF_INET6, ip, own.ip) != 1)
      return {Code::internal, fmt::format("'{}' is no address", ip)};
  }
  sockaddr_storage address = socket_address(own, device_->port.scope);
  if (rdma_create_id(cm_channel_, &listener_, nullptr, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)) != 0 ||
      rdma_listen(listener_, 256) != 0)
    return {Code::unsupported, fmt::format("cannot listen at {} of {}: {}", device_->port.address,
                                           device_->port.device, std::strerror(errno))};
  own.port = rdma_get_src_port(listener_);
  address_.assign(reinterpret_cast<const char*>(&own), sizeof own);
  return {};
}

VerbsEndpoint::~VerbsEndpoint() {
  while (!table_.empty()) {
    if (table_.back() != nullptr) close(*table_.back());
    table_.pop_back();
  }
  for (rdma_cm_id* cm : given_up_) rdma_destroy_id(cm);
  if (listener_ != nullptr) rdma_destroy_id(listener_);
  if (cm_channel_ != nullptr) rdma_destroy_event_channel(cm_channel_);
  if (epoll_ >= 0) ::close(epoll_);
  if (!reaper_.idle()) {
    // Buffers of a queue pair that still exists are freed with the process.
    (void)buffers_.release();
    (void)rings_.release();
    (void)registrations_.release();
    (void)device_.release();
    return;
  }
  if (receives_ != nullptr) (void)ibv_destroy_srq(receives_);
  if (unacked_events_ > 0) ibv_ack_cq_events(queue_, unacked_events_);
  if (queue_ != nullptr) (void)ibv_destroy_cq(queue_);
  if (channel_ != nullptr) (void)ibv_destroy_comp_channel(channel_);
}

// Shared receives.

// So many buffers in all.
Status VerbsEndpoint::make_receives(std::uint32_t count) {
  if (count > max_receives_)
    return {Code::no_memory,
            fmt::format("{} has receive buffers for {} messages, which its peers have used up",
                        device_->port.device, max_receives_)};
  if (received_into_.size() >= count) return {};
  const std::size_t before = received_into_.size();
  make_room(received_into_, count - before);
  Status status;
  while (status && received_into_.size() < count) {
    Block block;
    status = or_no_memory([&] { return buffers_->take(block); });
    if (status) received_into_.push_back(block);
  }
  if (status) status = or_no_memory([&] { return make_room_for_completions(num_links_); });
  if (!status) {
    while (received_into_.size() > before) {
      buffers_->give(received_into_.back());
      received_into_.pop_back();
    }
    return status;
  }
  for (std::size_t i = before; i < count; ++i) post_receive(static_cast<std::uint32_t>(i));
  return {};
}

void VerbsEndpoint::post_receive(std::uint32_t index) {
  const Block& block = received_into_[index];
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(block.data), kBufferBytes, block.lkey};
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = kReceiveBit | index;
  request.sg_list = &piece;
  request.num_sge = 1;
  if (const int error = ibv_post_srq_recv(receives_, &request, &bad); error != 0)
    log_line(LogLevel::error, -1, "verbs: {} takes no receive: {}", device_->port.device,
             std::strerror(error));
}

// Makes room for this number of links: a completion queue that overruns ends all of them. Every
// receive and every request of every queue pair may end at once, when a host goes away.
Status VerbsEndpoint::make_room_for_completions(std::size_t links) {
  const int need =
      static_cast<int>(received_into_.size() + (links + kSpareLinks) * std::size_t{kDepth});
  const int error = device_->make_room(*queue_, need);
  if (error == 0) return {};
  const int limit = device_->limits.max_cqe;
  return {Code::no_memory,
          fmt::format("the completion queue of {} has no room for more than {} links: it has {} "
                      "entries and {} (connect to fewer peers, or leave verbs out of WEFT_FABRIC)",
                      device_->port.device, links, queue_->cqe,
                      need > limit ? fmt::format("the device allows {}", limit)
                                   : fmt::format("gets no more: {}{}", std::strerror(error),
                                                 error == ENOMEM ? ", see ulimit -l" : ""))};
}

// Memory.

Status VerbsEndpoint::register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                                      Registration& registration) {
  if ((rights & ~kRightsMask) != 0) return Code::bad_argument;
  ibv_mr* mr = nullptr;
  if (bytes > 0)
    if (Status status = registrations_->make(address, bytes, access_of(rights), mr); !status)
      return status;
  registration.handle = mr;
  registration.key = write_key(address, bytes, mr != nullptr ? mr->rkey : 0, rights);
  return {};
}

void VerbsEndpoint::deregister(Registration& registration) {
  auto* mr = static_cast<ibv_mr*>(std::exchange(registration.handle, nullptr));
  if (mr == nullptr) return;
  if (const int error = ibv_dereg_mr(mr); error != 0)
    log_line(LogLevel::error, -1, "verbs: memory stays registered with {}: {}",
             device_->port.device, std::strerror(error));
}

// Events other than completions.

bool VerbsEndpoint::poll_deferred(Events& events) {
  bool any = false;
  for (;;) {
    Refused refused{};
    {
      std::lock_guard lock(deferred_lock_);
      if (refused_.empty()) break;
      refused = refused_.back();
      refused_.pop_back();
    }
    refused.request->done(*refused.request, refused.code);
    any = true;
  }
  for (;;) {
    std::uint32_t id = 0;
    {
      std::lock_guard lock(deferred_lock_);
      has_deferred_.store(!refused_.empty() || !broken_.empty(), std::memory_order_relaxed);
      if (broken_.empty()) break;
      id = broken_.back();
      broken_.pop_back();
    }
    if (VerbsLink* link = find(id)) take_down(*link, "a post failed");
  }
  return finish_down(events) || any;
}

bool VerbsEndpoint::poll_rarely(Events& events) {
  const bool any = poll_cm(events);
  if (!making_.empty()) check_attempts();
  poll_device();
  check_devices_end(now_ns());
  registrations_->collect();
  if (!given_up_.empty() && device_->port_is_active())
    for (; !given_up_.empty(); given_up_.pop_back()) rdma_destroy_id(given_up_.back());
  return any;
}

void VerbsEndpoint::poll_device() {
  ibv_async_event event;
  while (ibv_get_async_event(device_->context, &event) == 0) {
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    const bool is_end = type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_DEVICE_FATAL;
    if (is_end || type == IBV_EVENT_PORT_ERR)
      log_line(LogLevel::warn, -1, "verbs: {}:{}: {}", device_->port.device, device_->port.number,
               ibv_event_type_str(type));
    if (!is_end) continue;
    for (VerbsLink* link : table_)
      if (link != nullptr) take_down(*link, ibv_event_type_str(type));
  }
}

// Sleep.

bool VerbsEndpoint::arm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_, &queue, &context) == 0)
    if (++unacked_events_ >= kEventsAtOnce)
      ibv_ack_cq_events(queue_, std::exchange(unacked_events_, 0));
  is_urgent_ = true;
  if (ibv_req_notify_cq(queue_, 0) != 0) return false;
  // Completions that came before arming ring no bell.
  return stash_completions() == 0 && stash_.empty() && ending_.empty() &&
         !has_deferred_.load(std::memory_order_acquire);
}

Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint) {
  auto made = std::make_unique<VerbsEndpoint>(settings);
  if (Status status = made->start(); !status) return status;
  endpoint = std::move(made);
  return {};
}

}  // namespace weft::fabric::verbs
