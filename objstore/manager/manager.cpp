// The manager's thread, and the messages between managers.
#include "manager.hpp"

#include <poll.h>
#include <sched.h>

#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "objstore/shared/clock.hpp"
#include "weft/job.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kPingNs = 1'000'000'000;

}  // namespace

Manager::Manager(Server& server, const ManagerSettings& settings)
    : may_be_helped_(settings.directory == "embedded" && settings.protocol == "node" &&
                     !settings.verifies && !settings.registers_objects),
      core_(server, settings),
      inbox_(core_, may_be_helped_),
      members_(core_, *this),
      sockets_(core_, members_, fetches_),
      fetches_(core_, members_, directory_, sockets_),
      serving_(core_, members_),
      directory_(core_, members_, fetches_, serving_),
      replicas_(core_, members_, fetches_),
      groups_(core_, inbox_),
      pushes_(core_, members_, groups_),
      pushed_(core_, members_, directory_, groups_) {}

Manager::~Manager() {
  core_.server.set_helper(nullptr);
  const auto lock = core_.server.lock();
  core_.server.set_remote(nullptr);
}

Status Manager::open() {
  if (Status status = inbox_.open(); !status) return status;
  NodeSettings settings;
  settings.name = core_.settings.name;
  settings.secret = core_.settings.secret;
  settings.fabrics = core_.settings.fabrics;
  settings.progress_thread = false;
  try {
    core_.node = std::make_unique<Node>(settings);
  } catch (const Error& error) {
    return error.status();
  }
  core_.self = core_.node->generation();
  core_.node->on_peer([this](const Peer& peer) { members_.joined(peer); });
  core_.node->on_lost([this](const Peer& peer, const Status& why) { members_.lost(peer, why); });
  core_.node->on_message(
      [this](const Peer& peer, std::span<const std::byte> bytes) { received(peer, bytes); });
  if (Status status = members_.check_peers(); !status) return status;
  for (const std::string& address : core_.settings.listen)
    if (Status status = core_.node->listen(address); !status) return status;
  if (Status status = directory_.open(); !status) return status;
  if (Status status = sockets_.open(); !status) return status;
  const auto lock = core_.server.lock();
  core_.server.set_remote(this);
  return Code::ok;
}

Status Manager::address(std::string& text) { return core_.node->address(text); }

void Manager::run() {
  std::vector<pollfd> ready;
  std::uint64_t last_work_ns = 0;
  std::unique_lock turn(turn_mutex_);
  // Announces objects that the store had before.
  directory_.directory().open();
  if (may_be_helped_) core_.server.set_helper(this);
  for (; !core_.is_over.load(std::memory_order_relaxed); turn.lock()) {
    const std::uint64_t now_ns = monotonic_ns();
    const bool has_moved = take_turn(now_ns);
    if (has_moved) last_work_ns = now_ns;
    // Operations under way take less time than falling asleep and being woken; others may need this
    // core for them.
    const bool polls =
        now_ns - last_work_ns < core_.settings.spin_us * std::uint64_t{1000} || !core_.node->arm();
    if (!polls) {
      ready = {{core_.node->event_fd(), POLLIN, 0}, {inbox_.fd(), POLLIN, 0}};
      directory_.directory().await(ready);
      sockets_.await(ready);
    }
    turn.unlock();
    if (polls) {
      if (!has_moved) ::sched_yield();
      continue;
    }
    if (::poll(ready.data(), ready.size(), 20) > 0 && (ready[1].revents & POLLIN) != 0)
      inbox_.clear();
  }
  turn.unlock();
  core_.server.set_helper(nullptr);
  {
    const auto lock = core_.server.lock();
    core_.server.set_remote(nullptr);
  }
  // Operations end before the memory they write to can go.
  end_groups();
  set_aside_.clear();
  core_.node.reset();
  sockets_.close();
  const auto lock = core_.server.lock();
  fetches_.abort_all();
  core_.server.end_remote_intos();
  serving_.drop_all();
}

