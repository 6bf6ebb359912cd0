#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "mcast/group/group_impl.hpp"
#include "mcast/group/multicast_impl.hpp"
#include "weft/job.hpp"

namespace weft {

Multicast::Multicast(const NodeSettings& settings)
    : impl_(std::make_shared<mcast::MulticastImpl>(settings)) {}
Multicast::Multicast(transport::Job& job, const NodeSettings& settings)
    : impl_(std::make_shared<mcast::MulticastImpl>(job, settings)) {}
Multicast::~Multicast() = default;
Node& Multicast::node() noexcept { return impl_->node(); }

namespace mcast {

namespace {

// Time that the thread polls after the last event before it sleeps, as in the paper.
constexpr auto kPollFor = std::chrono::milliseconds(50);
// A longer yield shows that another thread needs this core, so the thread sleeps instead.
constexpr auto kCrowded = std::chrono::microseconds(10);
constexpr std::chrono::milliseconds kSleep{20}, kSleepToTry{1};
constexpr auto kConnectAgain = std::chrono::milliseconds(50);
constexpr std::size_t kMaxMessageBytes = 64 << 10;
constexpr std::size_t kMaxEarly = 100'000;
constexpr std::size_t kMostHelloText = 80;    // that is kept of an early one
constexpr std::size_t kMaxFailures = 10'000;  // remembered by group

std::size_t count_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

}  // namespace

MulticastImpl::MulticastImpl(const NodeSettings& given) : num_cores_(count_cores()) {
  NodeSettings settings = given;
  settings.progress_thread = false;
  node_ = std::make_unique<Node>(settings);
  if (::pipe2(wake_pipe_, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error({Code::no_memory, "no descriptors are left for a Multicast"});
  node_->on_peer([this](const Peer& peer) { post({.kind = Event::Kind::peer, .peer = peer}); });
  node_->on_lost([this](const Peer& peer, const Status& why) {
    post({.kind = Event::Kind::lost, .peer = peer, .status = why});
  });
  node_->on_message([this](const Peer& peer, Bytes bytes) {
    if (bytes.size() > kMaxMessageBytes) return;  // no member sends so much
    post({.kind = Event::Kind::message, .peer = peer, .bytes = {bytes.begin(), bytes.end()}});
  });
  node_->on_notify([this](const Peer& peer, const NotifyTag& tag) {
    post({.kind = Event::Kind::notify, .peer = peer, .tag = tag});
  });
  thread_ = std::thread([this] { run(); });
}

MulticastImpl::MulticastImpl(transport::Job& job, const NodeSettings& settings)
    : MulticastImpl(settings_of(job, settings)) {
  ranks_ = meet(job, *node_);
  rank_ = job.rank();
}

MulticastImpl::~MulticastImpl() {
  stops_.store(true, std::memory_order_relaxed);
  wake();
  thread_.join();
  node_.reset();
  for (const int descriptor : wake_pipe_)
    if (descriptor >= 0) ::close(descriptor);
}

void MulticastImpl::post(Event event) {
  {
    std::lock_guard guard(inbox_lock_);
    inbox_.push_back(std::move(event));
  }
  // A thread of the program made the Node's progress.
  if (!is_own_thread()) wake();
}

void MulticastImpl::wake() { [[maybe_unused]] const auto n = ::write(wake_pipe_[1], "", 1); }

// Groups.

void MulticastImpl::add(std::shared_ptr<GroupImpl> group) {
  const std::uint64_t id = group->id();
  groups_[id] = group;
  by_handle_[group->handle()] = group.get();
  const auto found = early_of_.find(id);
  if (found == early_of_.end()) return;
  std::list<Early> early;
  for (const auto& item : found->second) early.splice(early.end(), early_, item);
  early_of_.erase(found);
  for (const Early& item : early) {
    const auto connection = by_generation_.find(item.generation);
    if (connection == by_generation_.end()) continue;
    if (group->wants_hello(*connection->second))
      group->on_message(*connection->second, item.hello);
    else
      group->refuse_foreign_hello(*connection->second, item.hello);
  }
}

// Early hellos are bounded: the sender of a dropped one fails its group by create_timeout_ms.
void MulticastImpl::keep_early(const Early& early) {
  if (early_.size() >= kMaxEarly) {
    // The oldest of all hellos is also the oldest of its group.
    const auto of_group = early_of_.find(early_.front().group);
    of_group->second.pop_front();
    if (of_group->second.empty()) early_of_.erase(of_group);
    early_.pop_front();
  }
  early_of_[early.group].push_back(early_.insert(early_.end(), early));
}

void MulticastImpl::drop_early_of_group(std::uint64_t group) {
  const auto of_group = early_of_.find(group);
  if (of_group == early_of_.end()) return;
  for (const auto& early : of_group->second) early_.erase(early);
  early_of_.erase(of_group);
}

void MulticastImpl::drop_early_from(std::uint64_t generation) {
  for (auto of_group = early_of_.begin(); of_group != early_of_.end();) {
    std::erase_if(of_group->second,
                  [&](const auto& early) { return early->generation == generation; });
    of_group = of_group->second.empty() ? early_of_.erase(of_group) : std::next(of_group);
  }
  std::erase_if(early_, [&](const Early& early) { return early.generation == generation; });
}

void MulticastImpl::remove(GroupImpl& group) {
  for (auto& [address, connection] : connections_) connection->groups.erase(&group);
  by_handle_.erase(group.handle());
  std::erase_if(active_, [&](const auto& item) { return item.get() == &group; });
  const auto found = groups_.find(group.id());
  if (found != groups_.end() && found->second.get() == &group) groups_.erase(found);
}

void MulticastImpl::make_active(GroupImpl& group) {
  if (std::exchange(group.is_active, true)) return;
  active_.push_back(group.shared_from_this());
}

std::size_t MulticastImpl::num_local_members() const {
  std::size_t count = 1;
  for (const auto& [address, connection] : connections_)
    if (connection->peer && !connection->groups.empty() && connection->peer.is_mapped()) ++count;
  return count;
}

// Connections.

Connection& MulticastImpl::use(const std::string& own, const std::string& theirs,
                               GroupImpl& group) {
  auto& connection = connections_[theirs];
  if (connection == nullptr) {
    connection = std::make_unique<Connection>();
    connection->address = theirs;
  }
  connection->groups.insert(&group);
  // The side with the smaller address connects, so that both agree in every group.
  if (!connection->peer && own < theirs) {
    connection->own = own;
    to_connect_.insert(connection.get());
  }
  return *connection;
}

void MulticastImpl::tell_failure(Connection& connection, std::uint64_t group,
                                 Clock::time_point until) {
  if (connection.peer)
    send(connection, *failure_of(group));
  else
    connection.untold[group] = until;
}

bool MulticastImpl::has_untold(Clock::time_point now) const {
  return std::ranges::any_of(connections_,
                             [&](const auto& item) { return item.second->has_untold(now); });
}

bool MulticastImpl::connect_some(Clock::time_point now) {
  bool any = false;
  for (Connection* connection : to_connect_) {
    if (connection->is_connecting || now < connection->try_again ||
        (connection->groups.empty() && !connection->has_untold(now)))
      continue;
    connection->is_connecting = true;
    any = true;
    node_->connect_async(connection->address,
                         [this, address = connection->address](Status status, Peer peer) {
                           post({.kind = Event::Kind::connected,
                                 .peer = std::move(peer),
                                 .status = std::move(status),
                                 .address = address});
                         });
  }
  return any;
}

void MulticastImpl::bind(Connection& connection, const Peer& peer, bool opened_here) {
  connection.peer = peer;
  connection.is_connecting = false;
  to_connect_.erase(&connection);
  by_generation_[peer.generation()] = &connection;
  if (opened_here) {
    const Head head{.kind = Kind::identify,
                    .text_bytes = static_cast<std::uint32_t>(connection.own.size())};
    send(connection, std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(connection.own)));
  }
  for (const auto& [group, until] : std::exchange(connection.untold, {}))
    if (const auto* failure = failure_of(group); failure != nullptr) send(connection, *failure);
  for (GroupImpl* group : std::vector(connection.groups.begin(), connection.groups.end()))
    group->on_connected(connection);
}

void MulticastImpl::send(Connection& connection, Bytes head, Bytes body) {
  if (!connection.peer) return;
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  connection.unsent.push_back({std::move(bytes), nullptr});
  flush(connection);
}

bool MulticastImpl::flush(Connection& connection) {
  auto& unsent = connection.unsent;
  while (!unsent.empty()) {
    Connection::Unsent& first = unsent.front();
    if (first.operation != nullptr) {
      if (!first.operation->is_done()) break;
    } else if (first.bytes.size() > connection.peer.message_max()) {
      first.operation = std::make_unique<Operation>();
      node_->send(connection.peer, first.bytes.data(), first.bytes.size(), *first.operation);
      continue;
    } else if (node_->send(connection.peer, first.bytes.data(), first.bytes.size()) ==
               Code::again) {
      break;
    }
    unsent.pop_front();  // sent, or the peer is lost, which is reported separately
  }
  if (unsent.empty())
    to_flush_.erase(&connection);
  else
    to_flush_.insert(&connection);
  return unsent.empty();
}

// Events.

bool MulticastImpl::take_events() {
  {
    std::lock_guard guard(inbox_lock_);
    taken_.swap(inbox_);
  }
  for (Event& event : taken_) handle(event);
  const bool any = !taken_.empty();
  taken_.clear();
  return any;
}

void MulticastImpl::handle(Event& event) {
  switch (event.kind) {
    case Event::Kind::peer:
      return;
    case Event::Kind::connected: {
      const auto found = connections_.find(event.address);
      if (found == connections_.end()) return;
      Connection& connection = *found->second;
      connection.is_connecting = false;
      if (!event.status || !event.peer) {
        connection.last_failure = event.status;
        connection.try_again = Clock::now() + kConnectAgain;
        if (event.status == Code::not_permitted || event.status == Code::bad_argument ||
            event.status == Code::unsupported)
          for (GroupImpl* group : std::vector(connection.groups.begin(), connection.groups.end()))
            group->on_unreachable(connection, event.status);
        return;
      }
      bind(connection, event.peer, true);
      return;
    }
    case Event::Kind::lost:
      return on_lost(event.peer, event.status);
    case Event::Kind::message:
      return on_message(event.peer, event.bytes);
    case Event::Kind::notify: {
      const BlockTag tag = from_tag(event.tag);
      const auto connection = by_generation_.find(event.peer.generation());
      const auto group = by_handle_.find(tag.handle);
      if (connection != by_generation_.end() && group != by_handle_.end())
        group->second->on_block(*connection->second, tag);
      return;
    }
  }
}

void MulticastImpl::on_message(const Peer& peer, Bytes bytes) {
  Head head;
  Bytes body;
  if (!read_message(bytes, head, body)) return;
  auto found = by_generation_.find(peer.generation());
  if (head.kind == Kind::identify) {
    // Ignore a malformed or repeated identify.
    if (head.text_bytes != body.size() || body.size() > kMaxTextBytes * 8 ||
        (found != by_generation_.end() && found->second->peer == peer))
      return;
    const std::string address(reinterpret_cast<const char*>(body.data()), body.size());
    // A peer connects only without a connection, so the previous one has ended at its side, unless
    // its list has it by another address.
    if (found != by_generation_.end()) {
      Connection& connection = *found->second;
      const Peer before = connection.peer;
      if (connection.address != address)
        for (GroupImpl* group : std::vector(connection.groups.begin(), connection.groups.end()))
          group->on_unreachable(
              connection,
              {Code::bad_argument, fmt::format("its own list has '{}' in its place", address)});
      on_lost(before, {Code::peer_lost, "the connection has ended at its side"});
      call([this, before] { node_->close(before); });
    }
    auto& connection = connections_[address];
    if (connection == nullptr) {
      connection = std::make_unique<Connection>();
      connection->address = address;
    }
    if (!connection->peer) bind(*connection, peer, false);
    return;
  }
  if (found == by_generation_.end()) return;
  Connection& connection = *found->second;
  const auto group = groups_.find(head.group);
  const bool is_here = group != groups_.end();
  if (head.kind == Kind::failed) {
    FailedMessage message;
    if (is_here) {
      std::shared_ptr(group->second)->on_message(connection, bytes);
    } else if (read_message(bytes, message, body) && is_sane(message, body)) {
      note_failed(head.group, message, {reinterpret_cast<const char*>(body.data()), body.size()});
      // A late member is notified of the failure, no matter who greeted first.
      drop_early_of_group(head.group);
    }
    return;
  }
  if (head.kind == Kind::hello) {
    if (const auto* failure = failure_of(head.group); failure != nullptr)
      return send(connection, *failure);
    if (is_here && group->second->wants_hello(connection))
      return std::shared_ptr(group->second)->on_message(connection, bytes);
    if (is_here && group->second->refuse_foreign_hello(connection, bytes)) return;
    HelloMessage hello;
    if (!read_hello(bytes, hello)) return;
    // With the text behind it, of which errors show a part.
    bytes = bytes.first(std::min(bytes.size(), sizeof hello + kMostHelloText));
    keep_early({peer.generation(), head.group, {bytes.begin(), bytes.end()}});
    return;
  }
  if (is_here && head.to == group->second->handle())
    std::shared_ptr(group->second)->on_message(connection, bytes);
}

void MulticastImpl::note_failed(std::uint64_t group, const FailedMessage& message,
                                std::string_view text) {
  if (failures_.contains(group)) return;
  std::vector<std::byte> bytes(sizeof message + text.size());
  std::memcpy(bytes.data(), &message, sizeof message);
  std::memcpy(bytes.data() + sizeof message, text.data(), text.size());
  failures_[group] = std::move(bytes);
  failed_ids_.push_back(group);
  if (failed_ids_.size() <= kMaxFailures) return;
  failures_.erase(failed_ids_.front());
  failed_ids_.pop_front();
}

const std::vector<std::byte>* MulticastImpl::failure_of(std::uint64_t group) const {
  const auto found = failures_.find(group);
  return found == failures_.end() ? nullptr : &found->second;
}

void MulticastImpl::on_lost(const Peer& peer, const Status& why) {
  const auto found = by_generation_.find(peer.generation());
  if (found == by_generation_.end() || !(found->second->peer == peer)) return;
  Connection& connection = *found->second;
  by_generation_.erase(found);
  connection.peer = {};
  connection.unsent.clear();
  to_flush_.erase(&connection);
  drop_early_from(peer.generation());
  for (GroupImpl* group : std::vector(connection.groups.begin(), connection.groups.end())) {
    group->on_lost(connection, why);
  }
}

// The thread.

bool MulticastImpl::make_calls() {
  std::vector<std::function<void()>> calls;
  {
    std::lock_guard guard(lock_);
    calls.swap(calls_);
  }
  for (const auto& function : calls) function();
  return !calls.empty();
}

void MulticastImpl::sleep() {
  bool armed = node_->arm();
  waits_.assign({{node_->event_fd(), POLLIN, 0}, {wake_pipe_[0], POLLIN, 0}});
  // The Node has work that no descriptor announces: yield instead of sleeping.
  if (!armed) {
    ::sched_yield();
    return;
  }
  std::chrono::microseconds most = kSleep;
  {
    std::lock_guard guard(lock_);
    if (!to_connect_.empty() || !to_flush_.empty()) most = kSleepToTry;
    for (const auto& group : active_) group->add_waits(waits_, most);
  }
  const timespec timeout{0, std::chrono::nanoseconds(most).count()};
  ::ppoll(waits_.data(), waits_.size(), &timeout, nullptr);
  char bytes[64];
  while (::read(wake_pipe_[0], bytes, sizeof bytes) > 0) continue;
}

void MulticastImpl::run() {
  bool sleeps_at_once = true;
  Clock::time_point counted{}, crowded_until{};
  while (!stops_.load(std::memory_order_relaxed)) {
    bool any = node_->progress();
    const Clock::time_point now = Clock::now();
    {
      std::lock_guard guard(lock_);
      any |= take_events();
      if (!to_connect_.empty()) any |= connect_some(now);
      if (!to_flush_.empty())
        for (Connection* connection : std::vector(to_flush_.begin(), to_flush_.end()))
          any |= flush(*connection);
      // Indices stay valid: a group may make another one active.
      for (std::size_t i = 0; i < active_.size();) {
        const auto group = active_[i];
        bool has_more = true;
        any |= group->advance(now, has_more);
        if (has_more) {
          ++i;
          continue;
        }
        group->is_active = false;
        active_[i] = active_.back();
        active_.pop_back();
      }
      if (now - counted > kPollFor) {
        sleeps_at_once = num_local_members() > num_cores_;
        counted = now;
      }
    }
    any |= make_calls();
    if (any) {
      last_event_ = now;
    } else if (sleeps_at_once || now < crowded_until || now - last_event_ > kPollFor) {
      sleep();
    } else {
      ::sched_yield();
      const Clock::time_point after = Clock::now();
      if (after - now > kCrowded) crowded_until = after + kPollFor;
    }
  }
  // Flush: other members receive the reasons why groups ended.
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(1);
  for (bool is_sent = false; !is_sent && Clock::now() < limit;) {
    if (!node_->progress()) ::sched_yield();
    const Clock::time_point now = Clock::now();
    std::lock_guard guard(lock_);
    take_events();
    connect_some(now);
    for (Connection* connection : std::vector(to_flush_.begin(), to_flush_.end()))
      flush(*connection);
    is_sent = to_flush_.empty() && !has_untold(now);
  }
}

}  // namespace mcast

}  // namespace weft
