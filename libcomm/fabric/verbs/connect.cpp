// Connections, made by librdmacm at first need.
//
// Each process listens on a port that it publishes on the job's board together with a key, and asks
// the others there. Whoever does not know the key of the one asked is refused. When two ask each
// other at once, the request of the lower rank counts: it refuses the other's with kMineGoesFirst,
// and the higher rank drops its own when the lower one's arrives. A request from a peer that is
// connected, or being answered, says that it has given that queue pair up: it is taken down here
// too (mending.cpp), and the peer asks again. So there is one connection per pair at most, and
// neither waits for the other without a deadline.
//
// The queue pair is this file's, not librdmacm's, as its timeouts follow WEFT_PEER_TIMEOUT_MS.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "fabric/verbs/handshake.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {
namespace {

// The device repeats a request that is not acknowledged, this often. 7 would mean "for ever" to
// the kernel's software device.
constexpr int kRepeats = 6;
constexpr int kRepeatWhileFull = 7;          // receiver has no receive posted: for ever, it lives
constexpr std::uint8_t kWaitWhileFull = 12;  // 0.64 ms
constexpr int kResolveMs = 2000;
constexpr std::uint64_t kAgainNs = 100'000'000;
constexpr int kNobodyListens = 8;  // InfiniBand's reason for a rejection: invalid service

// Guards a sockaddr of either family.
bool parse_address(const std::string& text, int port, int scope, sockaddr_storage& address) {
  address = {};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    return true;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<std::uint16_t>(port));
  v6->sin6_scope_id = static_cast<std::uint32_t>(scope);
  return true;
}

std::string source_of(rdma_cm_id* id) {
  char text[INET6_ADDRSTRLEN] = "?";
  const sockaddr* address = rdma_get_peer_addr(id);
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  return text;
}

void refuse(rdma_cm_id* id, std::uint32_t reason) {
  const Refusal refusal{kMagic, reason};
  (void)rdma_reject(id, &refusal, sizeof refusal);
  rdma_destroy_id(id);
}

}  // namespace

std::string VerbsFabric::both_ends(int peer) const {
  const Address& theirs = addresses_[static_cast<std::size_t>(peer)];
  return fmt::format("{} at {} port {} from {} at {} ({}:{})", job_.describe(peer), theirs.address,
                     theirs.port, job_.describe(job_.rank()), device_->port.address,
                     device_->port.device, device_->port.number);
}

Status VerbsFabric::start_listening() {
  events_ = rdma_create_event_channel();
  if (events_ == nullptr)
    return {Code::unsupported,
            fmt::format("librdmacm does not work here: {} (is the module rdma_ucm loaded, and "
                        "/dev/infiniband/rdma_cm there?)",
                        std::strerror(errno))};
  sockaddr_storage address{};
  if (!parse_address(device_->port.address, 0, device_->port.scope, address))
    return {Code::internal, fmt::format("'{}' is no address", device_->port.address)};
  if (rdma_create_id(events_, &listener_, nullptr, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)) != 0 ||
      rdma_listen(listener_, 256) != 0)
    return {Code::unsupported, fmt::format("cannot listen at {} of {}: {}", device_->port.address,
                                           device_->port.device, std::strerror(errno))};
  return {};
}

void VerbsFabric::begin_connecting(Connection& connection) {
  if (connection.state != Connection::idle) return;
  connection.deadline_ns = now_ns() + patience_ns_;
  num_asking_.fetch_add(1, std::memory_order_relaxed);
  ask(connection);
}

