#include "node/session.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "node/transport.hpp"

namespace weft::transport {

Session::Session(Transport& transport, peer::Connection& connection, bool opens)
    : transport_(transport),
      link_(*this),
      target_side_(link_, *this),
      connection_(&connection),
      theirs_(connection.theirs()),
      cookie_(connection.cookie()),
      opens_(opens) {
  retries_.reserve(2 * (kMaxDevices + 1));  // the stripes of all devices
}

// Links.

Status Session::begin(fabric::Endpoint& endpoint) {
  {
    std::lock_guard lock(lock_);
    use(endpoint);
    first_device_ =
        static_cast<std::size_t>(std::ranges::find(*devices_, &endpoint) - devices_->begin());
  }
  if (!endpoint.address().empty()) return open_link();
  std::vector<int> descriptors;
  fabric::Link* link = nullptr;
  if (Status status = endpoint.mapped()->offer(link, descriptors); !status) return status;
  link->client = &main_;
  Status status = or_no_memory([&] {
    return transport_.bootstrap_.send(*connection_, peer::FrameType::offer, endpoint.name(),
                                      descriptors);
  });
  for (const int descriptor : descriptors) ::close(descriptor);
  if (!status) {
    endpoint.close(*link);
    return status;
  }
  std::unique_lock lock(lock_);
  link_.set_opened(*link);
  link_.set_up();
  lock.unlock();
  note_up();
  return {};
}

void Session::use(fabric::Endpoint& endpoint) {
  transport_.note_used(endpoint);
  link_.use(endpoint, bytes_of(theirs_.on(endpoint.name(), main_.theirs)));
  devices_ = &transport_.devices_of(endpoint);
  message_max_ = endpoint.limits().message_max - sizeof(Head);
}

Status Session::open_link() {
  const std::size_t attempt = num_attempts_++;
  const std::size_t own = (first_device_ + attempt) % devices_->size();
  const std::size_t theirs = (own + attempt / devices_->size()) % num_their_devices();
  {
    std::lock_guard lock(lock_);
    main_.theirs = static_cast<std::uint32_t>(theirs);
    use(*(*devices_)[own]);
  }
  fabric::Link* link = nullptr;
  if (Status status = open_over(*endpoint(), own, theirs, 0, link_.next_opening(), link); !status)
    return status;
  link->client = &main_;
  std::lock_guard lock(lock_);
  link_.set_opened(*link);
  return {};
}

Status Session::open_over(fabric::Endpoint& endpoint, std::size_t own, std::size_t theirs,
                          std::size_t rail, std::uint32_t opening, fabric::Link*& link) {
  const LinkHello hello{cookie_,
                        kSessionVersion,
                        link_.num_received(),
                        static_cast<std::uint16_t>(rail),
                        static_cast<std::uint16_t>(own),
                        opening};
  return endpoint.open(bytes_of(theirs_.on(endpoint.name(), theirs)), as_bytes(hello), link);
}

// The route to the peer, for users who search for the reason of its silence: " (...)", or nothing.
std::string Session::way() const {
  if (endpoint() == nullptr) return {};
  const std::string text = endpoint()->way_to(bytes_of(theirs_.on(fabric(), main_.theirs)));
  return text.empty() ? text : " (" + text + ")";
}

// Ends the link: request_done() follows for each request in the fabric.
void Session::drop_link() {
  fabric::Link* link = nullptr;
  {
    std::lock_guard lock(lock_);
    link = link_.drop(now_ns());
    target_side_.on_link_end();
    posted_.for_each([this](NodeRequest& get) {
      if (!get.is_asked || get.access != Access::get) return;
      posted_.remove(get);
      drop_posted(*get.region);
      repost(get);
    });
  }
  if (link != nullptr) endpoint()->close(*link);
}

void Session::take_link(fabric::Endpoint& endpoint, fabric::Link& link, std::uint32_t received,
                        std::uint32_t device, std::uint32_t opening) {
  drop_link();
  bool makes_sense = true;
  const bool breaks = endpoint.limits().breaks;
  {
    std::lock_guard lock(lock_);
    main_.theirs = device;
    use(endpoint);
    link.client = &main_;
    if (breaks) {
      makes_sense = link_.take(link, received, opening);
    } else {
      link_.set_opened(link);
      link_.set_up();
    }
  }
  if (!makes_sense) return lose(Code::corrupt, "acknowledges what was never sent");
  if (!breaks) note_up();
}

void Session::note_up() {
  link_.note_received(now_ns());
  {
    // After a break the next device is tried first.
    std::lock_guard lock(lock_);
    const auto own = std::ranges::find(*devices_, endpoint());
    first_device_ = static_cast<std::size_t>(own - devices_->begin());
    num_attempts_ = std::max(devices_->size(), num_their_devices()) > 1 ? 1 : 0;
  }
  if (is_reported_) return;
  is_reported_ = true;
  {
    std::lock_guard lock(lock_);
    stats_.open(fabric(), theirs_.name.empty() ? theirs_.host : theirs_.name);
  }
  transport_.note_connected(*this);
}

void Session::on_down(Code why) {
  drop_link();
  if (why == Code::corrupt) return lose(why, "sends invalid data");
  if (!endpoint()->limits().breaks) return lose(Code::peer_lost, "its process has ended");
  {
    std::lock_guard lock(lock_);
    link_.note_down(why, now_ns());
  }
  transport_.note_room(why != Code::no_memory);
}

void Session::on_connection_end(const Status& why) {
  connection_ = nullptr;
  if (why == Code::timed_out) return;  // the liveness check decides
  // A frame was lost or invalid: a request that waits for it would wait forever.
  if (why != Code::peer_lost) return lose(why.code(), why.text());
  // A link that reports its end itself delivers all earlier messages before.
  bool ends_itself;
  {
    std::lock_guard lock(lock_);
    ends_itself = link_.is_up() && !endpoint()->limits().breaks;
  }
  if (!ends_itself) lose(Code::peer_lost, "its process has ended");
}

// Messages.

Code Session::send(fabric::Bytes bytes) {
  std::lock_guard lock(lock_);
  if (bytes.size() > message_max_) return Code::bad_argument;
  if (num_sends_ > 0) return Code::again;
  Head head{.kind = Kind::user};
  const Code code = post(head, bytes);
  if (code == Code::again) stats_.row().add(stats::Counter::stalls, 1);
  return code;
}

void Session::on_message(fabric::Bytes bytes) {
  Head head;
  fabric::Bytes data;
  if (!read_message(bytes, head, data)) return lose(Code::corrupt, "sends invalid data");
  ReliableLink::Received received;
  {
    std::lock_guard lock(lock_);
    received = link_.receive(head, bytes.size(), transport_.now_ns_);
    if (received == ReliableLink::Received::fresh) {
      stats_.row().add(stats::Counter::received, 1);
      stats_.row().add(stats::Counter::received_bytes, bytes.size());
    }
  }
  switch (received) {
    case ReliableLink::Received::corrupt:
      return lose(Code::corrupt, "sends messages out of order");
    case ReliableLink::Received::up:
      return note_up();
    case ReliableLink::Received::nothing:
      return;
    case ReliableLink::Received::fresh:
      break;
  }
  if (head.kind == Kind::user) [[likely]]
    return transport_.events_.on_message(*this, data);
  if (!dispatch(head.kind, bytes)) lose(Code::corrupt, "sends invalid data");
}

bool Session::dispatch(Kind kind, fabric::Bytes bytes) {
  MessageReader with{bytes};
  switch (kind) {
    case Kind::piece:
      return with(PieceMessage{}, [&](auto& m) { return on_piece(m, with.data); });
    case Kind::notify:
      return with(NotifyMessage{}, [&](auto& m) {
        transport_.events_.on_notify(*this, m.tag);
        return true;
      });
    case Kind::resolve:
      return with(ResolveMessage{}, [&](auto& m) { return on_resolve(m); });
    case Kind::device_key:
      return with(DeviceKeyMessage{}, [&](auto& m) { return on_device_key(m); });
    case Kind::resolved:
      return with(ResolvedMessage{}, [&](auto& m) { return on_resolved(m, nullptr); });
    case Kind::withdrawn:
      return with(HandleMessage{}, [&](auto& m) { return on_withdrawn(m.id); });
    case Kind::let_go:
      return with(HandleMessage{}, [&](auto& m) { return on_let_go(m.id); });
    case Kind::put:
    case Kind::get:
    case Kind::data:
    case Kind::atomic:
    case Kind::done:
      return on_target_side(kind, bytes);
    case Kind::bye:
      lose(Code::peer_lost, "has left");
      return true;
    case Kind::rest:
      return with(Head{}, [&](auto& m) {
        on_rest(m.id == 1);
        return true;
      });
    case Kind::rail_rest:
      return with(Head{}, [&](auto& m) {
        on_rail_rest(m.id, (m.flags & kOwnOpening) != 0);
        return true;
      });
    default:
      return false;
  }
}

bool Session::on_frame(peer::FrameType type, std::string_view body, std::span<int> descriptors) {
  if (type == peer::FrameType::mapping && descriptors.size() == 1) {
    ResolvedMessage message;
    fabric::Bytes data;
    return read_message(bytes_of(body), message, data) && on_resolved(message, &descriptors[0]);
  }
  if (type != peer::FrameType::offer || opens_ || state() != State::connecting) return false;
  for (const auto& endpoint : transport_.endpoints_) {
    if (endpoint->name() != body || endpoint->mapped() == nullptr) continue;
    fabric::Link* link = nullptr;
    // The endpoint owns them, even if it fails.
    const std::vector<int> offered(descriptors.begin(), descriptors.end());
    std::ranges::fill(descriptors, -1);
    Status status = endpoint->mapped()->accept(offered, link);
    if (!status) {
      lose(status.code(), status.text());
      return true;
    }
    take_link(*endpoint, *link, 0, 0, 0);
    return true;
  }
  return false;
}

// Progress.

void Session::make_busy() noexcept {
  // relaxed: the lock below orders the list.
  if (is_busy_.exchange(true, std::memory_order_relaxed)) return;
  std::lock_guard lock(transport_.busy_lock_);
  // Does not allocate: meet() has reserved capacity.
  transport_.busy_.push_back(shared_from_this());
  transport_.has_busy_.store(true, std::memory_order_relaxed);
}

bool Session::pump() {
  FinishedRequests finished;
  bool is_up_now = false, floods = false, lacks_memory = false, needs_puts = false,
       retry_limit_reached = false, wants_rails = false, wakes = false;
  {
    std::lock_guard lock(lock_);
    is_busy_.store(false, std::memory_order_relaxed);
    for (const auto& rail : rails_) {
      if (rail == nullptr) continue;
      if (std::exchange(rail->is_taken, false)) rail->is_up = true;
      wants_rails |= rail->is_wanted;
    }
    if (link_.is_up())
      while (NodeRequest* request = reposts_.first())
        if (!advance(*request, finished)) break;
    // Messages must not overtake the puts before them.
    link_.hold(!reposts_.empty());
    is_up_now = link_.pump();
    if (link_.is_up() && !reposts_.empty()) make_busy();
    if (link_.is_up() && reposts_.empty()) {
      while (NodeRequest* request = waiting_.first())
        if (!advance(*request, finished)) break;
      if (!target_side_.pump()) make_busy();
    }
    pump_stripes(finished);
    if (!link_.is_up()) wakes = link_.wake(now_ns(), waits());
    floods = link_.floods();
    lacks_memory = link_.lacks_memory();
    needs_puts = std::exchange(needs_puts_, false);
    retry_limit_reached = retry_limit_reached_;
  }
  if (wants_rails) open_rails(now_ns());
  if (wakes) open_next_link(now_ns());
  if (is_up_now) note_up();
  finished.finish_all();
  if (floods) lose(Code::no_memory, "asks for much and reads no answers");
  if (needs_puts) try_another_device();
  if (retry_limit_reached) lose(Code::peer_lost, "has links that break under one request");
  if (lacks_memory) lose(Code::no_memory, "needs messages, and there is no memory to send them");
  return is_busy_.load(std::memory_order_relaxed);
}

void Session::try_another_device() {
  bool is_too_long = false;
  {
    std::lock_guard lock(lock_);
    const NodeRequest* first = reposts_.first();
    is_too_long = first != nullptr && now_ns() > first->broken_ns + transport_.timeout_ns();
  }
  if (!is_too_long) return on_down(Code::peer_lost);
  lose(Code::peer_lost,
       "is reached only by a device without puts, and a notified put has to be done again");
}

void Session::note_away(std::uint64_t now, bool is_first) {
  std::lock_guard lock(lock_);
  link_.note_away(now, is_first);
}

std::uint64_t Session::unreachable_ns(std::uint64_t now) {
  std::lock_guard lock(lock_);
  return link_.unreachable_ns(now);
}

void Session::tick(std::uint64_t now) {
  const std::uint64_t timeout = transport_.timeout_ns();
  ReliableLink::Due due;
  {
    std::lock_guard lock(lock_);
    // The side that connected opens a broken link again. It may not know that the link is broken:
    // then the other side opens it after a while.
    due = link_.tick(now, timeout, waits() || is_unwatched(),
                     opens_ || link_.takes_turns() || link_.is_broken_for(timeout / 8, now));
  }
  if (due == ReliableLink::Due::ended) lose(Code::peer_lost, "its process has ended");
  if (due == ReliableLink::Due::gone)
    lose(Code::peer_lost,
         fmt::format("has been unreachable for {}{}", text_of_time(timeout), way()));
  if (due == ReliableLink::Due::stalled) {
    {
      std::lock_guard lock(lock_);
      if (link_.link() != nullptr) endpoint()->distrust(*link_.link());
    }
    drop_link();
    std::lock_guard lock(lock_);
    link_.note_down(Code::timed_out, now);
  }
  if (due == ReliableLink::Due::open) open_next_link(now);
  if (has_rails_.load(std::memory_order_relaxed)) tick_rails(now);
}

void Session::open_next_link(std::uint64_t now) {
  if (open_link()) return;
  std::lock_guard lock(lock_);
  link_.back_off_most(now);
}

// Returns true if something needs the peer.
bool Session::waits() const {
  return !waiting_.empty() || !posted_.empty() || !reposts_.empty() || !striped_.empty() ||
         !retries_.empty() || link_.has_unsent() || num_asked_ > 0;
}

// Where the bootstrap connection broke off nothing tells the end of a process, or of its host, that
// this side needs nothing of: it is asked then.
bool Session::is_unwatched() const {
  return connection_ == nullptr && endpoint() != nullptr && endpoint()->limits().breaks;
}

void Session::say_goodbye() {
  Head head{.kind = Kind::bye};
  std::lock_guard lock(lock_);
  if (link_.is_up() || link_.takes_turns()) post_control(head);
}

// Turns.

bool Session::is_at_work() const {
  for (const NodeRequest* one = posted_.first(); one != nullptr; one = one->next)
    if (one->rail == nullptr && one->id == 0 && !is_striped(*one)) return true;
  return main_.num_posted > 0;
}

void Session::rest() {
  std::lock_guard lock(lock_);
  link_.rest();
}

void Session::on_rest(bool answers) {
  {
    std::lock_guard lock(lock_);
    // First the answers to what the peer asked for before.
    if (link_.is_up()) target_side_.pump();
    if (!link_.on_rest(answers)) return;
  }
  drop_link();
  transport_.note_room(true);
}

void Session::lose(Code code, std::string_view why) noexcept {
  const auto keeps = shared_from_this();
  {
    std::lock_guard lock(lock_);
    if (!link_.lose()) return;
    why_ = code;
    or_no_memory([&] {
      why_ = {code, fmt::format("{} {}", theirs_.name.empty() ? "the peer" : theirs_.name, why)};
    });
  }
  // Otherwise nothing here would report it.
  if (code == Code::no_memory && user == nullptr)
    or_no_memory([&] { log_line(LogLevel::warn, -1, "refused a peer: {}", why_.text()); });
  // acquire: pairs with the end of post_on().
  while (num_posting_.load(std::memory_order_acquire) != 0) cpu_relax();
  or_no_memory([&] { drop_link(); });
  or_no_memory([&] {
    for (const auto& rail : rails_)
      if (rail != nullptr) drop_rail(*rail);
  });
  RequestList finished;
  {
    std::lock_guard lock(lock_);
    for (auto& [key, region] : regions_) end_region(*region, code);
    regions_.clear();
    retries_.clear();
    for (RequestList* list : {&waiting_, &reposts_, &posted_, &striped_})
      while (NodeRequest* request = list->pop_front()) {
        target_side_.drop(*request);
        request->code = code;
        finished.push_back(*request);
      }
    num_sends_ = 0;
  }
  granted_.for_each([](std::uint32_t, Granted& granted) { --granted.region->num_users; });
  granted_ = {};
  if (connection_ != nullptr) transport_.bootstrap_.close(*std::exchange(connection_, nullptr));
  transport_.forget(*this);
  finished.finish_all();
  transport_.events_.on_lost(*this, why_);
}

}  // namespace weft::transport
