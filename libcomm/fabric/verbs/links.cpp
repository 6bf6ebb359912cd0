// Links: made by librdmacm, ended by either side.
//
// open() resolves the address and the route, asks with the hello, and brings the queue pair up with
// the answer; the peer's side brings its own up before it answers, and may send once it is notified
// that the answer has come. The queue pair is this file's, not librdmacm's, as its timeouts follow
// Settings::patience_ns(). A link ends in two steps: its queue pair goes into the error state, in
// which the device gives everything back that was posted, and is destroyed once all of that has
// come.
//
// Over iWARP the kernel brings both queue pairs up, and the peer's side may send once the first
// message has come, which is sent for that. A read behind it shows that it has, and only then the
// link is up: Linux's siw_accept answers before it listens to what comes, and what comes in between
// lies there until something else comes. So the read is repeated.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/verbs/endpoint_impl.hpp"

namespace weft::fabric::verbs {

namespace {

constexpr int kRepeats = 6;          // 7 would mean "for ever" to the kernel's software device
constexpr int kRepeatWhileFull = 6;  // credit ensures that there is always room
constexpr std::uint8_t kWaitWhileFull = 20;  // 10 ms
constexpr int kResolveMs = 2000;
constexpr std::uint64_t kDrainNs = 20'000'000;    // in a close()
constexpr std::uint64_t kEndingNs = 200'000'000;  // until a queue pair goes without an answer
constexpr std::uint64_t kSpeakAgainNs = 100'000'000;
constexpr std::uint32_t kStillChecks = 8;
constexpr std::uint32_t kIdBits =
    20;  // of a link's index; the other bits distinguish its successive users

Status failed(const char* what) noexcept {
  const Code code = errno == ENOMEM || errno == EMFILE ? Code::no_memory : Code::unsupported;
  return or_no_memory(
      [&] { return Status(code, fmt::format("{}: {}", what, std::strerror(errno))); });
}

}  // namespace

sockaddr_storage socket_address(const Address& address, int scope) {
  sockaddr_storage made{};
  if (address.family == 4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&made);
    v4->sin_family = AF_INET;
    v4->sin_port = address.port;
    std::memcpy(&v4->sin_addr, address.ip, sizeof v4->sin_addr);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&made);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = address.port;
    v6->sin6_scope_id = static_cast<std::uint32_t>(scope);
    std::memcpy(&v6->sin6_addr, address.ip, sizeof v6->sin6_addr);
  }
  return made;
}

VerbsLink* VerbsEndpoint::find(std::uint32_t id) const {
  const std::uint32_t place = id & ((1u << kIdBits) - 1);
  VerbsLink* link = place < table_.size() ? table_[place] : nullptr;
  return link != nullptr && link->id == id ? link : nullptr;
}