void VerbsFabric::ask(Connection& connection) {
  connection.state = Connection::asking;
  ++connection.attempts;
  connection.attempt_ns =
      now_ns() + (connection.mending
                      ? peer_timeout_ns_ / 10
                      : std::max<std::uint64_t>(peer_timeout_ns_ / 4, 1'000'000'000));
  if (!device_->port_is_active()) return attempt_failed(connection, "this host's port is down");
  const Address& theirs = address_of(connection.peer);
  sockaddr_storage from{}, to{};
  if (!parse_address(device_->port.address, 0, device_->port.scope, from) ||
      !parse_address(theirs.address, theirs.port, device_->port.scope, to))
    return attempt_failed(connection, "no usable address");
  if (rdma_create_id(events_, &connection.id, &connection, RDMA_PS_TCP) != 0) {
    connection.id = nullptr;
    return attempt_failed(connection, fmt::format("rdma_create_id: {}", std::strerror(errno)));
  }
  if (rdma_resolve_addr(connection.id, reinterpret_cast<sockaddr*>(&from),
                        reinterpret_cast<sockaddr*>(&to), kResolveMs) != 0)
    attempt_failed(connection, fmt::format("rdma_resolve_addr: {}", std::strerror(errno)));
}

rdma_conn_param VerbsFabric::parameters(const Connection& connection, const Hello& hello) const {
  rdma_conn_param parameters{};
  parameters.private_data = &hello;
  parameters.private_data_len = sizeof hello;
  parameters.responder_resources = parameters.initiator_depth =
      static_cast<std::uint8_t>(hello.read_depth);
  parameters.retry_count = kRepeats;
  parameters.rnr_retry_count = kRepeatWhileFull;
  parameters.srq = 1;
  parameters.qp_num = connection.qp_number;
  return parameters;
}

Hello VerbsFabric::hello_to(const Connection& connection) const {
  const Address& theirs = address_of(connection.peer);
  return {kMagic,
          kVersion,
          static_cast<std::uint32_t>(job_.rank()),
          static_cast<std::uint32_t>(
              std::clamp(device_->limits.max_qp_rd_atom, 1, static_cast<int>(kMaxReadDepth))),
          {theirs.key[0], theirs.key[1]},
          connection.received,
          connection.attempts};
}

// For one more queue pair: a completion queue that overruns ends the connections with all peers.
Status VerbsFabric::make_room_for_completions() {
  // Every receive and every request of every queue pair may end at once, when a host goes away.
  const int need = static_cast<int>(num_receives_) + (queue_pairs_ + 1) * static_cast<int>(kDepth);
  const int error = device_->make_room(*queue_, need);
  if (error == 0) return {};
  const int limit = device_->limits.max_cqe;
  return {Code::no_memory,
          fmt::format("the completion queue of {} has no room for more than {} connections: it has "
                      "{} entries and {} (let each process talk to fewer others, or set "
                      "WEFT_FABRIC=ofi)",
                      device_->port.device, queue_pairs_, queue_->cqe,
                      need > limit ? fmt::format("the device allows {}", limit)
                                   : fmt::format("gets no more: {}{}", std::strerror(error),
                                                 error == ENOMEM ? ", see ulimit -l" : ""))};
}

Status VerbsFabric::make_queue_pair(Connection& connection) {
  if (connection.log == nullptr) connection.log = std::make_unique<Posted[]>(kSlots);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = queue_;
  init.srq = receives_;
  init.cap.max_send_wr = kDepth;
  init.cap.max_send_sge = 1;
  init.cap.max_inline_data = max_inline_;
  connection.qp = ibv_create_qp(device_->pd, &init);
  if (connection.qp == nullptr)
    return {Code::no_memory, fmt::format("{} gives no queue pair: {} ({} are in use)",
                                         device_->port.device, std::strerror(errno), queue_pairs_)};
  ++queue_pairs_;
  connection.qp_number = connection.qp->qp_num;
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(connection.id, &attributes, &mask) != 0)
    return {Code::internal, fmt::format("rdma_init_qp_attr: {}", std::strerror(errno))};
  attributes.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (const int error = ibv_modify_qp(connection.qp, &attributes, mask); error != 0)
    return {Code::internal, fmt::format("a queue pair's start: {}", std::strerror(error))};
  return {};
}

Status VerbsFabric::bring_up(Connection& connection, std::uint32_t read_depth) {
  const auto own = [&](int limit) {
    return static_cast<std::uint8_t>(std::clamp(limit, 1, static_cast<int>(kMaxReadDepth)));
  };
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  if (rdma_init_qp_attr(connection.id, &attributes, &mask) != 0)
    return {Code::internal, fmt::format("rdma_init_qp_attr: {}", std::strerror(errno))};
  attributes.max_dest_rd_atomic = own(device_->limits.max_qp_rd_atom);
  attributes.min_rnr_timer = kWaitWhileFull;
  if (const int error = ibv_modify_qp(connection.qp, &attributes, mask); error != 0)
    return {Code::internal,
            fmt::format("a queue pair, ready to receive: {}", std::strerror(error))};
  attributes = {};
  mask = 0;
  attributes.qp_state = IBV_QPS_RTS;
  if (rdma_init_qp_attr(connection.id, &attributes, &mask) != 0)
    return {Code::internal, fmt::format("rdma_init_qp_attr: {}", std::strerror(errno))};
  connection.read_depth = std::min<std::uint32_t>(own(device_->limits.max_qp_init_rd_atom),
                                                  own(static_cast<int>(read_depth)));
  attributes.max_rd_atomic = static_cast<std::uint8_t>(connection.read_depth);
  attributes.timeout = ack_timeout_;
  attributes.retry_cnt = kRepeats;
  attributes.rnr_retry = kRepeatWhileFull;
  if (const int error = ibv_modify_qp(connection.qp, &attributes, mask); error != 0)
    return {Code::internal, fmt::format("a queue pair, ready to send: {}", std::strerror(error))};
  return {};
}

void VerbsFabric::become_ready(Connection& connection) {
  num_asking_.fetch_sub(1, std::memory_order_relaxed);
  connection.heard_ns.store(now_ns(), std::memory_order_relaxed);
  std::string wrong;
  {
    // Nobody posts before what is to be repeated.
    const std::lock_guard lock(connection.lock);
    connection.probing = false;
    connection.why.clear();
    // release: the queue pair before the state; pairs with the acquire of those who post.
    connection.state.store(Connection::ready, std::memory_order_release);
    if (connection.mending) wrong = replay(connection);
    connection.mending.store(false, std::memory_order_relaxed);
  }
  if (!wrong.empty()) return fail(connection, wrong);
  ring_all();  // whoever had no room may have some
  open_waiting_lanes(connection);
  push(connection);
}

// Destroying an id tells the other end. While the link is down that must not be tried: the queue
// pair that rxe sends such messages through would fail for the whole host, for ever (kernel 6.1).
void VerbsFabric::give_up(rdma_cm_id* id) {
  id->context = nullptr;
  if (device_->port_is_active())
    rdma_destroy_id(id);
  else
    given_up_.push_back(id);
}

// Takes down what an attempt has made. The state is the caller's to set.
void VerbsFabric::end_attempt(Connection& connection) {
  if (connection.qp != nullptr) {
    reaper_.destroy(connection.qp);
    --queue_pairs_;
  }
  if (connection.id != nullptr) give_up(connection.id);
  connection.qp = nullptr;
  connection.qp_number = 0;
  connection.id = nullptr;
}

void VerbsFabric::attempt_failed(Connection& connection, std::string_view why) {
  end_attempt(connection);
  const std::uint64_t now = now_ns();
  if (now >= connection.deadline_ns) {
    num_asking_.fetch_sub(1, std::memory_order_relaxed);
    if (connection.mending)
      return fail(connection, fmt::format("{}, and not mended within {} ms: {}", connection.broke,
                                          patience_ns_ / 1'000'000, why));
    // What needs it ends as if the peer had died, with its name alone.
    return fail(connection,
                fmt::format("no connection within {} ms: {} (do these addresses reach each other? "
                            "WEFT_DEVICE chooses another port, WEFT_FABRIC=ofi another way)",
                            patience_ns_ / 1'000'000, why),
                LogLevel::warn);
  }
  connection.why = why;
  connection.state = Connection::waiting;
  connection.attempt_ns = now + kAgainNs;
}

// Deadlines of what is in the making.
void VerbsFabric::check_attempts(std::uint64_t now) {
  for (Connection& connection : connections_) {
    const auto state = connection.state.load(std::memory_order_relaxed);
    if (state != Connection::asking && state != Connection::waiting &&
        state != Connection::answering)
      continue;
    if (connection.break_ != Connection::none) continue;
    if (now >= connection.deadline_ns) {
      attempt_failed(connection,
                     connection.why.empty() ? "no answer" : std::string(connection.why));
    } else if (state != Connection::answering && now >= connection.attempt_ns) {
      end_attempt(connection);
      ask(connection);
    }
  }
}

void VerbsFabric::poll_events() {
  const std::lock_guard lock(setup_);
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(events_, &event) == 0) {
    // An event must be given back before its id may be destroyed: work on copies.
    rdma_cm_event copy = *event;
    std::byte data[256];
    const std::size_t bytes = copy.param.conn.private_data == nullptr
                                  ? 0
                                  : std::min<std::size_t>(copy.param.conn.private_data_len, 256);
    if (bytes > 0) std::memcpy(data, copy.param.conn.private_data, bytes);
    rdma_ack_cm_event(event);
    on_event(copy, data, bytes);
  }
  const std::uint64_t now = now_ns();
  if (num_asking_.load(std::memory_order_relaxed) > 0) check_attempts(now);
  look_after_peers(now);
  if (!closed_rings_.empty() || !closed_mirrors_.empty()) free_closed_lanes();
  if (!given_up_.empty() && device_->port_is_active())
    for (rdma_cm_id* id : std::exchange(given_up_, {})) rdma_destroy_id(id);

  ibv_async_event async;
  while (ibv_get_async_event(device_->context, &async) == 0) {
    const ibv_event_type type = async.event_type;
    ibv_ack_async_event(&async);
    if (type == IBV_EVENT_CQ_ERR)  // no completion comes any more, whoever the peer is
      for (Connection& connection : connections_)
        if (connection.peer != job_.rank())
          end_connection(connection, "this process's completion queue failed", LogLevel::warn);
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_DEVICE_FATAL)
      log_line(LogLevel::warn, job_.rank(), "{}:{}: {} (what is not answered within {} ms is lost)",
               device_->port.device, device_->port.number, ibv_event_type_str(type),
               peer_timeout_ns_ / 1'000'000);
  }
}

