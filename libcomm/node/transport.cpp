#include "node/transport.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "peer/sockets.hpp"
#include "peer/turns.hpp"

namespace weft::transport {

namespace {

constexpr std::uint64_t kTickNs = 5'000'000;
// A process that has not looked at its peers for so long has to hear them first.
constexpr std::uint64_t kMostAwayNs = 1'000'000'000;
// So much longer than the timeout a bootstrap connection may be silent: the kernel asks every 2 s,
// and counts from the last answer, which may have come 2 s before the network failed.
constexpr std::uint64_t kBootstrapMoreMs = 3000;
constexpr std::uint64_t kSocketsNs = 500'000;  // between two polls of the sockets
constexpr std::uint32_t kTickPolls = 64;
constexpr std::uint64_t kGoodbyeNs = 1'000'000'000;
constexpr std::uint64_t kCrowdedNs = 1'000'000'000;  // without rails, after links had no room
constexpr std::string_view kNoMemory = "needs memory, and there is none left here";

bool is_unix(const std::string& bootstrap) { return bootstrap.starts_with("unix:"); }

int bootstrap_silence_ms(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(timeout_ns / 1'000'000 + kBootstrapMoreMs, kMost));
}

peer::NodeAddress own_address(std::string name,
                              const std::vector<std::unique_ptr<fabric::Endpoint>>& endpoints) {
  peer::NodeAddress address;
  address.name = std::move(name);
  address.generation = peer::random_word();
  address.host = peer::host_identity();
  for (const auto& endpoint : endpoints)
    address.fabrics.push_back({std::string(endpoint->name()), endpoint->address()});
  return address;
}

}  // namespace

Transport::Transport(Events& events, const peer::Secret& secret, std::string name,
                     std::uint64_t timeout_ns,
                     std::vector<std::unique_ptr<fabric::Endpoint>> endpoints)
    : events_(events),
      bootstrap_(secret, own_address(std::move(name), endpoints), bootstrap_silence_ms(timeout_ns)),
      timeout_ns_(timeout_ns),
      endpoints_(std::move(endpoints)),
      epoll_(make_epoll()),
      now_ns_(coarse_now_ns()) {
  auto watch = [&](int descriptor) {
    if (watch_for_input(epoll_, descriptor)) return;
    throw Error({Code::no_memory, "the kernel has no memory left for a Node"});
  };
  watch(bootstrap_.wait_fd());
  used_.reserve(endpoints_.size());
  for (const auto& endpoint : endpoints_) {
    if (endpoint->wait_fd() >= 0) watch(endpoint->wait_fd());
    const auto same = std::ranges::find_if(
        devices_, [&](const auto& group) { return group.front()->name() == endpoint->name(); });
    if (same == devices_.end())
      devices_.push_back({endpoint.get()});
    else
      same->push_back(endpoint.get());
  }
}

const std::vector<fabric::Endpoint*>& Transport::devices_of(
    const fabric::Endpoint& endpoint) const {
  return *std::ranges::find_if(
      devices_, [&](const auto& group) { return group.front()->name() == endpoint.name(); });
}

void Transport::end() {
  std::lock_guard lock(progress_);
  in_poll_ = true;  // disables poll()
  while (!sessions_.empty())
    sessions_.back()->lose(Code::cancelled, "was closed: the Node has ended");
  for (const auto& connecting : std::exchange(connecting_, {}))
    if (!connecting->is_done) {
      connecting->status = status_of(Code::cancelled, "the Node has ended");
      connecting->is_done = true;
    }
  while (!regions_.empty()) drop(std::shared_ptr<Region>(regions_.begin()->second));
  lost_.clear();
}

Transport::~Transport() { end(); }

// Meeting.

// All of its bootstrap addresses, so that its Unix sockets are tried first.
void Transport::add_candidates(Connecting& connecting, const peer::NodeAddress& theirs) {
  auto& to = connecting.candidates;
  const auto added = to.insert(to.end(), theirs.bootstraps.begin(), theirs.bootstraps.end());
  std::stable_partition(added, to.end(), std::not_fn(is_unix));
}

Status Transport::listen(std::string_view address) {
  // Processes of the host connect by a Unix socket, so that they can share memory.
  std::string text;
  if (!address.starts_with("unix:"))
    if (Status status = this->address(text); !status) return status;
  is_urgent_ = true;
  return bootstrap_.listen(address);
}

