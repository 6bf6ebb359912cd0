// Peers of remote lanes: finding each other, links, signs of life and the end.
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sodium.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/os/descriptor.hpp"
#include "base/os/lock_limit.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "peer/turns.hpp"

namespace weft::transport {

namespace {

constexpr std::size_t kLeastPerTick = 16;
constexpr std::size_t kMostRegistered = 256 << 20;
constexpr std::uint64_t kLanesTickNs = 10'000'000;
// Each of many peers is looked at 32 times in this time, or in the timeout if that is shorter.
constexpr std::uint64_t kLookAtAllNs = 5'000'000'000;
// A process that has not looked at its peers for so long has to hear them first.
constexpr std::uint64_t kMostAwayNs = 1'000'000'000;
// The longest sleep between two polls of a leaving rank, should a fabric's descriptor not report
// anything.
constexpr int kLeaveSleepMs = 10;
// The lower of two names opens a broken link again; the other does if that has no result.
constexpr std::uint64_t kHigherWaitsNs = 100'000'000;
// A rank that left, and whose link broke before it acknowledged the answer to its goodbye, has gone
// if so many openings fail, at growing intervals, half a second in all: some may cross with its
// own, or break as well. One without any answer counts for half of them.
constexpr int kMostRefusals = 8;

std::string to_hex(std::string_view bytes) {
  std::string text(2 * bytes.size() + 1, 0);
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  text.pop_back();
  return text;
}

bool read_hex(std::string_view text, std::string& bytes) {
  bytes.resize(text.size() / 2);
  std::size_t length = 0;
  const char* end = nullptr;
  return sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &length, &end) == 0 &&
         length == bytes.size() && end == text.data() + text.size();
}

}  // namespace

void RankPeer::make_busy() {
  if (std::exchange(is_busy, true)) return;
  lanes.busy_.push_back(this);
}

RemoteLanes::RemoteLanes(Members& job, HostLanes& local, std::unique_ptr<fabric::Endpoint> endpoint,
                         const LaneLimits& limits, To to)
    : Lanes(limits, this),
      job_(job),
      local_(local),
      endpoint_(std::move(endpoint)),
      to_(to),
      timeout_ns_(std::max<std::uint64_t>(job.settings().ns(Setting::peer_timeout_ms), 1)),
      silence_ns_(timeout_ns_ - timeout_ns_ / 10),
      // The links' own buffers, which all need, have the rest.
      most_registered_(std::min(kMostRegistered, lock_limit_bytes() / 4)),
      lives_(static_cast<std::size_t>(job.size()) + (to == To::foreign ? kMaxForeignProcesses : 0)),
      peers_(lives_.size()) {}

Status RemoteLanes::start() {
  std::uint64_t random[3];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return {Code::unsupported, fmt::format("no random numbers: {}", std::strerror(errno))};
  secret_ = random[0];
  next_key_ = random[1];
  key_secret_ = random[2];
  // Each rank has one peer at most: they never allocate later. Foreign processes come one by one.
  if (to_ == To::foreign) return {};
  for (auto* list : {&known_, &busy_}) list->reserve(2 * peers_.size());
  return job_.board().put(fmt::format("{}.address", name()), endpoint_address());
}

std::string RemoteLanes::endpoint_address() const {
  const std::string secret(reinterpret_cast<const char*>(&secret_), sizeof secret_);
  return fmt::format("{} {} {}", endpoint_->kind(), to_hex(secret), to_hex(endpoint_->address()));
}

RemoteLanes::~RemoteLanes() {
  {
    const std::lock_guard lock(lock_);
    is_leaving_ = true;
    for (RankPeer* peer : known_) drop_link(*peer);
    drop_lanes(-1);
    if (is_one_sided())
      for (auto& [key, memory] : registered_) endpoint_->deregister(memory.registration);
    for (auto& mirror : retired_) mirror->deregister();
  }
  endpoint_.reset();
}

void RemoteLanes::note_doorbell(int doorbell) noexcept {
  int last = last_doorbell_.load(std::memory_order_relaxed);
  while (doorbell > last && !last_doorbell_.compare_exchange_weak(last, doorbell)) {
  }
}

