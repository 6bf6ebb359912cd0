#include "fabric/verbs/endpoint.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/traffic_class.hpp"
#include "fabric/verbs/endpoint_impl.hpp"

namespace weft::fabric::verbs {

namespace {

constexpr std::uint32_t kMaxInline = 256;
constexpr std::uint32_t kMaxReceives = 16384;  // buffers, of all links
constexpr std::uint32_t kReceivesAtOnce = 16;
constexpr int kFirstLinks = 8;  // that the completion queue has room for at first
constexpr int kSpareLinks = 4;  // links that have ended, and whose completions are still in it
constexpr int kRepeatsAndFirst = 7;
constexpr std::uint32_t kNobody = ~0u;
constexpr std::uint64_t kOfNoLink = std::uint64_t{0x7fffffff} << 32;  // of a completion
// A completion queue that cannot grow has room for all buffers, and the requests of so many links.
constexpr int kFixedLinks = 256;
// A device that answers a limited number of reads in all answers so many links at least.
constexpr int kReaders = 64;
constexpr unsigned kEventsAtOnce = 64;

void not_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Devices without atomics refuse the right to them (hns), which the owner's side does not need.
int access_of(std::uint32_t rights, bool has_atomics) {
  int access = 0;
  if ((rights & kRead) != 0) access |= IBV_ACCESS_REMOTE_READ;
  if ((rights & kWrite) != 0) access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if ((rights & kAtomic) != 0) access |= IBV_ACCESS_LOCAL_WRITE;
  if ((rights & kAtomic) != 0 && has_atomics) access |= IBV_ACCESS_REMOTE_ATOMIC;
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
  transport_ = lib::facts_of(port.transport);
  if (Status status = read_traffic_class(settings_, traffic_class_); !status) return status;
  if (Status status = look_at_limits(); !status) return status;

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
             .refuses_by_breaks = transport_.refuses_by_breaks,
             .polls_by_calls = false,
             .links = static_cast<unsigned>(
                 std::clamp<std::int64_t>(settings_.number(Setting::verbs_qps), 1, 16)),
             .lane_eager_max = (32u << 10) - 1};
  registrations_ = std::make_unique<lib::Registrations>(
      device_->pd, settings_.bytes(Setting::verbs_cache_bytes), transport_);
  buffers_ = std::make_unique<Blocks>(*registrations_, IBV_ACCESS_LOCAL_WRITE, kBufferBytes,
                                      kReceivesAtOnce);
  rings_ =
      std::make_unique<Blocks>(*registrations_, registrations_->written_by_read(), kRingBytes, 4);
  // One link can always send: others give way to one that lacks memory, but there may be none.
  Block first;
  if (Status status = rings_->take(first); !status)
    return {status.code(), fmt::format("links' send buffers: {}", status.text())};
  rings_->give(first);
  if (!transport_.sent_has_arrived) {
    if (Status status = registrations_->make(
            proofs_.data(), sizeof proofs_,
            registrations_->written_by_read() | IBV_ACCESS_REMOTE_READ, proof_mr_);
        !status)
      return status;
    proof_lands_ = {reinterpret_cast<std::uintptr_t>(&proofs_[1]), kProofBytes, proof_mr_->lkey};
  }
  if (Status status = start_queues(); !status) return status;
  if (Status status = find_inline(); !status) return status;
  if (Status status = start_listening(); !status) return status;
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  if (transport_.connects_queue_pairs) {
    bell_ = std::make_shared<Descriptor>(::eventfd(0, EFD_CLOEXEC));
    if (!*bell_)
      return {Code::no_memory, fmt::format("eventfd: {} (see ulimit -n)", std::strerror(errno))};
  }
  for (const int fd : {channel_->fd, cm_channel_->fd, device_->context->async_fd,
                       bell_ != nullptr ? bell_->get() : -1}) {
    if (fd < 0) continue;
    not_blocking(fd);
    if (epoll_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      return {Code::no_memory, fmt::format("epoll: {} (see ulimit -n)", std::strerror(errno))};
  }
  return {};
}

// What links are made of, as far as the device goes.
Status VerbsEndpoint::look_at_limits() {
  const ibv_device_attr& limits = device_->limits;
  const auto lacks = [this](const char* what, auto has, auto needed) -> Status {
    return {Code::unsupported,
            fmt::format("{} has {} {}, and a link needs {} (WEFT_FABRIC without verbs goes around "
                        "the device, WEFT_DEVICE names another)",
                        device_->port.device, has, what, needed)};
  };
  if (limits.max_qp_wr < static_cast<int>(kLeastDepth))
    return lacks("requests in a queue (max_qp_wr)", limits.max_qp_wr, kLeastDepth);
  if (limits.max_qp_rd_atom < 1 || limits.max_qp_init_rd_atom < 1)
    return lacks("reads at once (max_qp_rd_atom, max_qp_init_rd_atom)",
                 std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom), 1);
  depth_ = std::min(kDepth, static_cast<std::uint32_t>(limits.max_qp_wr));
  // Where reads follow all else, as many as the queue has: siw (Linux 6.1) answers none while one
  // of its own waits for others to end, which two ends may do for ever.
  const int reads = static_cast<int>(transport_.sent_has_arrived ? kMaxReadDepth : kDepth);
  const auto depth = [reads](int most) {
    return static_cast<std::uint8_t>(std::clamp(most, 1, reads));
  };
  ask_depth_ = depth(limits.max_qp_init_rd_atom);
  read_depth_ = depth(limits.max_qp_rd_atom);
  if (limits.max_res_rd_atom > 0)
    read_depth_ = std::min(read_depth_, depth(limits.max_res_rd_atom / kReaders));
  return {};
}

Status VerbsEndpoint::start_queues() {
  const auto failed = [this](const char* what) -> Status {
    return {Code::no_memory, fmt::format("{} gives no {}: {} (see ulimit -l and -n)",
                                         device_->port.device, what, std::strerror(errno))};
  };
  stash_.reserve(kMostStashed);  // arm() wants no memory
  channel_ = ibv_create_comp_channel(device_->context);
  if (channel_ == nullptr) return failed("completion channel");
  if (Status status = make_completion_queue(); !status) return status;
  max_receives_ = kMaxReceives;
  const bool shares = device_->limits.max_srq > 0;
  if (shares) {
    max_receives_ = std::min(max_receives_,
                             static_cast<std::uint32_t>(std::max(device_->limits.max_srq_wr, 1)));
    ibv_srq_init_attr init{};
    init.attr.max_wr = max_receives_;
    init.attr.max_sge = 1;
    receives_ = ibv_create_srq(device_->pd, &init);
    if (receives_ == nullptr && errno != EOPNOTSUPP && errno != ENOSYS)
      return failed("shared receive queue");
  }
  if (receives_ == nullptr) {
    max_receives_ = kMaxReceives;
    max_window_ = std::bit_floor(
        std::min(kLastCredit, static_cast<std::uint32_t>(device_->limits.max_qp_wr)));
  }
  return {};
}

Status VerbsEndpoint::make_completion_queue() {
  const auto make = [this](int entries) {
    queue_ = ibv_create_cq(device_->context, entries, nullptr, channel_, 0);
    return queue_ != nullptr;
  };
  const auto failed = [this]() -> Status {
    return {Code::no_memory, fmt::format("{} gives no completion queue: {} (see ulimit -l and -n)",
                                         device_->port.device, std::strerror(errno))};
  };
  const int most = device_->limits.max_cqe;
  const int first = std::min(kFirstLinks * static_cast<int>(kDepth + kFirstCredit), most);
  if (!make(first)) return failed();
  if (first == most || device_->make_room(*queue_, std::min(queue_->cqe + 1, most)) == 0) return {};
  // Not every driver resizes them (hns, older ones of bnxt_re): then it is made as long as is
  // needed.
  (void)ibv_destroy_cq(std::exchange(queue_, nullptr));
  constexpr int kWanted = kFixedLinks * static_cast<int>(kDepth) + static_cast<int>(kMaxReceives);
  for (int entries = std::min(kWanted, most); entries >= first; entries /= 2)
    if (make(entries)) return {};
  return make(first) ? Status() : failed();
}

// Null: see errno. With so many bytes that it takes inline.
ibv_qp* VerbsEndpoint::new_queue_pair(std::uint32_t& inline_bytes) const {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = queue_;
  init.srq = receives_;
  init.cap.max_send_wr = depth_;
  init.cap.max_send_sge = 1;
  init.cap.max_inline_data = max_inline_;
  if (receives_ == nullptr) {
    init.cap.max_recv_wr = max_window_;
    init.cap.max_recv_sge = 1;
  }
  ibv_qp* qp = ibv_create_qp(device_->pd, &init);
  inline_bytes = init.cap.max_inline_data;
  return qp;
}

// The number of bytes that a send queue takes inline. Some devices refuse to take more, others say
// that they take less.
Status VerbsEndpoint::find_inline() {
  for (max_inline_ = kMaxInline;; max_inline_ = max_inline_ < 16 ? 0 : max_inline_ / 2) {
    std::uint32_t inline_bytes = 0;
    if (ibv_qp* qp = new_queue_pair(inline_bytes); qp != nullptr) {
      (void)ibv_destroy_qp(qp);
      max_inline_ = std::min(max_inline_, inline_bytes);
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
  Address own{kMagic, 4, device_->port.transport, 0, {}};
  if (::inet_pton(AF_INET, ip, own.ip) != 1) {
    own.family = 6;
    if (::inet_pton(AF_INET6, ip, own.ip) != 1)
      return {Code::internal, fmt::format("'{}' is no address", ip)};
  }
  sockaddr_storage address = socket_address(own, device_->port.scope);
  // The connection manager chooses a port that may be a TCP socket's, which iWARP shares them with.
  constexpr int kPorts = 16;
  for (int tries = 1;; ++tries) {
    if (rdma_create_id(cm_channel_, &listener_, nullptr, RDMA_PS_TCP) == 0 &&
        rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)) == 0 &&
        rdma_listen(listener_, 256) == 0)
      break;
    const int error = errno;
    if (listener_ != nullptr) rdma_destroy_id(std::exchange(listener_, nullptr));
    if (error != EADDRINUSE || tries == kPorts)
      return {Code::unsupported, fmt::format("cannot listen at {} of {}: {}", device_->port.address,
                                             device_->port.device, std::strerror(error))};
  }
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
  if (epoll_ >= 0) ::close(epoll_);
  const bool is_idle = reaper_.idle();
  // Threads that end connections need it.
  if (cm_channel_ != nullptr && (is_idle || !transport_.connects_queue_pairs))
    rdma_destroy_event_channel(cm_channel_);
  if (!is_idle) {
    // What a queue pair that still exists needs is freed with the process.
    (void)buffers_.release();
    (void)rings_.release();
    (void)registrations_.release();
    (void)device_.release();
    return;
  }
  if (proof_mr_ != nullptr) (void)ibv_dereg_mr(proof_mr_);
  if (receives_ != nullptr) (void)ibv_destroy_srq(receives_);
  if (unacked_events_ > 0) ibv_ack_cq_events(queue_, unacked_events_);
  if (queue_ != nullptr) (void)ibv_destroy_cq(queue_);
  if (channel_ != nullptr) (void)ibv_destroy_comp_channel(channel_);
}

// Receives: of all links together, or, where the device has no shared queue, of each.

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
  if (receives_ == nullptr) {
    make_room(receivers_, count - before);
    free_receives_.reserve(count);  // giving back wants no memory
  }
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
  if (receives_ == nullptr) receivers_.resize(count, kNobody);
  for (std::size_t i = before; i < count; ++i)
    if (receives_ == nullptr)
      free_receives_.push_back(static_cast<std::uint32_t>(i));
    else
      post_receive(static_cast<std::uint32_t>(i));
  return {};
}