Status Transport::address(std::string& text) {
  peer::NodeAddress& own = bootstrap_.own();
  if (!std::ranges::any_of(own.bootstraps, is_unix))
    if (Status status = bootstrap_.listen(fmt::format("unix:@weft-{:016x}", own.generation));
        !status)
      return status;
  peer::NodeAddress advertised = own;
  advertised.bootstraps = peer::reached_at(own.bootstraps, peer::kMaxBootstraps);
  text = peer::to_text(advertised);
  return {};
}

void Transport::connect(std::string_view text, std::uint64_t deadline_ns,
                        std::shared_ptr<Connecting> to) {
  to->deadline_ns = deadline_ns;
  if (peer::is_address_text(text)) {
    peer::NodeAddress theirs;
    if (Status status = peer::from_text(text, theirs); !status) {
      to->status = status;
      to->is_done = true;
      return;
    }
    const bool is_here = theirs.host == bootstrap_.own().host;
    add_candidates(*to, theirs);
    if (!is_here) std::erase_if(to->candidates, is_unix);
    // Bridges to containers have the same address on many hosts: one that this host has, too, leads
    // to this host.
    if (!is_here && to->candidates.size() > 1) {
      const std::vector<std::string> own = peer::own_addresses();
      std::erase_if(to->candidates, [&](const std::string& item) {
        return std::ranges::find(own, peer::host_of(item)) != own.end();
      });
    }
    to->tried_unix = true;
    to->last_failure = {
        Code::not_found,
        fmt::format("the Node {} is on another host and listens on no host:port", theirs.name)};
  } else {
    to->candidates.emplace_back(text);
  }
  connecting_.push_back(to);
  ++num_awaited_;
  if (or_no_memory([&] { try_next(to); }) != Code::ok)
    end_connecting(to.get(), Code::no_memory, nullptr);
}

void Transport::try_next(std::shared_ptr<Connecting> connecting) {
  while (!connecting->candidates.empty()) {
    const std::string address = std::move(connecting->candidates.back());
    connecting->candidates.pop_back();
    // Each address gets a share of the time, in case it does not answer.
    const std::uint64_t left = connecting->candidates.size() + 1, now = now_ns();
    const std::uint64_t deadline_ns =
        now + (connecting->deadline_ns - std::min(connecting->deadline_ns, now)) / left;
    Status status = bootstrap_.connect(address, deadline_ns, connecting.get());
    if (status) return;
    connecting->last_failure = status;
  }
  end_connecting(connecting.get(), connecting->last_failure, nullptr);
}

std::shared_ptr<Transport::Connecting> Transport::find(void* pointer) {
  for (const auto& item : connecting_)
    if (item.get() == pointer) return item;
  return nullptr;
}

Transport::Connecting* Transport::connecting_to(const Session& session) {
  for (const auto& item : connecting_)
    if (item->session.get() == &session) return item.get();
  return nullptr;
}

void Transport::end_connecting(Connecting* pointer, Status status,
                               std::shared_ptr<Session> session) {
  const auto connecting = find(pointer);
  if (connecting == nullptr) return;
  std::erase(connecting_, connecting);
  --num_awaited_;
  connecting->status = std::move(status);
  connecting->session = std::move(session);
  connecting->is_done = true;
}

bool Transport::on_met(peer::Connection& connection, bool connected_here) {
  void* const client = connection.client;
  std::shared_ptr<Session> session;
  bool stays = false;
  if (or_no_memory([&] { stays = meet(connection, connected_here, session); }) == Code::ok)
    return stays;
  if (session != nullptr) {
    session->connection_ = nullptr;  // returning false closes it
    session->lose(Code::no_memory, kNoMemory);
  } else {
    log_line(LogLevel::warn, -1, "refused a peer: no memory for it");
  }
  if (connected_here) end_connecting(find(client).get(), Code::no_memory, nullptr);
  return false;
}

