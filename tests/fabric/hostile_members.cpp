#include "tests/fabric/hostile_members.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <sstream>

namespace weft {
namespace {

using namespace verbs;

constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
constexpr std::size_t kReceives = 512;
constexpr std::size_t kReceiveAt = HostileMembers::kTargetBytes;
constexpr std::size_t kSendAt = kReceiveAt + kReceives * sizeof(Control);
constexpr std::size_t kSendBytes = 8192;
constexpr std::uint8_t kAckTimeout = 14;  // 4.096 us * 2^this, 67 ms

sockaddr_in address_of(const std::string& text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  REQUIRE(inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1);
  return address;
}

// Of a request and of its acceptance, which has no use for the count of retries.
rdma_conn_param parameters_with(const Hello& hello) {
  rdma_conn_param parameters{};
  parameters.private_data = &hello;
  parameters.private_data_len = sizeof hello;
  parameters.responder_resources = parameters.initiator_depth = 16;
  parameters.retry_count = 6;
  parameters.rnr_retry_count = 7;
  return parameters;
}

}  // namespace

HostileMembers::HostileMembers(const Port& port, int first, int count, bool takes_messages)
    : first_(first),
      members_(static_cast<std::size_t>(count)),
      address_(port.address),
      memory_(new std::byte[kSendAt + kSendBytes]()) {
  for (int i = 0; i < count; ++i) {
    HostileMember& member = members_[static_cast<std::size_t>(i)];
    member.rank = first + i;
    member.key[0] = member.key[1] = 0x1000u + static_cast<unsigned>(i);
  }
  events_ = rdma_create_event_channel();
  REQUIRE(events_ != nullptr);
  fcntl(events_->fd, F_SETFL, O_NONBLOCK);
  sockaddr_in own = address_of(address_, 0);
  REQUIRE(rdma_create_id(events_, &listener_, nullptr, RDMA_PS_TCP) == 0);
  REQUIRE(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&own)) == 0);
  REQUIRE(rdma_listen(listener_, 64) == 0);
  pd_ = ibv_alloc_pd(listener_->verbs);
  queue_ = ibv_create_cq(listener_->verbs, 2048, nullptr, nullptr, 0);
  ibv_srq_init_attr init{};
  init.attr.max_wr = kReceives;
  init.attr.max_sge = 1;
  receives_ = ibv_create_srq(pd_, &init);
  mr_ = ibv_reg_mr(pd_, memory_.get(), kSendAt + kSendBytes,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC);
  REQUIRE((queue_ != nullptr && receives_ != nullptr && mr_ != nullptr));
  if (!takes_messages) return;
  for (std::uint64_t i = 0; i < kReceives; ++i) post_receive(i);
}

HostileMembers::~HostileMembers() {
  for (HostileMember& member : members_) drop(member);
  (void)ibv_dereg_mr(mr_);
  (void)ibv_destroy_srq(receives_);
  (void)ibv_destroy_cq(queue_);
  (void)ibv_dealloc_pd(pd_);
  rdma_destroy_id(listener_);
  rdma_destroy_event_channel(events_);
}

void HostileMembers::publish(Job& job) const {
  const HostileMember& member = members_[static_cast<std::size_t>(job.rank() - first_)];
  (void)job.board().put("verbs.address", fmt::format("roce {} {} {:x} {:x}", address_,
                                                     ntohs(rdma_get_src_port(listener_)),
                                                     member.key[0], member.key[1]));
}

void HostileMembers::set_victim(Job& job, int rank) {
  std::string text, kind;
  REQUIRE(job.board().get(rank, "verbs.address", text).ok());
  std::istringstream words(text);
  words >> kind >> victims_address_ >> victims_port_ >> std::hex >> victims_key_[0] >>
      victims_key_[1];
  REQUIRE(words);
}