// True if something progressed.
bool Manager::take_turn(std::uint64_t now_ns) {
  members_.connect_missing(now_ns);
  bool has_moved = process_set_aside();
  has_moved |= serve_inbox();
  has_moved |= core_.node->progress();
  has_moved |= sockets_.progress(now_ns);
  fetches_.end_reads();
  serving_.end_leases(now_ns, 0);
  serving_.repeat_restores(now_ns);
  serving_.end_registrations();
  pushes_.end_late_pushes(now_ns);
  pushed_.retry_rooms(now_ns);
  ping_pushes(now_ns);
  directory_.directory().progress(now_ns);
  directory_.refresh_status(now_ns);
  fetches_.retry_fetches(now_ns);
  members_.forget_sent();
  // relaxed: a hint whether there is anything to help with.
  num_fetches_.store(fetches_.size(), std::memory_order_relaxed);
  return has_moved || inbox_.has_commands();
}

// While a fetch is under way the store's thread, which polls anyway, progresses it as well as the
// manager's: the one that has a core.
bool Manager::help() {
  // relaxed: written by this thread, or by the one that has the turn.
  const bool has_urgent = inbox_.has_urgent();
  if (!has_urgent && num_fetches_.load(std::memory_order_relaxed) == 0) {
    idle();
    return false;
  }
  if (core_.is_over.load(std::memory_order_relaxed)) return false;
  const std::unique_lock turn(turn_mutex_, std::try_to_lock);
  if (!turn.owns_lock()) {
    // It checks for commands at the end of its turn, or has done so.
    if (has_urgent) inbox_.wake_for_urgent();
    return false;
  }
  // Long objects are copied, and their checksums computed, in one go.
  if (fetches_.has_long() || !set_aside_.empty()) {
    inbox_.wake();
    return false;
  }
  has_helped_ = is_helping_ = true;
  const bool has_moved = take_turn(monotonic_ns());
  is_helping_ = false;
  if (!set_aside_.empty()) inbox_.wake();
  return has_moved;
}

// True for messages that would keep the store's clients waiting.
bool Manager::takes_long(const PeerMessage& message) {
  return (message.kind == PeerKind::offer && message.data_bytes > Fetches::kLongBytes) ||
         ((message.kind == PeerKind::ask || message.kind == PeerKind::watch) &&
          message.wants_checksum);
}

// Processes the messages that the store's thread has set aside, in their order.
bool Manager::process_set_aside() {
  bool any = false;
  for (; !is_helping_ && !set_aside_.empty(); any = true) {
    const auto [peer, bytes] = std::move(set_aside_.front());
    set_aside_.pop_front();
    PeerMessage message;
    // Messages of a link that was lost since belong to a meeting that is over.
    if (!peer.is_lost() && decode(bytes, message)) process(peer, message);
  }
  return any;
}

// A thread that progresses the Node leaves it armed, so that messages wake the manager's thread.
void Manager::idle() {
  if (!std::exchange(has_helped_, false)) return;
  const std::unique_lock turn(turn_mutex_, std::try_to_lock);
  // Otherwise the manager's thread arms it itself.
  if (turn.owns_lock() && !core_.node->arm()) inbox_.wake();
}

void Manager::stop() {
  core_.is_over.store(true, std::memory_order_relaxed);
  inbox_.wake();
}

// --- From the store's thread ---

void Manager::sealed(const ObjectId& id, std::uint32_t) { inbox_.post({CommandKind::sealed, id}); }
void Manager::gone(const ObjectId& id, bool) { inbox_.post({CommandKind::gone, id}); }
void Manager::restored(const ObjectId& id) { inbox_.post({CommandKind::restored, id}); }
void Manager::wanted(const ObjectId& id) { inbox_.post({CommandKind::wanted, id}); }
void Manager::unwanted(const ObjectId& id) { inbox_.post({CommandKind::unwanted, id}); }
void Manager::read_into(std::uint64_t number, const IntoTarget& target) {
  inbox_.post({CommandKind::read_into, target.id, number, target});
}
void Manager::no_more_into(std::uint64_t number) {
  inbox_.post({CommandKind::no_more_into, {}, number});
}
void Manager::replicate(std::uint64_t number, const ObjectId& id, std::uint32_t num_others) {
  inbox_.post({CommandKind::replicate, id, number, {}, num_others});
}
void Manager::no_more_copies(std::uint64_t number) {
  inbox_.post({CommandKind::no_more_copies, {}, number});
}
void Manager::confirm(std::uint64_t number, const ObjectId& id) {
  inbox_.post({CommandKind::confirm, id, number});
}
void Manager::push(std::uint64_t number, const ObjectId& id,
                   const std::vector<std::string>& hosts) {
  inbox_.post({CommandKind::push, id, number, {}, 0, hosts});
}
void Manager::no_more_push(std::uint64_t number) {
  inbox_.post({CommandKind::no_more_push, {}, number});
}
bool Manager::erased(const ObjectId& id) {
  inbox_.post({CommandKind::erased, id});
  const std::lock_guard lock(core_.mutex);
  return !core_.peer_names.empty();
}