bool Transport::meet(peer::Connection& connection, bool connected_here,
                     std::shared_ptr<Session>& session) {
  std::shared_ptr<Connecting> connecting;
  const peer::NodeAddress& theirs = connection.theirs();
  if (connected_here) {
    connecting = find(connection.client);
    if (connecting == nullptr) return false;
    // Memory of this host can be shared only through a Unix socket.
    if (!connection.is_unix() && !connecting->tried_unix && theirs.host == bootstrap_.own().host &&
        mapped() != nullptr) {
      connecting->tried_unix = true;
      if (std::ranges::any_of(theirs.bootstraps, is_unix)) {
        add_candidates(*connecting, theirs);
        try_next(connecting);
        return false;
      }
    }
  }
  session = std::make_shared<Session>(*this, connection, connected_here);
  if (connected_here) connecting->session = session;
  // So that make_busy() and lose() do not allocate.
  make_room(sessions_);
  make_room(lost_, sessions_.size() + 1);
  {
    std::lock_guard lock(busy_lock_);
    make_room(busy_, sessions_.size() + 1);
    pumped_.reserve(busy_.capacity());
  }
  by_cookie_[session->cookie()] = session.get();
  connection.client = session.get();
  sessions_.push_back(session);
  if (!connected_here) return true;

  std::string text = fmt::format("no fabric leads to {}: it has", theirs.name);
  for (const auto& [fabric, on] : theirs.fabrics) text += " " + fabric;
  Status status{Code::unsupported, std::move(text)};
  for (const auto& endpoint : endpoints_) {
    const bool maps = endpoint->address().empty();
    const bool has_it = std::ranges::any_of(
        theirs.fabrics, [&](const auto& item) { return item.fabric == endpoint->name(); });
    if (!has_it || (maps && !connection.is_unix())) continue;
    Status begun = session->begin(*endpoint);
    if (begun) return true;
    status = begun;
  }
  session->connection_ = nullptr;  // returning false closes it
  end_connecting(connecting.get(), status, nullptr);
  session->lose(status.code(), status.text());
  return false;
}

void Transport::on_failed(peer::Connection& connection, const Status& status) {
  const auto connecting = find(connection.client);
  if (connecting == nullptr) return;
  connecting->last_failure = status;
  if (or_no_memory([&] { try_next(connecting); }) != Code::ok)
    end_connecting(connecting.get(), Code::no_memory, nullptr);
}

template <class F>
void Transport::guard(Session& session, F&& f) noexcept {
  if (or_no_memory(f) != Code::ok) session.lose(Code::no_memory, kNoMemory);
}

bool Transport::on_frame(peer::Connection& connection, peer::FrameType type, std::string_view body,
                         std::span<int> descriptors) {
  auto* session = static_cast<Session*>(connection.client);
  const auto keeps = session->shared_from_this();
  bool makes_sense = true;
  guard(*session, [&] { makes_sense = session->on_frame(type, body, descriptors); });
  return makes_sense;
}

void Transport::on_end(peer::Connection& connection, const Status& why) {
  auto* session = static_cast<Session*>(connection.client);
  const auto keeps = session->shared_from_this();
  guard(*session, [&] { session->on_connection_end(why); });
}

bool Transport::on_incoming(fabric::Link& link, fabric::Bytes hello) {
  LinkHello opening;
  fabric::Bytes rest;  // fabrics may add zeros
  if (!read_message(hello, opening, rest) || opening.version != kSessionVersion) return false;
  const auto found = by_cookie_.find(opening.cookie);
  if (found == by_cookie_.end()) return false;
  const auto keeps = found->second->shared_from_this();
  // Requests under way rely on the limits of the session's fabric.
  if (keeps->endpoint() != nullptr && keeps->endpoint()->name() != polled_->name()) return false;
  if (opening.rail != 0) {
    bool takes = false;
    guard(*keeps, [&] { takes = keeps->take_rail(*polled_, link, opening); });
    return takes;
  }
  if (opening.device >= keeps->theirs().num_devices(polled_->name())) return false;
  if (keeps->link_.has_left(opening.opening)) return false;
  // If both sides open a link at once, the one of the side that connected wins.
  if (keeps->opens_ && keeps->is_opening()) return false;
  guard(*keeps, [&] {
    keeps->take_link(*polled_, link, opening.received, opening.device, opening.opening);
  });
  return keeps->state() != Session::State::lost;
}

// Does nothing for the main link: the peer's resume message follows.
void Transport::on_up(fabric::Link& link) {
  auto& rail = *static_cast<Rail*>(link.client);
  if (rail.number != 0) rail.session.on_rail_up(rail);
}

void Transport::on_down(fabric::Link& link, Code why) {
  auto* rail = static_cast<Rail*>(link.client);
  if (rail == nullptr) return;
  const auto keeps = rail->session.shared_from_this();
  guard(*keeps, [&] {
    if (rail->number == 0)
      keeps->on_down(why);
    else
      keeps->on_rail_down(*rail, why);
  });
}

void Transport::on_message(fabric::Link& link, fabric::Bytes bytes) {
  auto& rail = *static_cast<Rail*>(link.client);
  if (rail.number == 0) {
    if (or_no_memory([&] { rail.session.on_message(bytes); }) == Code::ok) [[likely]]
      return;
    const auto keeps = rail.session.shared_from_this();
    return keeps->lose(Code::no_memory, kNoMemory);
  }
  const auto keeps = rail.session.shared_from_this();
  keeps->lose(Code::corrupt, "sends messages where none belong");
}