// Null: there is no memory, or there are too many.
VerbsLink* VerbsEndpoint::add_link() try {
  if (free_ids_.empty()) {
    if (table_.size() == 1u << kIdBits) return nullptr;
    table_.push_back(nullptr);
    free_ids_.push_back(static_cast<std::uint32_t>(table_.size() - 1));
  }
  // No end of a link may want for memory.
  for (auto* list : {&free_ids_, &making_, &ending_, &owing_}) make_room(*list, table_.size());
  make_room(given_up_, table_.size());
  {
    std::lock_guard lock(deferred_lock_);
    make_room(broken_, table_.size());
  }
  auto* link = new VerbsLink;
  link->id = free_ids_.back();
  free_ids_.pop_back();
  link->depth = depth_;
  link->least = least_room(transport_);
  table_[link->id & ((1u << kIdBits) - 1)] = link;
  return link;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void VerbsEndpoint::free_link(VerbsLink& link) {
  table_[link.id & ((1u << kIdBits) - 1)] = nullptr;
  // The highest bit of a completion's number marks receives.
  free_ids_.push_back((link.id + (1u << kIdBits)) & 0x7fffffff);
  std::erase(making_, link.id);
  std::erase(ending_, link.id);
  delete &link;
}

// Opening.

Status VerbsEndpoint::open(Bytes address, Bytes hello, Link*& out) {
  Address to;
  if (is_gone_)
    return {Code::unsupported,
            fmt::format("{} was removed, or has failed for good: see dmesg, and start this process "
                        "again once it is back",
                        device_->port.device)};
  if (hello.size() > kMaxHelloBytes || !read_address(address, device_->port.transport, to))
    return {Code::bad_argument, "it is no address of an endpoint that verbs leads to from here"};
  VerbsLink* link = add_link();
  if (link == nullptr) return Code::no_memory;
  const auto start = [&] {
    link->hello.assign(hello.begin(), hello.end());
    return begin(*link, to);
  };
  if (Status status = or_no_memory(start); !status) {
    if (link->cm != nullptr) rdma_destroy_id(link->cm);
    free_link(*link);
    return status;
  }
  link->deadline_ns = now_ns() + attempt_ns_;
  making_.push_back(link->id);
  out = link;
  return {};
}

Status VerbsEndpoint::begin(VerbsLink& link, const Address& to) {
  if (rdma_create_id(cm_channel_, &link.cm, &link, RDMA_PS_TCP) != 0) {
    link.cm = nullptr;
    return failed("rdma_create_id");
  }
  // The other side takes it over with the route.
  if (traffic_class_ != 0 && rdma_set_option(link.cm, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
                                             &traffic_class_, sizeof traffic_class_) != 0)
    return failed("rdma_set_option(WEFT_TRAFFIC_CLASS)");
  Address own;
  std::memcpy(&own, address_.data(), sizeof own);
  own.port = 0;
  sockaddr_storage from = socket_address(own, device_->port.scope);
  sockaddr_storage there = socket_address(to, device_->port.scope);
  if (rdma_resolve_addr(link.cm, reinterpret_cast<sockaddr*>(&from),
                        reinterpret_cast<sockaddr*>(&there), kResolveMs) != 0)
    return failed("rdma_resolve_addr");
  return {};
}

PrivateData VerbsEndpoint::own_hello(const VerbsLink& link, bool is_answer) const {
  Hello hello{};
  hello.magic = kMagic;
  hello.read_depth = read_depth_;
  hello.mtu = static_cast<std::uint8_t>(device_->active_mtu());
  hello.credit = static_cast<std::uint8_t>(link.window);
  hello.hello_bytes = static_cast<std::uint8_t>(link.hello.size());
  if (!link.hello.empty()) std::memcpy(hello.hello, link.hello.data(), link.hello.size());
  PrivateData made;
  made.bytes = is_answer ? kAnswerBytes : sizeof hello;
  std::memcpy(made.data.data(), &hello, made.bytes);
  if (transport_.sent_has_arrived) return made;
  const Proof proof{reinterpret_cast<std::uintptr_t>(proofs_.data()), proof_mr_->rkey, kMagic};
  std::memcpy(made.data.data() + made.bytes, &proof, sizeof proof);
  made.bytes += sizeof proof;
  return made;
}

bool VerbsEndpoint::read_theirs(VerbsLink& link, Bytes data, bool is_answer, Hello& theirs) const {
  return read_hello(data, is_answer, theirs) &&
         (transport_.sent_has_arrived || read_proof(data, is_answer, link.proof));
}

// Without private data.
rdma_conn_param VerbsEndpoint::parameters(const VerbsLink& link) const {
  rdma_conn_param parameters{};
  parameters.responder_resources = read_depth_;
  parameters.initiator_depth = ask_depth_;
  parameters.retry_count = kRepeats;
  parameters.rnr_retry_count = kRepeatWhileFull;
  parameters.srq = receives_ != nullptr ? 1 : 0;
  parameters.qp_num = link.qp->qp_num;
  return parameters;
}

Status VerbsEndpoint::make_queue_pair(VerbsLink& link) {
  if (Status status = make_receives(num_needed_ + kFirstCredit); !status) return status;
  if (Status status = make_room_for_completions(num_links_ + 1); !status) return status;
  std::uint32_t inline_bytes = 0;
  ibv_qp* qp = new_queue_pair(inline_bytes);
  if (qp == nullptr)
    return {
        Code::no_memory,
        fmt::format("{} gives no queue pair: {} ({} are in use here, of {} that the device has "
                    "for all processes{}: fewer peers or WEFT_VERBS_QPS=1 need fewer, WEFT_FABRIC "
                    "without verbs none; see ulimit -l)",
                    device_->port.device, std::strerror(errno), num_links_, device_->limits.max_qp,
                    num_links_ > 0 ? "; peers take turns, which is slow" : "")};
  ++num_links_;
  num_needed_ += kFirstCredit;
  link.window = link.expected = kFirstCredit;
  {
    std::lock_guard lock(link.lock);
    link.qp = qp;
  }
  by_qp_[qp->qp_num] = &link;
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(link.cm, &attributes, &mask) != 0) return failed("rdma_init_qp_attr");
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  // Devices without atomics refuse the right to them (mlx5).
  if (limits_.atomics) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(qp, &attributes, mask) != 0) return failed("a queue pair's start");
  give_receives(link, link.window);
  return {};
}