void RemoteLanes::ring_all() noexcept {
  const int last = last_doorbell_.load(std::memory_order_relaxed);
  for (int doorbell = 0; doorbell <= last; ++doorbell) ring_own(doorbell);
}

// Peers.

Status RemoteLanes::read_address(int rank, std::uint64_t& secret, std::string& address) const {
  std::string text;
  if (Status status = job_.board().get(rank, fmt::format("{}.address", name()), text); !status)
    return status;
  return read_endpoint_address(rank, text, secret, address);
}

Status RemoteLanes::read_endpoint_address(int rank, std::string_view text, std::uint64_t& secret,
                                          std::string& address) const {
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  std::string bytes;
  if (first == std::string::npos || second == std::string::npos ||
      !read_hex(text.substr(first + 1, second - first - 1), bytes) ||
      bytes.size() != sizeof secret || !read_hex(text.substr(second + 1), address) ||
      address.size() > fabric::kMaxAddressBytes)
    return {Code::corrupt,
            fmt::format("{} published no usable address ('{}')", job_.describe(rank), text)};
  if (text.substr(0, first) != endpoint_->kind())
    return {Code::unsupported, fmt::format("it has {}, and {} has {}", text.substr(0, first),
                                           job_.describe(job_.rank()), endpoint_->kind())};
  std::memcpy(&secret, bytes.data(), sizeof secret);
  return {};
}

// The rank here of the process with this name that may open a link; -1: there is none.
int RemoteLanes::find_rank(const ProcessName& name) const {
  if (to_ == To::members) {
    const bool is_other = name.job == job_.id() && name.rank < job_.size() && name.rank >= 0 &&
                          name.rank != job_.rank();
    return is_other ? name.rank : -1;
  }
  const auto found = std::ranges::find(known_, name, &RankPeer::name);
  return found == known_.end() ? -1 : (*found)->rank;
}

Status RemoteLanes::admit(int number, const ProcessName& name, std::string_view endpoint_address) {
  const std::lock_guard lock(lock_);
  return or_no_memory([&]() -> Status {
    auto made = std::make_unique<RankPeer>(*this, number, name);
    if (Status status =
            read_endpoint_address(number, endpoint_address, made->secret, made->address);
        !status)
      return status;
    made->link.use(*endpoint_, bytes_of(made->address));
    made->link.open_after(num_forgotten_openings_);
    for (auto* list : {&known_, &busy_}) make_room(*list, 2 * (known_.size() + 1));
    known_.push_back(made.get());
    peers_[static_cast<std::size_t>(number)] = std::move(made);
    Life& life = this->life(number);
    life.is_watched.store(false, std::memory_order_relaxed);
    life.loss.store(Loss::other, std::memory_order_relaxed);
    life.state.store(PeerState::alive, std::memory_order_release);
    return {};
  });
}

bool RemoteLanes::has_met(int number) const noexcept {
  const std::lock_guard lock(lock_);
  const auto& peer = peers_[static_cast<std::size_t>(number)];
  return peer != nullptr && (peer->answered || peer->link.link() != nullptr);
}

void RemoteLanes::forget(int number) noexcept {
  const std::lock_guard lock(lock_);
  forgotten_.clear();
  auto& place = peers_[static_cast<std::size_t>(number)];
  if (place == nullptr) return;
  RankPeer& peer = *place;
  num_forgotten_openings_ = std::max(num_forgotten_openings_, peer.link.num_opened());
  peer.link.lose();
  drop_link(peer);
  end_operations(peer);
  note_end(number, PeerState::dead);
  while (!peer.pairs.empty()) {
    const RankPeer::Pair pair = peer.pairs.begin()->second;
    if (pair.send != nullptr) drop(*pair.send, true);
    if (pair.receive == nullptr) continue;
    forgotten_.push_back(nullptr);
    drop(*pair.receive, &forgotten_.back());
  }
  std::erase(known_, &peer);
  std::erase(busy_, &peer);
  place.reset();
}