void Transport::note_connected(Session& session) {
  events_.on_connected(session);
  end_connecting(connecting_to(session), {}, session.shared_from_this());
}

void Transport::forget(Session& session) {
  by_cookie_.erase(session.cookie());
  end_connecting(connecting_to(session), session.why_, nullptr);
  const auto found =
      std::ranges::find_if(sessions_, [&](const auto& item) { return item.get() == &session; });
  if (found == sessions_.end()) return;
  lost_.push_back(std::move(*found));
  sessions_.erase(found);
}

void Transport::close(Session& session) {
  const auto keeps = session.shared_from_this();
  session.say_goodbye();
  const std::uint64_t limit = now_ns() + std::min(timeout_ns_, kGoodbyeNs);
  while (session.is_sending() && now_ns() < limit && !in_poll_) poll();
  session.lose(Code::cancelled, "was closed");
}

void Transport::close_all() {
  std::lock_guard lock(progress_);
  for (const auto& session : sessions_) session->say_goodbye();
  const std::uint64_t limit = now_ns() + std::min(timeout_ns_, kGoodbyeNs);
  while (!in_poll_ && now_ns() < limit &&
         std::ranges::any_of(sessions_, [](const auto& session) { return session->is_sending(); }))
    poll();
}

// Memory.

fabric::Mapped* Transport::mapped() {
  for (const auto& endpoint : endpoints_)
    if (endpoint->mapped() != nullptr) return endpoint->mapped();
  return nullptr;
}

std::shared_ptr<Region> Transport::add_region(std::byte* address, std::size_t bytes,
                                              bool allocated) {
  auto made = std::make_shared<Region>();
  made->id = ++last_region_;
  made->address = address;
  made->bytes = bytes;
  made->is_allocated = allocated;
  regions_[made->id] = made;
  return made;
}

Status Transport::make_key(Region& region, std::uint32_t rights, std::uint64_t only,
                           MemoryKey& key) {
  if (region.is_withdrawn || rights == 0 || (rights & ~std::uint32_t{kAllRights}) != 0)
    return Code::bad_argument;
  Region::Grant* grant = nullptr;
  for (Region::Grant& item : region.grants)
    if (item.rights == rights && item.only == only) grant = &item;
  if (grant == nullptr) {
    grant = &region.grants.emplace_back();
    grant->rights = rights;
    grant->only = only;
    peer::fill_random(grant->secret.data(), grant->secret.size());
  }
  const KeyParts parts{generation(), region.id, grant->secret};
  std::memcpy(key.bytes.data(), &parts, sizeof parts);
  return {};
}

void Transport::withdraw(const std::shared_ptr<Region>& region) {
  region->is_withdrawn = true;
  regions_.erase(region->id);
  for (const auto& session : sessions_) session->withdraw(region);
}

void Transport::drop(const std::shared_ptr<Region>& region) {
  region->is_withdrawn = true;
  regions_.erase(region->id);
  for (Region::Registered& item : region->registered) item.endpoint->deregister(item.registration);
  region->registered.clear();
}

// Progress.

bool Transport::poll() {
  std::unique_lock lock(progress_, std::try_to_lock);
  if (!lock.owns_lock() || in_poll_) return false;
  // Resets the flag even if a callback of the program throws.
  struct InPoll {
    explicit InPoll(bool& is_set) : value(is_set) { value = true; }
    ~InPoll() { value = false; }
    bool& value;
  } const in_poll(in_poll_);
  bool any = false;
  // By index: a link may add another endpoint meanwhile.
  for (std::size_t i = 0; i < used_.size(); ++i) any |= poll_endpoint(*used_[i]);
  if (has_busy_.load(std::memory_order_relaxed)) [[unlikely]] {
    {
      std::lock_guard busy_lock(busy_lock_);
      pumped_.swap(busy_);
      has_busy_.store(false, std::memory_order_relaxed);
    }
    for (const auto& session : pumped_) guard(*session, [&] { session->pump(); });
    pumped_.clear();
  }
  const std::uint64_t polls = num_polls_.load(std::memory_order_relaxed) + 1;
  num_polls_.store(polls, std::memory_order_relaxed);
  if (is_urgent_ || polls % kTickPolls == 0 || num_awaited_.load(std::memory_order_relaxed) > 0)
      [[unlikely]] {
    or_no_memory([&] { tick(); });  // without memory the next tick does it
  }
  return any;
}