Hello HostileMembers::hello(HostileMember& member) {
  return {kMagic,
          kVersion,
          static_cast<std::uint32_t>(member.rank),
          16,
          {victims_key_[0], victims_key_[1]},
          member.received,
          member.attempts};
}

std::byte* HostileMembers::sent() { return memory_.get() + kSendAt; }

void HostileMembers::drop(HostileMember& member) {
  member.is_up = false;
  member.num_sending = 0;
  if (member.id == nullptr) return;
  if (member.id->qp != nullptr) rdma_destroy_qp(member.id);
  rdma_destroy_id(member.id);
  member.id = nullptr;
}

void HostileMembers::ask(HostileMember& member) {
  poll();  // what the old queue pair has received counts
  drop(member);
  member.was_refused = false;
  ++member.attempts;
  sockaddr_in from = address_of(address_, 0), to = address_of(victims_address_, victims_port_);
  REQUIRE(rdma_create_id(events_, &member.id, &member, RDMA_PS_TCP) == 0);
  REQUIRE(rdma_resolve_addr(member.id, reinterpret_cast<sockaddr*>(&from),
                            reinterpret_cast<sockaddr*>(&to), 2000) == 0);
}

// False: the other end has given the connection up meanwhile.
bool HostileMembers::make_queue_pair(HostileMember& member) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = queue_;
  init.srq = receives_;
  init.sq_sig_all = 1;
  init.cap.max_send_wr = kMaxSending;
  init.cap.max_send_sge = 1;
  init.cap.max_inline_data = 64;
  if (rdma_create_qp(member.id, pd_, &init) != 0) {
    drop(member);
    member.was_refused = true;
    return false;
  }
  // A queue pair of the victim's that has ended is silent; the usual time is half a minute.
  std::uint8_t timeout = kAckTimeout;
  (void)rdma_set_option(member.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                        sizeof timeout);
  return true;
}

void HostileMembers::post_receive(std::uint64_t index) {
  ibv_sge piece{
      reinterpret_cast<std::uintptr_t>(memory_.get()) + kReceiveAt + index * sizeof(Control),
      sizeof(Control), mr_->lkey};
  ibv_recv_wr request{kReceiveBit | index, nullptr, &piece, 1};
  ibv_recv_wr* bad = nullptr;
  (void)ibv_post_srq_recv(receives_, &request, &bad);
}

bool HostileMembers::post(HostileMember& member, ibv_send_wr& request, std::size_t bytes,
                          const void* data) {
  if (!member.is_up || member.num_sending == kMaxSending) return false;
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory_.get()) + kSendAt,
                static_cast<std::uint32_t>(bytes), mr_->lkey};
  if (data != nullptr && bytes <= 64) {
    piece.addr = reinterpret_cast<std::uintptr_t>(data);
    request.send_flags = IBV_SEND_INLINE;
  }
  request.wr_id = static_cast<std::uint64_t>(member.rank);
  if (bytes != 0) {
    request.sg_list = &piece;
    request.num_sge = 1;
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(member.id->qp, &request, &bad) != 0) return false;
  ++member.num_sending;
  return true;
}

bool HostileMembers::send(HostileMember& member, const void* data, std::size_t bytes) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  return post(member, request, bytes, data);
}

bool HostileMembers::write(HostileMember& member, std::uint64_t address, std::uint32_t key,
                           std::size_t bytes, const std::uint32_t* immediate) {
  ibv_send_wr request{};
  request.opcode = immediate != nullptr ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  if (immediate != nullptr) request.imm_data = htonl(*immediate);
  request.wr.rdma = {address, key};
  return post(member, request, std::min(bytes, kSendBytes), nullptr);
}