Status VerbsEndpoint::bring_up(VerbsLink& link, const Hello& theirs) {
  {
    std::lock_guard lock(link.lock);
    link.credit = theirs.credit;
  }
  if (transport_.connects_queue_pairs) return {};
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  if (rdma_init_qp_attr(link.cm, &attributes, &mask) != 0) return failed("rdma_init_qp_attr");
  // The kernel's is that of the side that asked, whose packets the other's port may not take.
  for (const int mtu : {static_cast<int>(theirs.mtu), static_cast<int>(device_->active_mtu())})
    if (mtu != 0) attributes.path_mtu = std::min(attributes.path_mtu, static_cast<ibv_mtu>(mtu));
  attributes.max_dest_rd_atomic = read_depth_;
  attributes.min_rnr_timer = kWaitWhileFull;
  if (ibv_modify_qp(link.qp, &attributes, mask) != 0)
    return failed("a queue pair, ready to receive");
  attributes = {};
  mask = 0;
  attributes.qp_state = IBV_QPS_RTS;
  if (rdma_init_qp_attr(link.cm, &attributes, &mask) != 0) return failed("rdma_init_qp_attr");
  attributes.max_rd_atomic = std::min(ask_depth_, theirs.read_depth);
  attributes.timeout = ack_timeout_;
  attributes.retry_cnt = kRepeats;
  attributes.rnr_retry = kRepeatWhileFull;
  if (ibv_modify_qp(link.qp, &attributes, mask) != 0) return failed("a queue pair, ready to send");
  return {};
}

void VerbsEndpoint::connect(VerbsLink& link) {
  if (Status status = or_no_memory([&] { return make_queue_pair(link); }); !status)
    return take_down(link, status);
  {
    std::lock_guard lock(link.lock);
    link.state = VerbsLink::State::asking;
  }
  if (Status status = ask(link); !status) take_down(link, status);
}

// Over iWARP the kernel may first make the TCP connection: siw does so in rdma_connect, which to a
// host that is gone takes minutes. A thread waits for it.
Status VerbsEndpoint::ask(VerbsLink& link) {
  auto connect = [cm = link.cm, hello = own_hello(link, false),
                  request = parameters(link)]() mutable {
    request.private_data = hello.data.data();
    request.private_data_len = hello.bytes;
    return rdma_connect(cm, &request);
  };
  if (!transport_.connects_queue_pairs) return connect() == 0 ? Status() : failed("rdma_connect");
  const auto wait = [connect, bell = bell_]() mutable {
    const int error = connect() == 0 ? 0 : errno;
    constexpr std::uint64_t kOnce = 1;
    [[maybe_unused]] const ssize_t count = ::write(bell->get(), &kOnce, sizeof kOnce);
    return error;
  };
  return or_no_memory([&] { link.asked = reaper_.run(wait); });
}

void VerbsEndpoint::look_at_asked(VerbsLink& link) {
  if (!link.asked.valid() ||
      link.asked.wait_for(std::chrono::seconds{0}) != std::future_status::ready)
    return;
  const int error = link.asked.get();
  link.asked = {};
  if (error == 0) return;
  if (error == ECONNREFUSED) link.why = Code::not_found;  // of the peer's kernel
  take_down(link, std::strerror(error));
}

void VerbsEndpoint::on_answer(VerbsLink& link, Bytes data, Events& events) {
  Hello theirs;
  if (!read_theirs(link, data, true, theirs))
    return take_down(link, "what answers there is no Node");
  if (Status status = bring_up(link, theirs); !status) return take_down(link, status);
  if (!transport_.connects_queue_pairs && rdma_establish(link.cm) != 0)
    return take_down(link, failed("rdma_establish"));
  if (transport_.asker_speaks_first) return speak_first(link);
  become_up(link);
  events.on_up(link);
}

void VerbsEndpoint::on_established(VerbsLink& link, Bytes data, Events& events) {
  bool is_asking;
  {
    std::lock_guard lock(link.lock);
    is_asking = link.state == VerbsLink::State::asking && link.spoke_ns == 0;
  }
  if (is_asking) return on_answer(link, data, events);
  if (!transport_.asker_speaks_first) become_up(link);
}