bool Transport::poll_endpoint(fabric::Endpoint& endpoint) {
  polled_ = &endpoint;
  bool any = false;
  if (or_no_memory([&] { any = endpoint.poll(*this); }) == Code::ok) return any;
  log_line(LogLevel::warn, -1, "{}: no memory for a message that has arrived: its peers are lost",
           endpoint.name());
  // The sender is unknown, and a request that waits for the message would wait forever.
  for (std::size_t i = sessions_.size(); i-- > 0;) {
    if (i >= sessions_.size() || sessions_[i]->endpoint() != &endpoint) continue;
    const auto keeps = sessions_[i];
    keeps->lose(Code::no_memory, kNoMemory);
  }
  return true;
}

void Transport::note_used(fabric::Endpoint& endpoint) {
  if (std::ranges::find(used_, &endpoint) == used_.end()) used_.push_back(&endpoint);
}

// A link has ended, or (false) one has found no room.
void Transport::note_room(bool has_room) {
  is_crowded_ = is_crowded_ || !has_room;
  if (is_crowded_) take_turns(has_room);
}

void Transport::put_rails_off() { crowded_until_ns_ = now_ns() + kCrowdedNs; }

// One more link of each device rests, if one waits for its room. has_room: that which waits longest
// is opened.
void Transport::take_turns(bool has_room) {
  const std::uint64_t now = now_ns();
  is_crowded_ = false;
  for (const auto& endpoint : endpoints_) {
    Turns turns(now);
    for (const auto& session : sessions_) {
      if (session->endpoint() == endpoint.get()) turns.look(session->link_);
      turns.add_leaving(session->num_leaving_rails(*endpoint));
    }
    if (!turns.any_waits()) continue;
    is_crowded_ = true;
    put_rails_off();
    const bool goes_rail = turns.is_short() && std::ranges::any_of(sessions_, [&](const auto& one) {
                             return one->give_up_rail(*endpoint);
                           });
    for (const auto& session : sessions_) {
      if (!goes_rail && &session->link_ == turns.to_rest()) session->rest();
      if (has_room && &session->link_ == turns.to_open()) session->open_next_link(now);
    }
  }
}

void Transport::tick() {
  now_ns_ = coarse_now_ns();
  for (const auto& endpoint : endpoints_)
    if (std::ranges::find(used_, endpoint.get()) == used_.end()) poll_endpoint(*endpoint);
  if (is_urgent_ || num_awaited_.load(std::memory_order_relaxed) > 0 ||
      now_ns_ > last_sockets_ns_ + kSocketsNs) {
    is_urgent_ = bootstrap_.poll(*this);
    last_sockets_ns_ = now_ns_;
  }
  if (now_ns_ > last_tick_ns_ + kTickNs) {
    // A process that was away (stopped, starved, or without polls) cannot judge its peers' silence.
    const bool was_away =
        last_tick_ns_ != 0 && now_ns_ > last_tick_ns_ + std::min(timeout_ns_ / 4, kMostAwayNs);
    last_tick_ns_ = now_ns_;
    const std::uint64_t now = now_ns();
    if (was_away)
      for (const auto& session : sessions_) session->note_away(now, !was_away_);
    was_away_ = was_away;
    now_ns_ = now;
    for (std::size_t i = sessions_.size(); i-- > 0;) {
      if (i >= sessions_.size()) continue;
      const auto session = sessions_[i];
      guard(*session, [&] { session->tick(now); });
    }
    if (is_crowded_) take_turns(false);
    used_.clear();
    for (const auto& session : sessions_) session->note_used();
    for (std::size_t i = connecting_.size(); i-- > 0;)
      if (i < connecting_.size() && now > connecting_[i]->deadline_ns) {
        const auto connecting = connecting_[i];
        const auto session = connecting->session;
        end_connecting(connecting.get(), {Code::timed_out, "the peer does not answer in time"},
                       nullptr);
        if (session != nullptr) session->lose(Code::timed_out, "does not answer in time");
      }
  }
  lost_.clear();
}

bool Transport::arm() {
  std::unique_lock lock(progress_, std::try_to_lock);
  if (!lock.owns_lock() || in_poll_) return false;
  is_urgent_ = true;
  if (has_busy_.load(std::memory_order_relaxed)) return false;
  for (const auto& endpoint : endpoints_)
    if (!endpoint->arm()) return false;
  return true;
}

int Transport::sleep_ms() {
  std::lock_guard lock(progress_);
  return sessions_.empty() && connecting_.empty() ? 500 : 20;
}

}  // namespace weft::transport