// Of queue pairs with their own receives: to the one that has been given the buffer.
void VerbsEndpoint::post_receive(std::uint32_t index) {
  ibv_qp* qp = nullptr;
  if (receives_ == nullptr) {
    if (receivers_[index] == kNobody) return;  // its link has been closed
    const VerbsLink* link = find(receivers_[index]);
    if (link == nullptr || link->qp == nullptr || link->is_ending) return free_receive(index);
    qp = link->qp;
  }
  const Block& block = received_into_[index];
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(block.data), kBufferBytes, block.lkey};
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = kReceiveBit | index;
  request.sg_list = &piece;
  request.num_sge = 1;
  if (const int error = qp != nullptr ? ibv_post_recv(qp, &request, &bad)
                                      : ibv_post_srq_recv(receives_, &request, &bad);
      error != 0 && !is_gone_)
    log_line(LogLevel::error, -1, "verbs: {} takes no receive: {}", device_->port.device,
             std::strerror(error));
}

void VerbsEndpoint::free_receive(std::uint32_t index) {
  receivers_[index] = kNobody;
  free_receives_.push_back(index);
}

// Gives a link so many more buffers of those that make_receives() has made.
void VerbsEndpoint::give_receives(VerbsLink& link, std::uint32_t count) {
  if (receives_ != nullptr) return;
  for (; count > 0 && !free_receives_.empty(); --count) {
    const std::uint32_t index = free_receives_.back();
    free_receives_.pop_back();
    receivers_[index] = link.id;
    post_receive(index);
  }
}