// A message of nothing, by which the peer may speak.
void VerbsEndpoint::speak_first(VerbsLink& link) {
  if (sizeof(Head) > max_inline_ && !need_ring(link))
    return take_down(link, "no memory to speak first");
  {
    std::lock_guard lock(link.lock);
    if (send(link, kCredit, {}, {}) != Code::ok) return;  // a failure takes the link down
  }
  ask_whether_heard(link);
}

// A completion of such a read ends it.
void VerbsEndpoint::ask_whether_heard(VerbsLink& link) {
  link.spoke_ns = now_ns();
  std::lock_guard lock(link.lock);
  if (link.room() < link.least.request) return;  // so many are under way
  ibv_send_wr request;
  prepare_probe(link, request);
  [[maybe_unused]] const Code code = post(link, request, {}, true);
}

void VerbsEndpoint::on_heard(VerbsLink& link, Events& events) {
  link.spoke_ns = 0;
  become_up(link);
  events.on_up(link);
}

void VerbsEndpoint::on_request(rdma_cm_id* cm, Bytes data, Events& events) {
  cm->context = nullptr;
  Hello theirs;
  VerbsLink* link = !is_gone_ && read_hello(data, false, theirs) ? add_link() : nullptr;
  if (link == nullptr) {
    (void)rdma_reject(cm, nullptr, 0);
    rdma_destroy_id(cm);
    return;
  }
  const std::uint32_t id = link->id;
  link->state = VerbsLink::State::answering;
  const bool is_whole = read_theirs(*link, data, false, theirs);
  const bool is_taken = is_whole && events.on_incoming(*link, {theirs.hello, theirs.hello_bytes});
  if (find(id) == link && is_taken) {
    link->cm = cm;
    cm->context = link;
    link->deadline_ns = now_ns() + attempt_ns_;
    making_.push_back(id);
    Status status = or_no_memory([&] { return make_queue_pair(*link); });
    if (status) status = bring_up(*link, theirs);
    if (status) {
      const PrivateData answer = own_hello(*link, true);
      rdma_conn_param parameters = this->parameters(*link);
      parameters.private_data = answer.data.data();
      parameters.private_data_len = answer.bytes;
      if (rdma_accept(cm, &parameters) == 0) return;
      status = failed("rdma_accept");
    }
    take_down(*link, status);
    const Refusal refusal{kMagic, link->why == Code::no_memory ? 1u : 0u};
    (void)rdma_reject(cm, &refusal, sizeof refusal);
    return;
  }
  // Refused, or closed at once by the client.
  if (find(id) == link) free_link(*link);
  (void)rdma_reject(cm, nullptr, 0);
  rdma_destroy_id(cm);
}

void VerbsEndpoint::become_up(VerbsLink& link) {
  std::erase(making_, link.id);
  {
    std::lock_guard lock(failure_lock_);
    last_failure_.clear();
  }
  std::lock_guard lock(link.lock);
  if (link.state != VerbsLink::State::broken) link.state = VerbsLink::State::up;
}

// Events of librdmacm.

bool VerbsEndpoint::poll_cm(Events& events) {
  bool any = false;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(cm_channel_, &event) == 0) {
    // An event must be given back before its id may be destroyed: work on copies.
    rdma_cm_event copy = *event;
    std::byte data[256];
    std::size_t bytes = 0;
    if (copy.param.conn.private_data != nullptr &&
        (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST ||
         copy.event == RDMA_CM_EVENT_CONNECT_RESPONSE || copy.event == RDMA_CM_EVENT_ESTABLISHED ||
         copy.event == RDMA_CM_EVENT_REJECTED)) {
      bytes = std::min<std::size_t>(copy.param.conn.private_data_len, sizeof data);
      std::memcpy(data, copy.param.conn.private_data, bytes);
    }
    rdma_ack_cm_event(event);
    on_cm_event(copy, {data, bytes}, events);
    any = true;
  }
  return any;
}

void VerbsEndpoint::on_cm_event(rdma_cm_event& event, Bytes data, Events& events) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event.id, data, events);
  auto* link = static_cast<VerbsLink*>(event.id->context);
  if (link == nullptr || link->cm != event.id || link->is_ending) return;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(link->cm, kResolveMs) != 0)
        take_down(*link, failed("rdma_resolve_route"));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return connect(*link);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return on_answer(*link, data, events);
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(*link, data, events);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL: {
      // IB_CM_REJ_INVALID_SERVICE_ID: its kernel rejects; a process does with another reason.
      constexpr int kNoListener = 8;
      if (event.event == RDMA_CM_EVENT_REJECTED && event.status == kNoListener)
        link->why = Code::not_found;
      if (event.event == RDMA_CM_EVENT_REJECTED && read_is_full(data)) link->why = Code::again;
      char why[64];
      const auto end =
          fmt::format_to_n(why, sizeof why, "{} ({})", rdma_event_str(event.event), event.status);
      return take_down(*link, std::string_view(why, std::min(end.size, sizeof why)));
    }
    default:
      return;
  }
}

