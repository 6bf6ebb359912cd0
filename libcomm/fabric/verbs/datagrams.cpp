#include "fabric/verbs/datagrams.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "fabric/verbs/device.hpp"

namespace weft::verbs {
namespace {

// Enough for what arrives while this process does not run.
constexpr int kNumReceives = 512, kNumSends = 256;
// The head that the device writes before each datagram: a GRH, whose last 20 bytes are the IPv4
// header (InfiniBand Architecture Specification, annex A17.4.5.2).
constexpr std::size_t kHeadBytes = 40, kSourceAt = 32;

std::string text_of(std::uint32_t ipv4) {
  const in_addr raw{htonl(ipv4)};
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &raw, text, sizeof text);
}

class QueuePair final : public Datagrams {
 public:
  ~QueuePair() override {
    if (pair_ != nullptr) ibv_destroy_qp(pair_);
    if (address_handle_ != nullptr) ibv_destroy_ah(address_handle_);
    if (sent_ != nullptr) ibv_destroy_cq(sent_);
    if (received_ != nullptr) ibv_destroy_cq(received_);
    if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
    if (region_ != nullptr) ibv_dereg_mr(region_);
  }

  Status open(std::uint32_t own_ipv4, const DatagramPeer& peer, std::size_t max_bytes) {
    peer_ = peer;
    max_bytes_ = max_bytes;
    receive_bytes_ = kHeadBytes + max_bytes + 1;
    std::vector<Port> ports;
    if (Status found = find_ports(ports); !found) return found;
    const std::string address = text_of(own_ipv4);
    const auto port = std::ranges::find_if(ports, [&](const Port& one) {
      return one.why_unusable.empty() && one.transport == Transport::roce && one.address == address;
    });
    if (port == ports.end())
      return {Code::not_found, fmt::format("no RDMA device has the address {}", address)};
    if (Status opened = Device::open(*port, device_); !opened) return opened;
    if (!make()) {
      const int error = errno;
      return {Code::unsupported, fmt::format("{} gives no queue pair of datagrams: {}",
                                             port->device, std::strerror(error))};
    }
    return {};
  }

  void send(std::span<const std::byte> datagram) noexcept override {
    const std::lock_guard guard(mutex_);
    if (num_under_way_ == kNumSends) {
      ibv_wc done[32];
      num_under_way_ -= std::max(0, ibv_poll_cq(sent_, std::ssize(done), done));
      if (num_under_way_ == kNumSends) return;  // the datagram is lost
    }
    std::byte* slot = memory_.data() + kNumReceives * receive_bytes_ + next_send_ * max_bytes_;
    std::memcpy(slot, datagram.data(), datagram.size());
    ibv_sge piece{reinterpret_cast<std::uint64_t>(slot),
                  static_cast<std::uint32_t>(datagram.size()), region_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = address_handle_;
    request.wr.ud.remote_qpn = peer_.queue_pair;
    request.wr.ud.remote_qkey = peer_.queue_key;
    if (ibv_post_send(pair_, &request, &bad) != 0) return;
    next_send_ = (next_send_ + 1) % kNumSends;
    ++num_under_way_;
  }

  long receive(std::byte* room) noexcept override {
    ibv_wc done;
    if (ibv_poll_cq(received_, 1, &done) == 1) return take(done, room);
    // No datagram is here: arm the channel, so that the next one makes it readable, once.
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    if (is_armed_ && ibv_get_cq_event(channel_, &queue, &context) == 0) {
      ibv_ack_cq_events(received_, 1);
      is_armed_ = false;
    }
    if (!is_armed_) {
      is_armed_ = ibv_req_notify_cq(received_, 0) == 0;
      if (ibv_poll_cq(received_, 1, &done) == 1) return take(done, room);
    }
    return -1;
  }

  int descriptor() const noexcept override { return channel_->fd; }
  std::uint32_t queue_pair() const noexcept override { return pair_->qp_num; }
  const std::string& device() const noexcept override { return device_->port.device; }

 private:
  // Returns false with the reason in errno.
  bool make() {
    memory_.resize(kNumReceives * receive_bytes_ + kNumSends * max_bytes_);
    region_ = ibv_reg_mr(device_->pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    channel_ = ibv_create_comp_channel(device_->context);
    if (region_ == nullptr || channel_ == nullptr) return false;
    if (fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0) return false;
    received_ = ibv_create_cq(device_->context, kNumReceives, nullptr, channel_, 0);
    sent_ = ibv_create_cq(device_->context, kNumSends, nullptr, nullptr, 0);
    if (received_ == nullptr || sent_ == nullptr) return false;

    ibv_qp_init_attr wanted{};
    wanted.send_cq = sent_;
    wanted.recv_cq = received_;
    wanted.cap = {kNumSends, kNumReceives, 1, 1, 0};
    wanted.qp_type = IBV_QPT_UD;
    pair_ = ibv_create_qp(device_->pd, &wanted);
    if (pair_ == nullptr) return false;
    ibv_qp_attr state{};
    state.qp_state = IBV_QPS_INIT;
    state.port_num = static_cast<std::uint8_t>(device_->port.number);
    state.qkey = peer_.queue_key;
    const auto to = [&](ibv_qp_state next, int mask) {
      state.qp_state = next;
      const int error = ibv_modify_qp(pair_, &state, IBV_QP_STATE | mask);
      if (error != 0) errno = error;
      return error == 0;
    };
    if (!to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)) return false;
    for (std::size_t slot = 0; slot < kNumReceives; ++slot)
      if (!post_receive(slot)) return false;
    // Armed before a datagram can arrive: the channel is readable whenever one is here.
    is_armed_ = ibv_req_notify_cq(received_, 0) == 0;
    state.sq_psn = std::random_device()() & 0xffffff;
    if (!to(IBV_QPS_RTR, 0) || !to(IBV_QPS_RTS, IBV_QP_SQ_PSN)) return false;

    ibv_ah_attr route{};
    route.is_global = 1;
    route.port_num = static_cast<std::uint8_t>(device_->port.number);
    write_gid(peer_.ipv4, route.grh.dgid.raw);
    route.grh.sgid_index = static_cast<std::uint8_t>(device_->port.gid_index);
    route.grh.hop_limit = 64;
    address_handle_ = ibv_create_ah(device_->pd, &route);
    return address_handle_ != nullptr;
  }

  bool post_receive(std::size_t slot) noexcept {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(memory_.data() + slot * receive_bytes_),
                  static_cast<std::uint32_t>(receive_bytes_), region_->lkey};
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    const int error = ibv_post_recv(pair_, &request, &bad);
    if (error != 0) errno = error;
    return error == 0;
  }