// The link's queue pair is destroyed: what has been read of its completions counts no more.
void VerbsEndpoint::take_receives_back(const VerbsLink& link, std::uint32_t qp_num) {
  if (receives_ != nullptr) return;
  for (std::size_t i = num_unstashed_; i < stash_.size(); ++i)
    if ((stash_[i].wr_id & kReceiveBit) != 0 && stash_[i].qp_num == qp_num)
      stash_[i].wr_id = kOfNoLink;
  for (std::uint32_t index = 0; index < receivers_.size(); ++index)
    if (receivers_[index] == link.id) free_receive(index);
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
    if (Status status =
            registrations_->make(address, bytes, access_of(rights, limits_.atomics), mr);
        !status)
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
    VerbsLink* link = find(id);
    if (link == nullptr) continue;
    Status shortage;
    {
      std::lock_guard lock(link->lock);
      shortage = std::move(link->shortage);
    }
    if (shortage)
      take_down(*link, "a post failed");
    else
      take_down(*link, shortage);
  }
  return finish_down(events) || any;
}

bool VerbsEndpoint::poll_rarely(Events& events) {
  const bool any = poll_cm(events);
  if (bell_ != nullptr) {
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t count = ::read(bell_->get(), &rings, sizeof rings);
  }
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
  while (!is_gone_) {
    if (ibv_get_async_event(device_->context, &event) != 0) {
      if (errno == EIO) end_device();
      return;
    }
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    const bool is_end = type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_DEVICE_FATAL;
    if (is_end || type == IBV_EVENT_PORT_ERR)
      log_line(LogLevel::warn, -1, "verbs: {}:{}: {}", device_->port.device, device_->port.number,
               ibv_event_type_str(type));
    if (type == IBV_EVENT_DEVICE_FATAL) return end_device();
    if (!is_end) continue;
    for (VerbsLink* link : table_)
      if (link != nullptr) take_down(*link, ibv_event_type_str(type));
  }
}