void VerbsEndpoint::check_attempts() {
  const std::uint64_t now = now_ns();
  for (std::size_t i = making_.size(); i-- > 0;) {
    VerbsLink* link = find(making_[i]);
    if (link == nullptr) continue;
    look_at_asked(*link);
    if (now > link->deadline_ns)
      take_down(*link, "no answer in time");
    else if (link->spoke_ns != 0 && !link->is_ending && now > link->spoke_ns + kSpeakAgainNs)
      ask_whether_heard(*link);
  }
}

// The end.

// Some devices neither repeat a request nor give it up (rxe, after its network interface was down):
// a link that completes nothing for too long is taken down. Where no request under way would signal
// its completion, one without bytes is posted that does.
void VerbsEndpoint::check_devices_end(std::uint64_t now) {
  if (now < last_check_ns_ + stopped_ns_ / kStillChecks) return;
  last_check_ns_ = now;
  for (VerbsLink* link : table_) {
    if (link == nullptr || link->is_ending) continue;
    bool has_stopped = false;
    {
      std::lock_guard lock(link->lock);
      if (link->state != VerbsLink::State::up) continue;
      const std::uint32_t under_way = link->posted - link->completed;
      // Checks are counted, not timed, as this process may itself have been stopped for a while.
      if (under_way == 0 || link->completed != link->seen_completed) link->num_still = 0;
      link->seen_completed = link->completed;
      has_stopped = ++link->num_still > kStillChecks;
      const auto outstanding = static_cast<std::int32_t>(link->last_signalled - link->completed);
      if (under_way > 0 && outstanding <= 0 && link->room() > 1) {
        ibv_send_wr request;
        prepare_probe(*link, request);
        [[maybe_unused]] const Code code = post(*link, request, {}, true);
      }
    }
    if (has_stopped) take_down(*link, "the device has stopped");
  }
}

// Destroying an id notifies the other end. While the port is down that must not be tried: the queue
// pair that rxe sends such messages through would fail for the whole host, for ever (kernel 6.1).
void VerbsEndpoint::give_up(rdma_cm_id* cm, const std::shared_future<int>& asked) {
  cm->context = nullptr;
  if (transport_.connects_queue_pairs)
    reaper_.destroy(cm, asked);
  else if (device_->port_is_active())
    rdma_destroy_id(cm);
  else
    given_up_.push_back(cm);
}

// From here on the device does nothing for the link. The completion of a last request shows that
// all others have ended; not over iWARP, where siw has ended all by then, and completes no other.
void VerbsEndpoint::put_in_error_state(VerbsLink& link) {
  std::lock_guard lock(link.lock);
  link.state = VerbsLink::State::broken;
  if (link.qp == nullptr) return;
  lib::put_in_error_state(link.qp);
  if (link.posted == link.completed || !transport_.sent_has_arrived) return;
  ibv_send_wr last{}, *bad = nullptr;
  last.wr_id = std::uint64_t{link.id} << 32 | link.posted;
  last.opcode = IBV_WR_RDMA_WRITE;
  last.send_flags = IBV_SEND_SIGNALED;
  if (link.room() == 0 || ibv_post_send(link.qp, &last, &bad) != 0) return;
  link.slots[link.posted % kDepth] = {};
  link.slots[link.posted % kDepth].ring_end = link.ring_head;
  ++link.posted;
}

void VerbsEndpoint::take_down(VerbsLink& link, std::string_view why) {
  if (std::exchange(link.is_ending, true)) return;
  log_line(LogLevel::info, -1, "verbs: a link of {} ends: {}", device_->port.device, why);
  std::erase(making_, link.id);
  put_in_error_state(link);
  link.deadline_ns = now_ns() + kEndingNs;
  ending_.push_back(link.id);
}