bool RemoteLanes::reaches(int rank) const noexcept {
  if (rank == job_.rank()) return false;
  const std::lock_guard lock(lock_);
  std::uint64_t secret;
  std::string address;
  const Status status = or_no_memory([&] { return read_address(rank, secret, address); });
  if (status.code() == Code::unsupported)
    log_line(LogLevel::info, job_.rank(), "{}: not to {}: {}", name(), job_.describe(rank),
             status.text());
  return status.ok();
}

// The route to the peer, for users who search for the reason of its silence.
std::string RemoteLanes::way_text(const RankPeer& peer) const {
  const std::string text = endpoint_->way_to(bytes_of(peer.address));
  return text.empty() ? std::string(name()) : text;
}

// Makes the peer at its first use.
Status RemoteLanes::find_peer(int rank, RankPeer*& peer) {
  auto& place = peers_[static_cast<std::size_t>(rank)];
  if (place == nullptr) {
    if (to_ == To::foreign)
      return {Code::not_found, fmt::format("{} was never introduced", job_.describe(rank))};
    auto made = std::make_unique<RankPeer>(*this, rank, ProcessName{job_.id(), rank});
    if (Status status = read_address(rank, made->secret, made->address); !status) return status;
    made->link.use(*endpoint_, bytes_of(made->address));
    known_.push_back(made.get());
    place = std::move(made);
  }
  peer = place.get();
  return {};
}

Status RemoteLanes::reach(int rank, RankPeer*& peer) {
  if (Status status = find_peer(rank, peer); !status) return status;
  if (peer->link.link() == nullptr && peer->link.state() == ReliableLink::State::connecting &&
      peer->changed_ns == 0 && is_alive(rank))
    return open_link(*peer);
  return {};
}

Status RemoteLanes::open_link(RankPeer& peer) {
  const RankHello hello{peer.secret,
                        job_.id(),
                        static_cast<std::uint32_t>(job_.rank()),
                        kLanesVersion,
                        peer.link.num_received(),
                        peer.link.next_opening()};
  fabric::Link* link = nullptr;
  peer.changed_ns = now_ns();
  Status status = endpoint_->open(bytes_of(peer.address), as_bytes(hello), link);
  if (!status)
    return {status.code(), fmt::format("{}: cannot open a link to {}: {}", name(),
                                       job_.describe(peer.rank), status.text())};
  link->client = &peer;
  peer.link.set_opened(*link);
  return {};
}

bool RemoteLanes::on_incoming(fabric::Link& link, fabric::Bytes bytes) {
  RankHello hello{};
  if (bytes.size() >= sizeof hello) std::memcpy(&hello, bytes.data(), sizeof hello);
  const int rank = find_rank({hello.job, static_cast<int>(hello.rank)});
  // A process of another job that has been forgotten here knows the key.
  if (rank < 0 && to_ == To::foreign && hello.secret == secret_) return false;
  if (hello.version != kLanesVersion || hello.secret != secret_ || rank < 0) {
    // The port belonged to a process of another job, which keeps trying: no user need act on that.
    // Foreign processes are all of other jobs, and theirs know the key.
    const bool is_of_another_job =
        to_ == To::members && hello.version == kLanesVersion && hello.job != job_.id();
    if (is_of_another_job) {
      if (!std::exchange(reported_other_job_, true))
        log_line(LogLevel::info, job_.rank(),
                 "{}: refused a link of rank {} of another job (further ones go unsaid)", name(),
                 hello.rank);
    } else if (!std::exchange(reported_foreign_, true)) {
      log_line(LogLevel::warn, job_.rank(),
               "{}: refused a link of a foreign process, which does not know this job's key "
               "(further ones go unsaid)",
               name());
    }
    return false;
  }
  if (life(rank).state.load(std::memory_order_relaxed) == PeerState::dead) return false;
  RankPeer* found = nullptr;
  if (!or_no_memory([&] { return find_peer(rank, found); })) return false;
  RankPeer& peer = *found;
  if (peer.link.state() == ReliableLink::State::lost) return false;  // as one that left, by silence
  if (peer.link.has_left(hello.opening)) return false;
  // Of two that open to each other at once, the lower name's link counts.
  if (peer.link.is_opening() && own_name() < peer.name) return false;
  drop_link(peer);
  peer.changed_ns = now_ns();
  link.client = &peer;
  peer.num_refusals = 0;
  if (peer.link.take(link, hello.received, hello.opening)) return true;
  lose(peer, "acknowledges what was never sent");
  return false;
}