// The device was removed, or has failed for good: an endpoint of it does nothing more. What it
// waits at would be readable from now on without telling anything (the kernel's
// ib_uverbs_event_poll).
void VerbsEndpoint::end_device() {
  is_gone_ = true;
  for (const int fd : {channel_->fd, device_->context->async_fd})
    (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  for (VerbsLink* link : table_)
    if (link != nullptr) take_down(*link, "the device is gone");
}

// Sleep.

bool VerbsEndpoint::arm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (!is_gone_ && ibv_get_cq_event(channel_, &queue, &context) == 0)
    if (++unacked_events_ >= kEventsAtOnce)
      ibv_ack_cq_events(queue_, std::exchange(unacked_events_, 0));
  is_urgent_ = true;
  if (!is_gone_ && ibv_req_notify_cq(queue_, 0) != 0) return false;
  // Completions that came before arming ring no bell.
  return stash_completions() == 0 && stash_.empty() && ending_.empty() &&
         !has_deferred_.load(std::memory_order_acquire);
}

// Ports of different transports cannot reach each other.
std::string VerbsEndpoint::kind() const { return fmt::format("verbs/{}", transport_.name); }

std::string VerbsEndpoint::way_to(Bytes address) const {
  Address to;
  if (!read_address(address, device_->port.transport, to)) return {};
  char text[INET6_ADDRSTRLEN];
  const char* const ip = ::inet_ntop(to.family == 4 ? AF_INET : AF_INET6, to.ip, text, sizeof text);
  std::lock_guard lock(failure_lock_);
  return fmt::format(
      "verbs from {}:{} at {} to {} (WEFT_DEVICE chooses another port){}{}", device_->port.device,
      device_->port.number, device_->port.address, ip,
      last_failure_.empty() ? "" : ", where the last link could not be made: ", last_failure_);
}

Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint) {
  auto made = std::make_unique<VerbsEndpoint>(settings);
  if (Status status = made->start(); !status) return status;
  endpoint = std::move(made);
  return {};
}

}  // namespace weft::fabric::verbs
