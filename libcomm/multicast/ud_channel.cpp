// Datagrams of a queue pair that librdmacm has had join a multicast group: over InfiniBand, whose
// subnet manager makes the group, or RoCE v2, where it is an IP multicast group.
#include <fcntl.h>
#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "multicast/channel.hpp"

namespace weft::mcast {

namespace {

constexpr auto kJoinFor = std::chrono::seconds(1);
constexpr std::uint32_t kNumReceives = 1024, kNumSends = 256;  // less where the device has less
constexpr std::uint32_t kAtOnce = 32;  // receives that are posted, and completions read, at a time
constexpr std::uint32_t kSignalEvery = 32;  // sends, of which the last one tells that all are done
// The device writes a GRH before each datagram (InfiniBand Architecture Specification, 11.4.1.2).
constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kPageBytes = std::size_t{64} << 10;  // the largest of any processor

class UdChannel : public Channel {
 public:
  ~UdChannel() override;
  Status open(const ChannelAddress& address, bool is_root);

  std::size_t datagram_max() const noexcept override { return datagram_max_; }
  std::size_t room() const noexcept override { return is_root_ ? ~std::size_t{0} : num_ - kAtOnce; }
  std::size_t send(std::span<const Datagram> datagrams, Status& status) override;
  bool receive(std::span<const std::byte>& datagram) override;
  pollfd waits_for() const noexcept override {
    return {is_broken_ ? -1 : completions_->fd, POLLIN, 0};
  }

 private:
  Status refused(const char* what) const {
    return {Code::unsupported,
            fmt::format("{} for multicast over {}: {}", what, device(), std::strerror(errno))};
  }
  const char* device() const {
    return id_ != nullptr && id_->verbs != nullptr ? ibv_get_device_name(id_->verbs->device)
                                                   : "RDMA";
  }
  Status join(const ChannelAddress& address);
  Status await_join();
  Status make_queues();
  bool reap(Status& status);
  bool post_receives(std::uint32_t count) noexcept;
  std::uint32_t poll() noexcept;
  std::uint32_t poll_or_arm() noexcept;

  bool is_root_ = false;
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  bool has_joined_ = false, is_attached_ = false;
  sockaddr_storage group_{};
  rdma_ud_param to_{};  // how to reach the group
  std::size_t datagram_max_ = 0, slot_bytes_ = 0;
  std::uint32_t num_ = 0;  // slots

  ibv_pd* domain_ = nullptr;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  ibv_mr* region_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_ah* handle_ = nullptr;
  bool is_armed_ = false;

  std::array<ibv_wc, kAtOnce> done_{};
  std::uint32_t num_done_ = 0, num_taken_ = 0;
  std::uint32_t next_ = 0;      // the slot of the next send; at receivers to be posted
  std::uint32_t num_used_ = 0;  // slots under way; at receivers not posted
  std::uint64_t num_posted_ = 0;
  bool is_broken_ = false;
};

UdChannel::~UdChannel() {
  if (is_attached_) ibv_detach_mcast(id_->qp, &to_.ah_attr.grh.dgid, to_.ah_attr.dlid);
  if (handle_ != nullptr) ibv_destroy_ah(handle_);
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  if (has_joined_) rdma_leave_multicast(id_, reinterpret_cast<sockaddr*>(&group_));
  if (queue_ != nullptr) ibv_destroy_cq(queue_);
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (id_ != nullptr) rdma_destroy_id(id_);
  if (events_ != nullptr) rdma_destroy_event_channel(events_);
}

Status UdChannel::join(const ChannelAddress& address) {
  if (address.group.storage.ss_family != address.local.storage.ss_family)
    return {Code::unsupported, "the multicast address is of another family than the interface's"};
  group_ = address.group.storage;
  sockaddr_storage local = address.local.storage;
  if (local.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(local).sin6_port = 0;
  else
    reinterpret_cast<sockaddr_in&>(local).sin_port = 0;
  events_ = rdma_create_event_channel();
  if (events_ == nullptr) return refused("no connection manager");
  if (rdma_create_id(events_, &id_, nullptr, RDMA_PS_UDP) != 0) return refused("no identifier");
  errno = ENODEV;
  if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&local)) != 0 || id_->verbs == nullptr)
    return refused("no device of the interface's address");
  if (fcntl(events_->fd, F_SETFL, fcntl(events_->fd, F_GETFL) | O_NONBLOCK) != 0)
    return refused("no waiting");
  if (rdma_join_multicast(id_, reinterpret_cast<sockaddr*>(&group_), nullptr) != 0)
    return refused("no joining");
  has_joined_ = true;
  return await_join();
}