void RemoteLanes::on_up(fabric::Link&) {}  // the peer's resume follows

void RemoteLanes::on_down(fabric::Link& link, Code why) {
  auto* peer = static_cast<RankPeer*>(link.client);
  if (peer == nullptr) return;
  const bool was_up = peer->link.is_up();
  drop_link(*peer);
  const bool is_full = why == Code::no_memory || why == Code::again;
  if (!is_alive(peer->rank) && !is_full) return note_break_of_left(*peer, was_up ? 0 : 1);
  if (why == Code::corrupt) return lose(*peer, "sends invalid data");
  if (!endpoint_->limits().breaks) return note_process_end(*peer);
  peer->link.note_down(why, now_ns());
  is_crowded_ = is_crowded_ || why == Code::no_memory;
  if (is_crowded_) take_turns(why != Code::no_memory);
}

// It may have closed the link; or that broke, and the answer to its goodbye is to be sent again.
void RemoteLanes::note_break_of_left(RankPeer& peer, int refusals) {
  end_operations(peer);
  peer.num_refusals += refusals;
  peer.link.note_down(Code::peer_lost, now_ns());
  if (peer.num_refusals >= kMostRefusals || !peer.link.has_unsent()) peer.got_farewell = true;
}

// Each writer either has posted before, or finds the link blocked.
void RemoteLanes::block(RankPeer& peer) {
  peer.link.block();
  for (auto& [channel, pair] : peer.pairs)
    if (pair.send != nullptr) const std::lock_guard wait(pair.send->lock);
}

bool RankPeer::is_at_work() const {
  for (const auto* one = under_way.first(); one != nullptr; one = one->next)
    if (one->is_fabrics) return true;
  return false;
}

bool RankPeer::is_starting() const {
  return std::ranges::any_of(pairs, [](const auto& item) {
    const SendLaneState* lane = item.second.send;
    return lane != nullptr && lane->waits_count;
  });
}

// One more link rests, if one waits for its room. has_room: that which waits longest is opened.
void RemoteLanes::take_turns(bool has_room) {
  Turns turns(now_ns());
  for (RankPeer* peer : known_) turns.look(peer->link);
  is_crowded_ = turns.any_waits();
  for (RankPeer* peer : known_) {
    if (&peer->link == turns.to_rest()) {
      block(*peer);
      peer->link.rest();
    }
    if (has_room && &peer->link == turns.to_open()) open_next_link(*peer);
  }
}

void RemoteLanes::on_rest(RankPeer& peer, bool answers) {
  // First what waits for room, and the answers to what the peer asked for before.
  if (peer.link.is_up() && pump_lanes(peer)) peer.target_side.pump();
  block(peer);
  if (!peer.link.on_rest(answers)) return;
  drop_link(peer);
  take_turns(true);
}

// Messages that the link had under way are sent again over the next one, as far as still needed.
void RemoteLanes::drop_link(RankPeer& peer) {
  block(peer);
  fabric::Link* link = peer.link.drop(now_ns());
  peer.changed_ns = now_ns();
  if (link == nullptr) return;
  for (auto& [channel, pair] : peer.pairs) {
    if (pair.send != nullptr) {
      const std::lock_guard guard(pair.send->lock);
      pair.send->waits_count = pair.send->state == SendLaneState::open;
      pair.send->is_listed = false;
    }
    if (pair.receive != nullptr) pair.receive->owes_count = pair.receive->owes_credit = false;
  }
  if (!peer.unsent.empty() || !peer.owing.empty()) peer.link.want();
  peer.unsent.clear();
  peer.owing.clear();
  peer.target_side.on_link_end();
  link->client = nullptr;
  endpoint_->close(*link);
  ask_again(peer);
}