void VerbsFabric::on_event(rdma_cm_event& event, const void* data, std::size_t bytes) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event, data, bytes);
  auto* context = static_cast<Connection*>(event.id->context);
  if (context == nullptr || context->id != event.id) return;
  Connection& connection = *context;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(connection.id, kResolveMs) != 0)
        attempt_failed(connection, fmt::format("rdma_resolve_route: {}", std::strerror(errno)));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      if (Status status = make_room_for_completions(); !status)
        return end_connection(connection, status.text(), LogLevel::warn);
      if (Status status = make_queue_pair(connection); !status)
        return attempt_failed(connection, status.text());
      const Hello hello = hello_to(connection);
      rdma_conn_param request = parameters(connection, hello);
      if (rdma_connect(connection.id, &request) != 0)
        attempt_failed(connection, fmt::format("rdma_connect: {}", std::strerror(errno)));
      return;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      Hello answer;
      if (!read_hello(data, bytes, own_key_, connections_.size(), answer) ||
          answer.rank != static_cast<std::uint32_t>(connection.peer))
        return attempt_failed(connection, "somebody else answers there");
      if (Status status = bring_up(connection, answer.read_depth); !status)
        return attempt_failed(connection, status.text());
      if (rdma_establish(connection.id) != 0)
        return attempt_failed(connection, fmt::format("rdma_establish: {}", std::strerror(errno)));
      connection.peer_received = answer.received;
      connection.peer_attempts = answer.attempt;
      become_ready(connection);
      return send_control(connection, {ControlKind::here, {}, 0, 0, 0, 0, 0, 0});
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      if (connection.state == Connection::answering) become_ready(connection);
      return;
    case RDMA_CM_EVENT_REJECTED:
      return on_refused(connection, event.status, data, bytes);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
      if (connection.state == Connection::ready || connection.state == Connection::failed) return;
      if (connection.state == Connection::answering)
        return note_break(connection, Connection::unanswered);
      return attempt_failed(connection,
                            fmt::format("{} ({})", rdma_event_str(event.event),
                                        event.status < 0 ? std::strerror(-event.status)
                                                         : fmt::format("{}", event.status)));
    case RDMA_CM_EVENT_DISCONNECTED:
      if (connection.state == Connection::ready || connection.state == Connection::answering)
        note_break(connection, Connection::hung_up);
      else if (connection.state != Connection::failed)
        attempt_failed(connection, "it hung up");
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return end_connection(connection, "the RDMA device was removed", LogLevel::warn);
    default:
      return;
  }
}