Status UdChannel::await_join() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + kJoinFor;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(events_, &event) != 0) {
    if (errno != EAGAIN && errno != EINTR) return refused("no joining");
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) {
      errno = ETIMEDOUT;
      return refused("no answer of the subnet manager to joining");
    }
    pollfd wait{events_->fd, POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(left));
  }
  const bool is_joined = event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0;
  if (is_joined) to_ = event->param.ud;
  errno = event->status < 0 ? -event->status : ECONNABORTED;
  const Status failed = refused("no joining");
  rdma_ack_cm_event(event);
  return is_joined ? Status() : failed;
}

Status UdChannel::make_queues() {
  ibv_device_attr limits{};
  ibv_port_attr port{};
  if (ibv_query_device(id_->verbs, &limits) != 0 ||
      ibv_query_port(id_->verbs, id_->port_num, &port) != 0)
    return refused("no limits");
  datagram_max_ = std::size_t{128} << std::clamp<int>(port.active_mtu, IBV_MTU_256, IBV_MTU_4096);
  slot_bytes_ = datagram_max_ + (is_root_ ? 0 : kGrhBytes);
  num_ = std::min({is_root_ ? kNumSends : kNumReceives,
                   static_cast<std::uint32_t>(std::max(limits.max_qp_wr, 0)),
                   static_cast<std::uint32_t>(std::max(limits.max_cqe, 0))});
  if (num_ < 2 * kAtOnce)
    return {Code::unsupported, fmt::format("the queues of {} have only {} places", device(), num_)};
  // Whole pages of its own, which a child that is forked may lack.
  const std::size_t bytes = (num_ * slot_bytes_ + kPageBytes - 1) / kPageBytes * kPageBytes;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes)));
  if (memory_ == nullptr) return refused("no memory");
  domain_ = ibv_alloc_pd(id_->verbs);
  if (domain_ == nullptr) return refused("no protection domain");
  // The Node, which has this device or another, has seen to forks.
  region_ = ibv_reg_mr(domain_, memory_.get(), bytes, IBV_ACCESS_LOCAL_WRITE);
  if (region_ == nullptr) return refused("no registered memory (ulimit -l)");
  completions_ = ibv_create_comp_channel(id_->verbs);
  if (completions_ == nullptr ||
      fcntl(completions_->fd, F_SETFL, fcntl(completions_->fd, F_GETFL) | O_NONBLOCK) != 0)
    return refused("no completion channel");
  queue_ = ibv_create_cq(id_->verbs, static_cast<int>(num_), nullptr, completions_, 0);
  if (queue_ == nullptr) return refused("no completion queue");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_;
  wanted.cap = {is_root_ ? num_ : 1, is_root_ ? 1 : num_, 1, 1, 0};
  wanted.qp_type = IBV_QPT_UD;
  if (rdma_create_qp(id_, domain_, &wanted) != 0) return refused("no queue pair");
  return {};
}

Status UdChannel::open(const ChannelAddress& address, bool is_root) {
  is_root_ = is_root;
  if (Status status = join(address); !status) return status;
  if (Status status = make_queues(); !status) return status;
  if (is_root_) {
    handle_ = ibv_create_ah(domain_, &to_.ah_attr);
    return handle_ == nullptr ? refused("no address handle") : Status();
  }
  num_used_ = num_;
  if (!post_receives(num_)) return refused("no receiving");
  if (errno = ibv_attach_mcast(id_->qp, &to_.ah_attr.grh.dgid, to_.ah_attr.dlid); errno != 0)
    return refused("no attaching");
  is_attached_ = true;
  return {};
}