void RemoteLanes::note_up(RankPeer& peer) {
  peer.answered = true;
  peer.num_refusals = 0;
  peer.link.note_received(now_ns_);
  for (auto& [channel, pair] : peer.pairs) {
    if (pair.receive == nullptr || pair.receive->closed) continue;
    pair.receive->owes_count = true;
    owe(*pair.receive);
  }
  peer.make_busy();
}

// Progress.

void RemoteLanes::pump(RankPeer& peer) {
  peer.is_busy = false;
  if (peer.link.pump()) note_up(peer);
  if (peer.link.floods()) return lose(peer, "asks and takes no answers");
  if (peer.link.lacks_memory())
    return lose(peer, "needs messages, and there is no memory to send them");
  if (!peer.link.is_up()) {
    if (peer.link.wake(now_ns_, !peer.waiting.empty() || !peer.under_way.empty()))
      open_next_link(peer);
    return;
  }
  if (!pump_lanes(peer) || !pump_operations(peer) || !peer.target_side.pump()) peer.make_busy();
}

void RemoteLanes::pump_busy() {
  // Peers that are busy again come with the next poll.
  const std::size_t count = busy_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Code code = or_no_memory([&] { pump(*busy_[i]); });
    if (code != Code::ok) busy_[i]->make_busy();
  }
  busy_.erase(busy_.begin(), busy_.begin() + static_cast<std::ptrdiff_t>(count));
}

void RemoteLanes::tick() {
  if (now_ns_ - ticked_ns_ < kLanesTickNs) return;
  // A process that was stopped or starved cannot judge which peers have been silent meanwhile.
  const bool was_away =
      ticked_ns_ != 0 && now_ns_ - ticked_ns_ > std::min(timeout_ns_ / 4, kMostAwayNs);
  ticked_ns_ = now_ns_;
  // A registered mirror is not read any more once its writes have ended, however they did.
  std::erase_if(retired_, [](const auto& mirror) {
    return mirror->under_way == 0 && (!mirror->was_cut_off || mirror->registered_bytes > 0);
  });
  if (was_away)
    for (RankPeer* peer : known_) peer->link.note_away(now_ns_, !was_away_);
  was_away_ = was_away;
  if (is_crowded_) take_turns(false);
  for (std::size_t left = share_of_check(known_.size(), kLeastPerTick, kLanesTickNs,
                                         std::min(timeout_ns_, kLookAtAllNs));
       left > 0; --left) {
    if (next_tick_ >= known_.size()) next_tick_ = 0;
    RankPeer& peer = *known_[next_tick_++];
    if (!is_alive(peer.rank) && (peer.got_farewell || !peer.link.has_unsent())) continue;
    const bool opens = own_name() < peer.name || !peer.answered || !is_alive(peer.rank) ||
                       peer.link.takes_turns() ||
                       now_ns_ > peer.changed_ns + std::min(kHigherWaitsNs, timeout_ns_ / 8);
    // Peers whose links rest are not asked whether they live as long as others need the room.
    const bool waits = life(peer.rank).is_watched.load(std::memory_order_relaxed) &&
                       !(is_crowded_ && peer.link.is_resting());
    switch (peer.link.tick(now_ns_, silence_ns_, waits, opens)) {
      case ReliableLink::Due::nothing:
        break;
      case ReliableLink::Due::ended:
        if (!is_alive(peer.rank)) {
          note_break_of_left(peer, kMostRefusals);
          break;
        }
        note_never_answered(peer);  // the route may lead to another host
        note_process_end(peer);
        break;
      case ReliableLink::Due::gone:
        if (lacks_descriptors(peer)) {
          peer.link.restart_wait(now_ns_);
          break;
        }
        // Requests that need the peer end as if it had died, with its name alone. A foreign process
        // without messages from here has simply left.
        note_never_answered(peer);
        life(peer.rank).loss.store(Loss::unreachable, std::memory_order_relaxed);
        {
          char text[64] = "";  // without memory, too
          fmt::format_to_n(text, sizeof text - 1, "has been unreachable for {}",
                           text_of_time(timeout_ns_));
          lose(peer, text, LogLevel::warn);
        }
        break;
      case ReliableLink::Due::stalled:
        if (peer.link.link() != nullptr) endpoint_->distrust(*peer.link.link());
        drop_link(peer);
        if (is_alive(peer.rank))
          peer.link.note_down(Code::timed_out, now_ns_);
        else
          note_break_of_left(peer, kMostRefusals / 2);
        break;
      case ReliableLink::Due::open:
        open_next_link(peer);
        break;
    }
  }
}

