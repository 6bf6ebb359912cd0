#include "transport/session.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/wait.hpp"
#include "transport/transport.hpp"
#include "weft/copy.hpp"

namespace weft::transport {

namespace {

constexpr std::size_t kMaxBacklog = 4096;
constexpr std::uint32_t kAckMessages = 64;
constexpr std::size_t kAckBytes = 4 << 10;
constexpr std::uint64_t kFirstBackoffNs = 2'000'000, kMostBackoffNs = 250'000'000;

struct Hello {  // of a link, to on_incoming()
  peer::Bytes16 cookie;
  std::uint32_t version, received;
};
constexpr std::uint32_t kVersion = 1;
static_assert(sizeof(Hello) <= fabric::kMaxHelloBytes);

}  // namespace

bool read_hello(fabric::Bytes bytes, peer::Bytes16& cookie, std::uint32_t& received) {
  Hello hello;
  if (bytes.size() < sizeof hello) return false;  // fabrics may add zeros
  std::memcpy(&hello, bytes.data(), sizeof hello);
  cookie = hello.cookie;
  received = hello.received;
  return hello.version == kVersion;
}

Session::Session(Transport& transport, peer::Connection& connection, bool opens)
    : transport_(transport),
      connection_(&connection),
      theirs_(connection.theirs()),
      cookie_(connection.cookie()),
      opens_(opens),
      began_ns_(now_ns()) {}

Session::~Session() = default;

// Links.

Status Session::begin(fabric::Endpoint& endpoint) {
  transport_.note_used(endpoint);
  {
    std::lock_guard lock(lock_);
    endpoint_ = &endpoint;
    message_max_ = endpoint.limits().message_max - sizeof(Head);
  }
  if (!endpoint.address().empty()) return open_link();
  std::vector<int> descriptors;
  fabric::Link* link = nullptr;
  if (Status status = endpoint.mapped()->offer(link, descriptors); !status) return status;
  link->client = this;
  Status status = transport_.bootstrap_.send(*connection_, peer::FrameType::offer, endpoint.name(),
                                             descriptors);
  for (const int descriptor : descriptors) ::close(descriptor);
  if (!status) {
    endpoint.close(*link);
    return status;
  }
  std::unique_lock lock(lock_);
  link_ = link;
  state_ = State::up;
  lock.unlock();
  note_up();
  return {};
}

Status Session::open_link() {
  Hello hello{cookie_, kVersion, num_received_};
  fabric::Link* link = nullptr;
  const std::string_view to = theirs_.on(endpoint_->name());
  Status status = endpoint_->open({reinterpret_cast<const std::byte*>(to.data()), to.size()},
                                  {reinterpret_cast<const std::byte*>(&hello), sizeof hello}, link);
  if (!status) return status;
  link->client = this;
  std::lock_guard lock(lock_);
  link_ = link;
  return {};
}

// Ends what the link has under way: request_done() takes it back.
void Session::drop_link() {
  fabric::Link* link = nullptr;
  {
    std::lock_guard lock(lock_);
    link = std::exchange(link_, nullptr);
    if (state_ == State::up) {
      state_ = State::broken;
      broken_since_ns_ = now_ns();
      backoff_ns_ = kFirstBackoffNs;
    }
  }
  if (link != nullptr) endpoint_->close(*link);
}

void Session::take_link(fabric::Endpoint& endpoint, fabric::Link& link, std::uint32_t received) {
  drop_link();
  transport_.note_used(endpoint);
  bool makes_sense = true;
  {
    std::lock_guard lock(lock_);
    endpoint_ = &endpoint;
    message_max_ = endpoint.limits().message_max - sizeof(Head);
    link_ = &link;
    link.client = this;
    if (endpoint.limits().breaks) {
      // Nothing can be posted before on_incoming() has returned.
      makes_sense = resume(received);
      wants_resume_ = true;
      make_busy();
    } else {
      state_ = State::up;
    }
  }
  if (!makes_sense) return lose(Code::corrupt, "acknowledges what was never sent");
  if (!endpoint.limits().breaks) note_up();
}

bool Session::resume(std::uint32_t received) {
  if (!drop_acknowledged(received)) return false;
  resend_.rewind();
  return true;
}

void Session::note_up() {
  last_heard_ns_ = now_ns();
  if (is_told_) return;
  is_told_ = true;
  transport_.note_connected(*this);
}

void Session::on_down(Code why) {
  drop_link();
  if (why == Code::corrupt) return lose(why, "sends what makes no sense");
  if (!endpoint_->limits().breaks) return lose(Code::peer_lost, "its process has ended");
  std::lock_guard lock(lock_);
  if (broken_since_ns_ == 0) broken_since_ns_ = began_ns_;
  reopen_at_ns_ = now_ns() + backoff_ns_;
  backoff_ns_ = std::clamp(backoff_ns_ * 2, kFirstBackoffNs, kMostBackoffNs);
}

void Session::on_connection_end(peer::Ended how) {
  connection_ = nullptr;
  if (how != peer::Ended::finished) return;  // liveness tells
  // What it sent before is delivered by its link, where that tells its end itself.
  bool ends_itself;
  {
    std::lock_guard lock(lock_);
    ends_itself = state_ == State::up && !retains();
  }
  if (!ends_itself) lose(Code::peer_lost, "its process has ended");
}

// Messages.

Code Session::post(Head& head, std::size_t head_bytes, fabric::Bytes body, bool is_backlog) {
  if (state_ == State::lost) return Code::peer_lost;
  if (!is_backlog && !backlog_.empty()) return Code::again;
  const fabric::Bytes head_span{reinterpret_cast<const std::byte*>(&head), head_bytes};
  if (!retains()) {
    if (state_ != State::up) return Code::again;
    const Code code = endpoint_->message(*link_, head_span, body);
    if (code == Code::ok) return code;
    make_busy();
    return Code::again;  // if the link is down, its end is told next
  }
  const std::span<std::byte> to = resend_.append(head_bytes + body.size());
  if (to.empty()) {
    make_busy();
    return Code::again;
  }
  head.flags |= kNumbered;
  head.number = ++num_posted_;
  std::memcpy(to.data(), &head, head_bytes);
  if (!body.empty()) weft::detail::copy(to.data() + head_bytes, body.data(), body.size());
  if (state_ == State::up && reposts_.empty()) send_unsent();
  return Code::ok;
}

void Session::post_control(Head& head, std::size_t head_bytes) {
  const Code code = post(head, head_bytes, {});
  if (code != Code::again) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(&head);
  backlog_.emplace_back(bytes, bytes + head_bytes);
  make_busy();
}

void Session::send_unsent() {
  while (!resend_.all_sent()) {
    const std::span<std::byte> message = resend_.next();
    std::memcpy(message.data() + offsetof(Head, acked), &num_received_, sizeof num_received_);
    const Code code = endpoint_->message(*link_, message, {});
    if (code != Code::ok) return make_busy();
    resend_.mark_sent();
    unacked_messages_ = 0;
    unacked_bytes_ = 0;
  }
}

void Session::send_ack(Kind kind) {
  Head head{.kind = kind, .acked = num_received_};
  if (endpoint_->message(*link_, as_bytes(head), {}) != Code::ok) return make_busy();
  unacked_messages_ = 0;
  unacked_bytes_ = 0;
  wants_ack_ = false;
}

bool Session::drop_acknowledged(std::uint32_t acked) {
  const std::uint64_t dropped = resend_.num_dropped();
  const auto more = static_cast<std::int32_t>(acked - static_cast<std::uint32_t>(dropped));
  // An older word of it may come late.
  return more <= 0 || resend_.drop_until(dropped + static_cast<std::uint32_t>(more));
}

// False: it makes no sense. is_new: it has not been received before.
bool Session::note_received(const Head& head, std::size_t bytes, bool& is_new) {
  is_new = true;
  if (!drop_acknowledged(head.acked)) return false;
  if ((head.flags & kNumbered) == 0) return true;
  const auto ahead = static_cast<std::int32_t>(head.number - num_received_);
  if (ahead > 1) return false;
  is_new = ahead == 1;
  if (is_new) num_received_ = head.number;
  unacked_bytes_ += bytes;
  if (++unacked_messages_ >= kAckMessages || unacked_bytes_ >= kAckBytes) {
    wants_ack_ = true;
    make_busy();
  }
  return true;
}

Code Session::send(fabric::Bytes bytes) {
  std::lock_guard lock(lock_);
  if (bytes.size() > message_max_) return Code::bad_argument;
  if (num_sends_ > 0) return Code::again;
  Head head{.kind = Kind::user};
  return post(head, sizeof head, bytes);
}

void Session::on_message(fabric::Bytes bytes) {
  Head head;
  fabric::Bytes data;
  if (!read_message(bytes, head, data)) return lose(Code::corrupt, "sends what makes no sense");
  last_heard_ns_ = transport_.now_ns_;
  if (retains()) {
    bool is_new = false, makes_sense = true, is_up = false;
    {
      std::lock_guard lock(lock_);
      if (head.kind == Kind::resume && opens_ && state_ != State::up) {
        makes_sense = resume(head.acked);
        state_ = State::up;
        is_up = true;
        make_busy();
      } else {
        makes_sense = note_received(head, bytes.size(), is_new);
      }
    }
    if (!makes_sense) return lose(Code::corrupt, "sends messages out of order");
    if (is_up) return note_up();
    if (!is_new) return;
  }
  if (head.kind == Kind::user) [[likely]]
    return transport_.events_.on_message(*this, data);
  if (!dispatch(head.kind, bytes)) lose(Code::corrupt, "sends what makes no sense");
}

bool Session::dispatch(Kind kind, fabric::Bytes bytes) {
  fabric::Bytes data;
  auto with = [&]<class Message>(Message message, auto&& handle) {
    return read_message(bytes, message, data) && handle(message);
  };
  switch (kind) {
    case Kind::piece:
      return with(PieceMessage{}, [&](auto& m) { return on_piece(m, data); });
    case Kind::notify:
      return with(NotifyMessage{}, [&](auto& m) {
        transport_.events_.on_notify(*this, m.tag);
        return true;
      });
    case Kind::resolve:
      return with(ResolveMessage{}, [&](auto& m) { return on_resolve(m); });
    case Kind::resolved:
      return with(ResolvedMessage{}, [&](auto& m) { return on_resolved(m, nullptr); });
    case Kind::withdrawn:
      return with(HandleMessage{}, [&](auto& m) { return on_withdrawn(m.id); });
    case Kind::let_go:
      return with(HandleMessage{}, [&](auto& m) { return on_let_go(m.id); });
    case Kind::put:
      return with(AccessMessage{}, [&](auto& m) { return on_put(m, data); });
    case Kind::get:
      return with(AccessMessage{}, [&](auto& m) { return on_get(m); });
    case Kind::data:
      return with(DataMessage{}, [&](auto& m) { return on_data(m, data); });
    case Kind::atomic:
      return with(AtomicMessage{}, [&](auto& m) { return on_atomic(m); });
    case Kind::done:
      return with(DoneMessage{}, [&](auto& m) { return on_done(m); });
    case Kind::bye:
      has_left_ = true;
      lose(Code::peer_lost, "has left");
      return true;
    case Kind::ping: {
      std::lock_guard lock(lock_);
      if (retains()) {
        wants_ack_ = true;
        make_busy();
      } else {
        Head answer{.kind = Kind::ack};
        post_control(answer, sizeof answer);
      }
      return true;
    }
    case Kind::ack:
    case Kind::resume:
      return true;
    default:
      return false;
  }
}

bool Session::on_frame(peer::FrameType type, std::string_view body, std::span<int> descriptors) {
  if (type == peer::FrameType::mapping && descriptors.size() == 1) {
    ResolvedMessage message;
    fabric::Bytes data;
    return read_message({reinterpret_cast<const std::byte*>(body.data()), body.size()}, message,
                        data) &&
           on_resolved(message, &descriptors[0]);
  }
  if (type != peer::FrameType::offer || opens_ || state_ != State::connecting) return false;
  for (const auto& endpoint : transport_.endpoints_) {
    if (endpoint->name() != body || endpoint->mapped() == nullptr) continue;
    fabric::Link* link = nullptr;
    Status status = endpoint->mapped()->accept(descriptors, link);
    std::ranges::fill(descriptors, -1);
    if (!status) {
      lose(status.code(), status.text());
      return true;
    }
    take_link(*endpoint, *link, 0);
    return true;
  }
  return false;
}

// Progress.

void Session::make_busy() {
  // relaxed: the list below has a lock.
  if (is_busy_.exchange(true, std::memory_order_relaxed)) return;
  std::lock_guard lock(transport_.busy_lock_);
  transport_.busy_.push_back(shared_from_this());
  transport_.has_busy_.store(true, std::memory_order_relaxed);
}

bool Session::pump() {
  WorkList finished;
  bool is_up_now = false, floods = false;
  {
    std::lock_guard lock(lock_);
    is_busy_.store(false, std::memory_order_relaxed);
    if (wants_resume_ && link_ != nullptr) {
      Head head{.kind = Kind::resume, .acked = num_received_};
      if (endpoint_->message(*link_, as_bytes(head), {}) == Code::ok) {
        wants_resume_ = false;
        state_ = State::up;
        is_up_now = true;
      } else {
        make_busy();
      }
    }
    if (state_ == State::up) {
      while (Work* work = reposts_.first())
        if (!advance(*work, finished)) break;
      if (!reposts_.empty()) {
        make_busy();
      } else {
        if (retains()) send_unsent();
        while (!backlog_.empty()) {
          auto& bytes = backlog_.front();
          Head head;
          std::memcpy(&head, bytes.data(), sizeof head);
          // The head is written to, so it lies at the start of all.
          if (post(*reinterpret_cast<Head*>(bytes.data()), bytes.size(), {}, true) != Code::ok)
            break;
          backlog_.pop_front();
        }
        while (Work* work = waiting_.first())
          if (!advance(*work, finished)) break;
        if (!pump_answers()) make_busy();
        if (wants_ack_ && retains()) send_ack(Kind::ack);
      }
    }
    floods = backlog_.size() > kMaxBacklog;
  }
  if (is_up_now) note_up();
  finished.finish_all();
  if (floods) lose(Code::no_memory, "asks for much and reads nothing");
  return is_busy_.load(std::memory_order_relaxed);
}

void Session::tick(std::uint64_t now) {
  const std::uint64_t timeout = transport_.timeout_ns();
  enum { nothing, gone, reopen } todo = nothing;
  {
    std::lock_guard lock(lock_);
    switch (state_) {
      case State::connecting:
        if (now > began_ns_ + timeout)
          todo = gone;
        else if (opens_ && link_ == nullptr && endpoint_ != nullptr && now >= reopen_at_ns_)
          todo = reopen;
        break;
      case State::broken:
        if (now > broken_since_ns_ + timeout)
          todo = gone;
        else if (opens_ && link_ == nullptr && now >= reopen_at_ns_)
          todo = reopen;
        break;
      case State::up: {
        const bool waits = !waiting_.empty() || !posted_.empty() || !reposts_.empty() ||
                           !resend_.empty() || num_asked_ > 0;
        if (!waits) {
          last_heard_ns_ = now;
        } else if (now > last_heard_ns_ + timeout) {
          todo = gone;
        } else if (now > last_heard_ns_ + timeout / 4 && now > last_asked_ns_ + timeout / 4) {
          last_asked_ns_ = now;
          Head head{.kind = Kind::ping, .acked = num_received_};
          // If there is no room, or the link is down, silence is enough.
          [[maybe_unused]] const Code code = endpoint_->message(*link_, as_bytes(head), {});
        }
        break;
      }
      case State::lost:
        break;
    }
  }
  if (todo == gone)
    lose(Code::peer_lost, fmt::format("was not heard of for {} ms", timeout / 1'000'000));
  if (todo == reopen) {
    if (Status status = open_link(); !status) {
      std::lock_guard lock(lock_);
      reopen_at_ns_ = now + kMostBackoffNs;
    }
  }
}

void Session::say_goodbye() {
  Head head{.kind = Kind::bye};
  std::lock_guard lock(lock_);
  if (state_ == State::up) post_control(head, sizeof head);
}

void Session::lose(Code code, std::string why) {
  const auto keeps = shared_from_this();
  {
    std::lock_guard lock(lock_);
    if (state_ == State::lost) return;
    state_ = State::lost;
    why_ = fmt::format("{} {}", theirs_.name.empty() ? "the peer" : theirs_.name, why);
  }
  drop_link();
  WorkList finished;
  {
    std::lock_guard lock(lock_);
    for (auto& [key, region] : regions_) end_region(*region, code);
    regions_.clear();
    for (WorkList* list : {&waiting_, &reposts_, &posted_})
      while (Work* work = list->first()) {
        list->remove(*work);
        work->code = code;
        finished.push_back(*work);
      }
    by_owner_.clear();
    backlog_.clear();
    resend_ = {};
    num_sends_ = 0;
  }
  drop_grants();
  if (connection_ != nullptr) transport_.bootstrap_.close(*std::exchange(connection_, nullptr));
  transport_.forget(*this);
  finished.finish_all();
  transport_.events_.on_lost(*this, {code, why_});
}

}  // namespace weft::transport