// Something is missing here: that is told once, and errors repeat the last (way_to). The end of
// another link may give it back.
void VerbsEndpoint::take_down(VerbsLink& link, const Status& why) {
  if (why.code() == Code::no_memory && num_links_ > 0) link.why = Code::no_memory;
  std::string text;
  or_no_memory([&] { text = why.text(); });
  take_down(link, std::string_view(text));
  std::lock_guard lock(failure_lock_);
  if (!std::exchange(has_told_failure_, true))
    log_line(LogLevel::warn, -1, "verbs: a link cannot be made: {} (further ones go unsaid)", text);
  last_failure_ = std::move(text);
}

// Waits until the device has given back what was posted, at most for a while.
void VerbsEndpoint::drain(VerbsLink& link) {
  if (link.qp == nullptr || link.posted == link.completed || !transport_.sent_has_arrived) return;
  const std::uint64_t wanted = std::uint64_t{link.id} << 32 | (link.posted - 1);
  for (const std::uint64_t limit = now_ns() + kDrainNs; now_ns() < limit;)
    for (int i = stash_completions(); i > 0; --i)
      if (stash_[stash_.size() - static_cast<std::size_t>(i)].wr_id == wanted) return;
}

// Returns how many. Without memory for them they stay in the queue.
int VerbsEndpoint::stash_completions() {
  const std::size_t num = stash_.size();
  if (or_no_memory([&] { stash_.resize(num + kMostStashed); }) != Code::ok) return 0;
  const int count = ibv_poll_cq(queue_, kMostStashed, &stash_[num]);
  stash_.resize(num + static_cast<std::size_t>(std::max(count, 0)));
  return std::max(count, 0);
}

void VerbsEndpoint::end_requests(VerbsLink& link, Code code, Completed& completed) {
  std::lock_guard lock(link.lock);
  const auto end = [&](WorkRequest* request) {
    completed.add(request, link.refused == request ? link.refused_code : code);
  };
  for (; link.completed != link.posted; ++link.completed) {
    Posted& slot = link.slots[link.completed % kDepth];
    if (slot.request == nullptr || !slot.is_last) continue;
    if (slot.memory != nullptr) registrations_->release(slot.memory);
    end(slot.request);
  }
  if (link.parts.request == nullptr) return;
  registrations_->release(link.parts.memory);
  end(link.parts.request);
  link.parts = {};
}

void VerbsEndpoint::end_refused(std::uint32_t id) {
  for (;;) {
    Refused refused{};
    {
      std::lock_guard lock(deferred_lock_);
      const auto found = std::ranges::find(refused_, id, &Refused::link);
      if (found == refused_.end()) return;
      refused = *found;
      refused_.erase(found);
    }
    refused.request->done(*refused.request, refused.code);
  }
}

void VerbsEndpoint::free_queue_pair(VerbsLink& link) {
  ibv_qp* qp = nullptr;
  Block ring;
  {
    std::lock_guard lock(link.lock);
    qp = std::exchange(link.qp, nullptr);
    ring = std::exchange(link.ring, {});
  }
  if (qp != nullptr) {
    const std::uint32_t number = qp->qp_num;
    by_qp_.erase(number);
    // A queue pair that ends late keeps its buffers.
    const bool is_late = !reaper_.destroy(qp);
    if (!is_late) take_receives_back(link, number);
    --num_links_;
    if (!is_late || receives_ != nullptr) num_needed_ -= link.window;
  }
  if (link.cm != nullptr) give_up(std::exchange(link.cm, nullptr), link.asked);
  if (ring.data != nullptr) rings_->give(ring);
}

bool VerbsEndpoint::finish_down(Events& events) {
  bool any = false;
  for (std::size_t i = 0; i < ending_.size();) {
    VerbsLink* link = find(ending_[i]);
    if (link == nullptr || (transport_.sent_has_arrived && link->posted != link->completed &&
                            now_ns() < link->deadline_ns)) {
      ++i;
      continue;
    }
    const std::uint32_t id = link->id;
    ending_.erase(ending_.begin() + static_cast<std::ptrdiff_t>(i));
    free_queue_pair(*link);
    Completed completed;
    end_requests(*link, Code::peer_lost, completed);
    completed.report();
    end_refused(id);
    any = true;
    if (find(id) == link) events.on_down(*link, link->why);
    i = 0;  // the client may have closed others
  }
  return any;
}

void VerbsEndpoint::close(Link& base) {
  auto& link = static_cast<VerbsLink&>(base);
  put_in_error_state(link);
  drain(link);
  free_queue_pair(link);
  Completed completed;
  end_requests(link, Code::cancelled, completed);
  const std::uint32_t id = link.id;
  free_link(link);
  completed.report();
  end_refused(id);
}

}  // namespace weft::fabric::verbs