void RemoteLanes::open_next_link(RankPeer& peer) {
  if (or_no_memory([&] { return open_link(peer); })) return;
  peer.link.back_off_most(now_ns_);
  if (!is_alive(peer.rank)) note_break_of_left(peer, 1);
}

// Without a free descriptor here no link is made, and the silence is not the peer's.
bool RemoteLanes::lacks_descriptors(const RankPeer& peer) {
  if (has_descriptors_left()) return false;
  if (!std::exchange(reported_shortage_, true))
    log_line(LogLevel::warn, job_.rank(),
             "{}: {} has no descriptors left for a link to {}, and waits until it has: raise the "
             "limit (ulimit -n)",
             name(), job_.describe(job_.rank()), job_.describe(peer.rank));
  return true;
}

// Life and death.

void RemoteLanes::watch(RankPeer& peer) {
  if (life(peer.rank).is_watched.exchange(true, std::memory_order_relaxed)) return;
  peer.link.note_received(now_ns());
}

PeerState RemoteLanes::state(int rank) noexcept {
  Life& life = this->life(rank);
  if (!life.is_watched.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(lock_);
    RankPeer* peer = nullptr;
    if (or_no_memory([&] { return reach(rank, peer); })) watch(*peer);
  }
  // acquire: pairs with the release where it is set.
  return life.state.load(std::memory_order_acquire);
}

void RemoteLanes::note_end(int rank, PeerState state) {
  // release: the peer's writes before; pairs with the acquire in state(), and in num_ends().
  life(rank).state.store(state, std::memory_order_release);
  num_ends_.fetch_add(1, std::memory_order_release);
}

void RemoteLanes::note_never_answered(const RankPeer& peer) {
  if (peer.answered || is_leaving_ ||
      (peer.rank >= job_.size() && !peer.sends() && peer.under_way.empty()))
    return;
  log_line(LogLevel::warn, job_.rank(),
           "{}: {} has never answered {} over {}: has it ended, or is a port closed?", name(),
           job_.describe(peer.rank), job_.describe(job_.rank()), way_text(peer));
}

void RemoteLanes::note_process_end(RankPeer& peer) {
  life(peer.rank).loss.store(Loss::ended, std::memory_order_relaxed);
  lose(peer, "has ended");
}

std::size_t RemoteLanes::num_cut_off() const noexcept {
  const std::lock_guard lock(lock_);
  const std::uint64_t now = now_ns();
  return static_cast<std::size_t>(std::ranges::count_if(known_, [&](const RankPeer* peer) {
    return loss_of(peer->rank) == Loss::unreachable ||
           (is_alive(peer->rank) && peer->link.is_broken_for(timeout_ns_ / 2, now));
  }));
}

bool RemoteLanes::has_under_way() const noexcept {
  const std::lock_guard lock(lock_);
  return std::ranges::any_of(known_, [&](const RankPeer* peer) {
    const bool is_between = !peer->link.is_up() && !peer->link.is_resting();
    return is_alive(peer->rank) && (is_between || peer->link.has_unsent());
  });
}

void RemoteLanes::lose(RankPeer& peer, const char* why, LogLevel level) {
  if (!is_alive(peer.rank)) {
    // It has said goodbye, and is not listened to any more.
    if (!peer.link.lose()) return;
    peer.got_farewell = true;
    drop_link(peer);
    return end_operations(peer);
  }
  if (!is_leaving_)
    log_line(level, job_.rank(), "{}: {} {}", name(), job_.describe(peer.rank), why);
  // First of all: a thread that sees an operation fail may use its buffer for something else.
  peer.link.lose();
  drop_link(peer);
  note_end(peer.rank, PeerState::dead);
  end_operations(peer);
  ring_all();
}