void VerbsFabric::on_refused(Connection& connection, int status, const void* data,
                             std::size_t bytes) {
  if (connection.state != Connection::asking) return;
  const std::uint32_t reason = read_refusal(data, bytes);
  if (reason == kMineGoesFirst) {
    end_attempt(connection);
    connection.state = Connection::waiting;  // until attempt_ns
    return;
  }
  if (reason == kAskAgain) return attempt_failed(connection, "it is not ready for another");
  if (reason == 0 && status != kNobodyListens)
    return attempt_failed(connection, fmt::format("refused ({})", status));
  end_attempt(connection);
  num_asking_.fetch_sub(1, std::memory_order_relaxed);
  if (connection.mending && (reason == kStranger || reason == 0))
    return fail(connection, "its process has ended");
  fail(connection, reason == kStranger ? "it takes this process for a stranger (wrong job key)"
                   : reason == kGone   ? "it takes this process for lost"
                   : reason == kNoRoom ? "it has no room for another connection"
                                       : "no process listens there any more");
}

void VerbsFabric::on_request(rdma_cm_event& event, const void* data, std::size_t bytes) {
  rdma_cm_id* id = event.id;
  Hello hello;
  if (!read_hello(data, bytes, own_key_, connections_.size(), hello) ||
      address_of(static_cast<int>(hello.rank)).state != Address::known) {
    // Each time that there are twice as many: who asks without end is not to fill the log.
    if (std::has_single_bit(++num_strangers_))
      log_line(LogLevel::warn, job_.rank(),
               "a connection from {} is refused: it does not know this job's key ({} so far)",
               source_of(id), num_strangers_);
    return refuse(id, kStranger);
  }
  Connection& connection = at(static_cast<int>(hello.rank));
  // Overtaken by a later one, or by the answer to ours.
  if (static_cast<std::int32_t>(hello.attempt - connection.peer_attempts) <= 0)
    return refuse(id, kMineGoesFirst);
  switch (connection.state) {
    case Connection::asking:
      // Compare what the file's head says. Between two attempts of ours theirs is as good.
      if (connection.id != nullptr && connection.peer > job_.rank())
        return refuse(id, kMineGoesFirst);
      end_attempt(connection);
      break;
    case Connection::answering:
    case Connection::ready:
      // What has arrived counts, and that is known only once the old queue pair is gone.
      note_break(connection, Connection::asked_anew);
      return refuse(id, kAskAgain);
    case Connection::idle:
      num_asking_.fetch_add(1, std::memory_order_relaxed);
      connection.deadline_ns = now_ns() + patience_ns_;
      break;
    case Connection::waiting:
      break;
    case Connection::failed:
      return refuse(id, kGone);
  }
  connection.peer_received = hello.received;
  connection.peer_attempts = hello.attempt;
  connection.state = Connection::answering;
  connection.id = id;
  id->context = &connection;
  const Refusal refusal{kMagic, kNoRoom};
  Status status = make_room_for_completions();
  if (!status) {
    (void)rdma_reject(id, &refusal, sizeof refusal);
    return end_connection(connection, status.text(), LogLevel::warn);
  }
  status = make_queue_pair(connection);
  if (status) status = bring_up(connection, hello.read_depth);
  if (!status) {
    // Its own attempts go on until it has had enough; so does this.
    log_line(LogLevel::warn, job_.rank(), "cannot answer {}: {}", job_.describe(connection.peer),
             status.text());
    (void)rdma_reject(id, &refusal, sizeof refusal);
    return attempt_failed(connection, status.text());
  }
  const Hello answer = hello_to(connection);
  rdma_conn_param parameters = this->parameters(connection, answer);
  if (rdma_accept(id, &parameters) != 0)
    attempt_failed(connection, fmt::format("rdma_accept: {}", std::strerror(errno)));
}

}  // namespace weft::verbs