void Manager::status(nlohmann::json& json) {
  const std::lock_guard lock(core_.mutex);
  json["transfers"] = {{"fetched", core_.counters.fetched},
                       {"fetched_bytes", core_.counters.fetched_bytes},
                       {"fetched_one_sided", core_.counters.fetched_one_sided},
                       {"fetched_of_several", core_.counters.fetched_of_several},
                       {"given", core_.counters.given},
                       {"given_bytes", core_.counters.given_bytes},
                       {"retried", core_.counters.retried},
                       {"wrong_checksum", core_.counters.wrong},
                       {"leases_ended", core_.counters.leases_ended},
                       {"pushed", core_.counters.pushed},
                       {"pushed_here", core_.counters.pushed_here},
                       {"second", core_.counters.second},
                       {"refused", core_.counters.refused}};
  nlohmann::json peers = nlohmann::json::array();
  for (const auto& [generation, peer] : core_.peer_names)
    peers.push_back({{"name", peer.first}, {"fabric", peer.second}});
  json["peers"] = std::move(peers);
  if (!core_.directory_status.empty()) json.update(nlohmann::json::parse(core_.directory_status));
}

bool Manager::serve_inbox() {
  std::deque<Command> commands = inbox_.take();
  for (Command& command : commands) carry_out(command);
  return !commands.empty();
}

void Manager::carry_out(Command& command) {
  switch (command.kind) {
    case CommandKind::sealed:
      return directory_.sealed(command.id);
    case CommandKind::gone:
      directory_.directory().withdraw(command.id);
      return serving_.give_restored(command.id);  // absent
    case CommandKind::restored:
      return serving_.give_restored(command.id);
    case CommandKind::wanted:
      return fetches_.start(command.id);
    case CommandKind::unwanted:
      return fetches_.unwanted(command.id);
    case CommandKind::read_into:
      return fetches_.start_into(command.number, std::move(command.into));
    case CommandKind::no_more_into:
      return fetches_.no_more_into(command.number);
    case CommandKind::erased:
      return directory_.directory().erase(command.id);
    case CommandKind::replicate:
      return replicas_.start(command.number, command.id, command.num_others);
    case CommandKind::no_more_copies:
      return replicas_.end_replication(command.number);
    case CommandKind::confirm:
      return directory_.confirm(command.number, command.id);
    case CommandKind::push:
      return pushes_.start_push(command.number, command.id, command.hosts);
    case CommandKind::no_more_push:
      return pushes_.give_up_push(command.number);
    case CommandKind::group_arrived:
      return pushed_.pushed_arrived(command.number);
    case CommandKind::group_ended:
      if ((command.number & PushGroups::kPushedHere) != 0)
        return pushed_.pushed_ended(command.number, command.code);
      return pushes_.group_ended(command.number, command.code);
  }
}

// --- Messages of other managers ---