void HostileMembers::poll() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(events_, &event) == 0) {
    rdma_cm_event copy = *event;
    std::byte data[256];
    const std::size_t bytes =
        copy.param.conn.private_data == nullptr
            ? 0
            : std::min<std::size_t>(copy.param.conn.private_data_len, sizeof data);
    if (bytes > 0) std::memcpy(data, copy.param.conn.private_data, bytes);
    rdma_ack_cm_event(event);
    on_event(copy, data, bytes);
  }
  ibv_wc completions[32];
  for (int count; (count = ibv_poll_cq(queue_, 32, completions)) > 0;)
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = completions[i];
      const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& member) {
        return member.id != nullptr && member.id->qp != nullptr &&
               member.id->qp->qp_num == wc.qp_num;
      });
      if ((wc.wr_id & kReceiveBit) != 0) {
        const std::uint64_t index = wc.wr_id & ~kReceiveBit;
        Control control;
        std::memcpy(&control, memory_.get() + kReceiveAt + index * sizeof control, sizeof control);
        post_receive(index);
        if (found == members_.end() || wc.status != IBV_WC_SUCCESS) continue;
        ++found->received;
        found->is_up = true;  // whatever the event that says so is doing
        if (wc.opcode == IBV_WC_RECV && wc.byte_len == sizeof control) on_control(*found, control);
      } else if (found != members_.end()) {
        --found->num_sending;
        if (wc.status != IBV_WC_SUCCESS) found->is_up = false;
      }
    }
}

void HostileMembers::on_event(rdma_cm_event& event, const void* data, std::size_t bytes) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    Hello asked{};
    if (bytes >= sizeof asked) std::memcpy(&asked, data, sizeof asked);
    const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& member) {
      return member.key[0] == asked.key[0];
    });
    if (found == members_.end() || !answers_requests) {
      (void)rdma_reject(event.id, nullptr, 0);
      rdma_destroy_id(event.id);
      return;
    }
    drop(*found);
    found->id = event.id;
    found->id->context = &*found;
    if (!make_queue_pair(*found)) return;
    const Hello answer = hello(*found);
    rdma_conn_param parameters = parameters_with(answer);
    (void)rdma_accept(found->id, &parameters);
    return;
  }
  auto* member = static_cast<HostileMember*>(event.id->context);
  if (member == nullptr || member->id != event.id) return;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      (void)rdma_resolve_route(member->id, 2000);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      if (!make_queue_pair(*member)) return;
      const Hello request = hello(*member);
      rdma_conn_param parameters = parameters_with(request);
      (void)rdma_connect(member->id, &parameters);
      return;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      member->is_up = true;
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      member->is_up = false;
      return;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      member->is_up = false;
      member->was_refused = true;
      return;
    default:
      return;
  }
}

void HostileMembers::on_control(HostileMember& member, const Control& control) {
  if (control.kind == ControlKind::here) return;  // comes if the victim is who asked
  member.heard.push_front(control);
  if (member.heard.size() > kMaxHeard) member.heard.pop_back();
  ++member.num_heard;
  if (!answers_controls) return;
  Control answer{};
  answer.rank = static_cast<std::uint32_t>(member.rank);
  answer.lane = control.lane;
  answer.key = control.key;
  const auto target = reinterpret_cast<std::uintptr_t>(memory_.get());
  switch (control.kind) {
    case ControlKind::open:
      answer.kind = ControlKind::opened;
      answer.a = control.lane;  // its number at both ends
      answer.b = target;
      answer.key = mr_->rkey;
      break;
    case ControlKind::grow:
      answer.kind = ControlKind::grown;
      answer.a = control.a;
      answer.key = mr_->rkey;
      break;
    case ControlKind::look:
      answer.kind = ControlKind::found;
      answer.flags[0] = found_flags;
      answer.a = kTargetBytes;
      answer.b = target;
      break;
    case ControlKind::gone:
      answer.kind = ControlKind::forgotten;
      break;
    case ControlKind::cas:
    case ControlKind::fetch_add:
      answer.kind = ControlKind::changed;
      answer.lane = control.a;
      break;
    default:
      return;
  }
  (void)send(member, answer);
}

}  // namespace weft