  // As receive().
  long take(const ibv_wc& done, std::byte* room) noexcept {
    const std::byte* bytes = memory_.data() + done.wr_id * receive_bytes_;
    long length = 0;
    std::uint32_t source = 0;
    std::memcpy(&source, bytes + kSourceAt, sizeof source);
    if (done.status == IBV_WC_SUCCESS && done.byte_len > kHeadBytes &&
        (done.wc_flags & IBV_WC_GRH) != 0 && done.src_qp == peer_.queue_pair &&
        ntohl(source) == peer_.ipv4) {
      length = static_cast<long>(done.byte_len - kHeadBytes);
      std::memcpy(room, bytes + kHeadBytes, static_cast<std::size_t>(length));
    }
    if (done.status != IBV_WC_WR_FLUSH_ERR) (void)post_receive(done.wr_id);
    return length;
  }

  DatagramPeer peer_;
  std::size_t max_bytes_ = 0, receive_bytes_ = 0;
  std::unique_ptr<Device> device_;
  std::vector<std::byte> memory_;  // receive slots, then send slots
  ibv_mr* region_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq *received_ = nullptr, *sent_ = nullptr;
  ibv_qp* pair_ = nullptr;
  ibv_ah* address_handle_ = nullptr;
  bool is_armed_ = false;
  std::mutex mutex_;  // guards what send() uses
  std::size_t next_send_ = 0;
  int num_under_way_ = 0;
};

}  // namespace

void write_gid(std::uint32_t ipv4, std::span<std::uint8_t, 16> gid) {
  std::ranges::fill(gid, std::uint8_t{0});
  gid[10] = gid[11] = 0xff;
  const std::uint32_t raw = htonl(ipv4);
  std::memcpy(gid.data() + 12, &raw, sizeof raw);
}

std::unique_ptr<Datagrams> open_datagrams(std::uint32_t own_ipv4, const DatagramPeer& peer,
                                          std::size_t max_bytes, Status& status) {
  auto pair = std::make_unique<QueuePair>();
  status = pair->open(own_ipv4, peer, max_bytes);
  if (!status) return nullptr;
  return pair;
}

}  // namespace weft::verbs