void Manager::received(const Peer& peer, std::span<const std::byte> bytes) {
  if (core_.is_over) return;
  // A copy: over shared memory a hostile peer can change it while it is checked. Peers have the
  // secret, but a bug elsewhere should not become one here.
  std::vector<std::byte> copy;
  PeerMessage message;
  bool is_sane = bytes.size() <= kMaxPeerMessageBytes;
  try {
    if (is_sane) copy.assign(bytes.begin(), bytes.end());
    is_sane = is_sane && decode(copy, message);
    if (is_sane && is_helping_ && (!set_aside_.empty() || takes_long(message)))
      return (void)set_aside_.emplace_back(peer, std::move(copy));
  } catch (const std::bad_alloc&) {
    // Without this message both would wait for each other: they begin a new meeting.
    const Peer link = peer;
    core_.node->close(link);
    return members_.lost(link, {Code::no_memory, "no memory for a message of it"});
  }
  if (!is_sane) {
    if (const std::uint8_t version = version_of(bytes); version != kPeerVersion)
      members_.log_version(peer, version);
    const std::lock_guard lock(core_.mutex);
    ++core_.counters.refused;
    return;
  }
  process(peer, message);
}

void Manager::process(const Peer& peer, const PeerMessage& message) {
  if (message.kind == PeerKind::members) return members_.received_members(peer, message);
  handle(peer.generation(), message);
}

void Manager::handle(std::uint64_t from, const PeerMessage& message) {
  switch (message.kind) {
    case PeerKind::members:  // needs the link: received_members()
      return;
    case PeerKind::holders:
      if (message.number != 0) fetches_.not_given(from, message.number);
      return directory_.directory().received(from, message);
    case PeerKind::announce:
    case PeerKind::withdraw:
    case PeerKind::watch:
    case PeerKind::unwatch:
    case PeerKind::erase:
    case PeerKind::confirm:
    case PeerKind::confirmed:
      return directory_.directory().received(from, message);
    case PeerKind::drop:
      return directory_.drop(message.id, message.number == 1 ? Dropped::second : Dropped::erased);
    case PeerKind::keep:
      return replicas_.keep(from, message);
    case PeerKind::kept:
    case PeerKind::unkept:
      return replicas_.replica_answered(from, message);
    case PeerKind::ask:
      return serving_.give(from, message);
    case PeerKind::socket:
      return sockets_.received_address(from, message);
    case PeerKind::push:
      return pushed_.take_push(from, message);
    case PeerKind::push_answer:
      return pushes_.push_answered(from, message);
    case PeerKind::push_group:
      return pushed_.join_group(from, message);
    case PeerKind::push_end:
      return pushes_.push_ended(from, message);
    case PeerKind::push_stop:
      return pushed_.push_stopped(from, message.number);
    case PeerKind::push_ping:
      return;
    case PeerKind::data:
    case PeerKind::offer:
    case PeerKind::absent:
      return fetches_.received_answer(from, message);
    case PeerKind::fin:
      return serving_.received_fin(from, message.number);
  }
}

// --- Peers ---

void Manager::links_lost(std::uint64_t generation) {
  serving_.end_leases(monotonic_ns(), generation);
}

// Forgets the state that this host and the peer have with each other.
void Manager::forget_peer(std::uint64_t generation) {
  sockets_.forget_peer(generation);
  {
    const std::lock_guard lock(core_.mutex);
    core_.peer_names.erase(generation);
  }
  serving_.forget_restores(generation);
  if (members_.forget_store(generation)) directory_.lost(generation);
  fetches_.lost_holder(generation);
  replicas_.lost_replica_holder(generation);
  pushes_.lost_target(generation);
  pushed_.lost_pusher(generation);
}

// A silent peer is noticed only by waiting for it: a receiver waits for others' bytes, and a pusher
// for reports of their arrival.
void Manager::ping_pushes(std::uint64_t now_ns) {
  if ((pushes_.is_empty() && pushed_.is_empty()) || now_ns < next_ping_ns_) return;
  next_ping_ns_ = now_ns + kPingNs;
  std::set<std::uint64_t> others;
  pushes_.add_awaited(others);
  pushed_.add_awaited(others);
  PeerMessage message;
  message.kind = PeerKind::push_ping;
  for (const std::uint64_t other : others) members_.send(other, message);
}

// Called without the server's lock: groups end before the objects' memory may go.
void Manager::end_groups() {
  pushes_.end_groups();
  pushed_.end_groups();
  groups_.close();
  const auto lock = core_.server.lock();
  pushes_.drop_all();
  pushed_.drop_all();
}

}  // namespace weft::objstore