std::size_t UdChannel::send(std::span<const Datagram> datagrams, Status& status) {
  std::array<ibv_sge, kAtOnce> pieces;
  std::array<ibv_send_wr, kAtOnce> requests{};
  std::size_t num_sent = 0;
  while (num_sent < datagrams.size()) {
    if (num_used_ == num_ && !reap(status)) return num_sent;
    const auto count = static_cast<std::uint32_t>(
        std::min<std::size_t>(datagrams.size() - num_sent, std::min(num_ - num_used_, kAtOnce)));
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& [head, body] = datagrams[num_sent + i];
      std::byte* slot = memory_.get() + (next_ + i) % num_ * slot_bytes_;
      std::ranges::copy(body, std::ranges::copy(head, slot).out);
      pieces[i] = {reinterpret_cast<std::uint64_t>(slot),
                   static_cast<std::uint32_t>(head.size() + body.size()), region_->lkey};
      ibv_send_wr& request = requests[i];
      request.next = i + 1 < count ? &requests[i + 1] : nullptr;
      request.sg_list = &pieces[i];
      request.num_sge = 1;
      request.opcode = IBV_WR_SEND;
      request.send_flags = (num_posted_ + i + 1) % kSignalEvery == 0 ? IBV_SEND_SIGNALED : 0;
      request.wr.ud.ah = handle_;
      request.wr.ud.remote_qpn = to_.qp_num;
      request.wr.ud.remote_qkey = to_.qkey;
    }
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(id_->qp, requests.data(), &bad);
    const std::uint32_t posted =
        errno == 0 ? count : static_cast<std::uint32_t>(bad - requests.data());
    next_ = (next_ + posted) % num_;
    num_used_ += posted;
    num_posted_ += posted;
    num_sent += posted;
    if (posted < count) {
      status = errno == ENOMEM ? Status(Code::no_memory) : refused("no sending");
      return num_sent;
    }
  }
  return num_sent;
}

// False: no slot has become free.
bool UdChannel::reap(Status& status) {
  status = Code::again;
  const std::uint32_t count = poll_or_arm();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (done_[i].status != IBV_WC_SUCCESS) {
      status = {Code::unsupported, fmt::format("no sending for multicast over {}: {}", device(),
                                               ibv_wc_status_str(done_[i].status))};
      return false;
    }
    num_used_ -= kSignalEvery;
  }
  return count > 0;
}

// Posts the next slots, which have been taken in the order of posting.
bool UdChannel::post_receives(std::uint32_t count) noexcept {
  std::array<ibv_sge, kAtOnce> pieces;
  std::array<ibv_recv_wr, kAtOnce> requests;
  while (count > 0) {
    const std::uint32_t some = std::min(count, kAtOnce);
    for (std::uint32_t i = 0; i < some; ++i) {
      const std::uint32_t slot = (next_ + i) % num_;
      pieces[i] = {reinterpret_cast<std::uint64_t>(memory_.get() + slot * slot_bytes_),
                   static_cast<std::uint32_t>(slot_bytes_), region_->lkey};
      requests[i] = {slot, i + 1 < some ? &requests[i + 1] : nullptr, &pieces[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    if (errno = ibv_post_recv(id_->qp, requests.data(), &bad); errno != 0) return false;
    next_ = (next_ + some) % num_;
    num_used_ -= some;
    count -= some;
  }
  return true;
}

std::uint32_t UdChannel::poll() noexcept {
  return static_cast<std::uint32_t>(
      std::max(0, ibv_poll_cq(queue_, static_cast<int>(kAtOnce), done_.data())));
}

// Nothing is here: the next completion makes the completion channel readable, once.
std::uint32_t UdChannel::poll_or_arm() noexcept {
  if (const std::uint32_t count = poll(); count > 0) return count;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (is_armed_ && ibv_get_cq_event(completions_, &queue, &context) == 0) {
    ibv_ack_cq_events(queue_, 1);
    is_armed_ = false;
  }
  if (is_armed_) return 0;
  is_armed_ = ibv_req_notify_cq(queue_, 0) == 0;
  return poll();  // what came before it was armed
}

bool UdChannel::receive(std::span<const std::byte>& datagram) {
  while (!is_broken_) {
    if (num_taken_ == num_done_) {
      // The last datagram of the last batch is no longer in use.
      if (num_used_ > 0 && !post_receives(num_used_)) return false;
      num_taken_ = 0;
      num_done_ = poll_or_arm();
      if (num_done_ == 0) return false;
    }
    const ibv_wc& done = done_[num_taken_++];
    ++num_used_;
    // A queue pair that has failed gives back whatever is posted to it.
    is_broken_ = done.status != IBV_WC_SUCCESS;
    if (is_broken_ || done.byte_len <= kGrhBytes) continue;
    datagram = {memory_.get() + done.wr_id * slot_bytes_ + kGrhBytes, done.byte_len - kGrhBytes};
    return true;
  }
  return false;
}

}  // namespace

Status open_ud_channel(const ChannelAddress& address, bool is_root,
                       std::unique_ptr<Channel>& channel) {
  auto made = std::make_unique<UdChannel>();
  if (Status status = made->open(address, is_root); !status) return status;
  channel = std::move(made);
  return {};
}

}  // namespace weft::mcast