void RemoteLanes::disconnect(int rank) noexcept {
  const std::lock_guard lock(lock_);
  RankPeer* peer = peers_[static_cast<std::size_t>(rank)].get();
  if (life(rank).state.load(std::memory_order_relaxed) == PeerState::left) {
    // The answer to its goodbye may still be on its way; but the fabric must be done with the
    // operations that end here.
    if (peer != nullptr) {
      bool has_any = false;
      for (const auto* one = peer->under_way.first(); one != nullptr; one = one->next)
        has_any = has_any || one->is_fabrics;
      if (has_any) drop_link(*peer);
      end_operations(*peer);
    }
    ring_all();
    return;
  }
  if (peer != nullptr) {
    lose(*peer, "is given up");
    for (auto& [channel, pair] : peer->pairs) {
      if (pair.send != nullptr) {
        const std::lock_guard guard(pair.send->lock);
        pair.send->state = SendLaneState::closed;
      }
      if (pair.receive != nullptr) pair.receive->closed = true;
    }
  }
  if (is_alive(rank)) note_end(rank, PeerState::dead);
  ring_all();
}

// True: nothing is left to send to the peer, or to receive from it.
bool RemoteLanes::say_goodbye(RankPeer& peer) {
  if (life(peer.rank).state.load(std::memory_order_relaxed) == PeerState::dead) return true;
  if (peer.got_farewell) return true;
  if (peer.said_goodbye) return false;
  if (!is_alive(peer.rank)) return !peer.link.has_unsent();  // it has the answer to its goodbye
  peer.link.want();
  if (!peer.link.is_up())  // the peer does not know this rank, or its link is to come again
    return !peer.answered && !peer.sends();
  for (const auto& [channel, pair] : peer.pairs) {
    if (!is_engine_channel(channel) || pair.send == nullptr) continue;
    const std::lock_guard guard(pair.send->lock);
    if (pair.send->state == SendLaneState::open && pair.send->sent != pair.send->accepted)
      return false;
  }
  ByeMessage bye{{.kind = Kind::bye}, peer.written};
  peer.link.post_control(bye, sizeof bye);
  peer.said_goodbye = true;
  watch(peer);
  return false;
}

// It has left once all that it wrote before has arrived.
void RemoteLanes::note_goodbye(RankPeer& peer) {
  if (!peer.is_leaving || peer.arrived != peer.goodbye_written || !is_alive(peer.rank)) return;
  Head farewell{.kind = Kind::farewell};
  peer.link.post_control(farewell, sizeof farewell);
  note_end(peer.rank, PeerState::left);
  ring_all();
}

void RemoteLanes::leave() noexcept {
  // An answer shows that the peer has everything: only then may the link be closed. A peer that
  // leaves at the same time answers too.
  const std::uint64_t start = now_ns();
  const std::uint64_t yield_ns =
      static_cast<std::uint64_t>(job_.settings().number(Setting::yield_us)) * 1000;
  std::size_t num_open = 0;  // of known_, the first: those that have not answered
  bool is_last_look = true;  // at all of them
  for (bool is_first = true; now_ns() - start < timeout_ns_; is_first = false) {
    {
      const std::lock_guard lock(lock_);
      is_leaving_ = true;
      if (!is_first) poll_locked();
      send_held();
      if (is_last_look) num_open = known_.size();
      for (std::size_t i = 0; i < num_open;) {
        const Code code =
            or_no_memory([&] { return say_goodbye(*known_[i]) ? Code::ok : Code::again; });
        if (code == Code::ok)
          std::swap(known_[i], known_[--num_open]);
        else
          ++i;
      }
      if (num_open == 0 && is_last_look && busy_.empty()) return;
      is_last_look = num_open == 0;
    }
    if (now_ns() - start < yield_ns) {
      sched_yield();
    } else if (arm()) {
      pollfd fd{endpoint_->wait_fd(), POLLIN, 0};
      ::poll(&fd, 1, kLeaveSleepMs);
    }
  }
}

}  // namespace weft::transport
