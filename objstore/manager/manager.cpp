// The manager's thread, and the messages between managers.
#include "manager.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "objstore/directory/embedded.hpp"
#include "objstore/directory/redis.hpp"
#include "objstore/shared/clock.hpp"
#include "peer/address.hpp"
#include "peer/sockets.hpp"
#include "weft/job.hpp"

namespace weft::objstore {

namespace {

// Checks that it can be an address; a name is resolved later, again and again.
Status check_address(const std::string& address) {
  peer::NodeAddress of_node;
  peer::SocketAddress of_socket;
  Status status = peer::is_address_text(address)
                      ? peer::from_text(address, of_node)
                      : peer::resolve(address, of_socket, peer::Names::refuse);
  if (status.code() != Code::bad_argument && status.code() != Code::corrupt) return Code::ok;
  return {Code::bad_argument, "--peers " + address + ": " + status.text()};
}

}  // namespace

Manager::Manager(Server& server, const ManagerSettings& settings)
    : server_(server),
      settings_(settings),
      // Not where the manager's work may take long: clients would wait for the store's thread.
      may_be_helped_(settings.directory == "embedded" && settings.protocol == "node" &&
                     !settings.verifies && !settings.registers_objects) {}

Manager::~Manager() {
  server_.set_helper(nullptr);
  const auto lock = server_.lock();
  server_.set_remote(nullptr);
}

Status Manager::open() {
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return system_error("making the manager's doorbell");
  NodeSettings settings;
  settings.name = settings_.name;
  settings.secret = settings_.secret;
  settings.fabrics = settings_.fabrics;
  settings.progress_thread = false;
  try {
    node_ = std::make_unique<Node>(settings);
  } catch (const Error& error) {
    return error.status();
  }
  self_ = node_->generation();
  node_->on_peer([this](const Peer& peer) { joined(peer); });
  node_->on_lost([this](const Peer& peer, const Status& why) { lost(peer, why); });
  node_->on_message(
      [this](const Peer& peer, std::span<const std::byte> bytes) { received(peer, bytes); });
  for (const std::string& address : settings_.peers)
    if (Status status = check_address(address); !status) return status;
  for (const std::string& address : settings_.listen)
    if (Status status = node_->listen(address); !status) return status;
  DirectoryUser& user = *this;
  if (settings_.directory == "embedded") {
    directory_ = std::make_unique<EmbeddedDirectory>(user, self_);
  } else {
#ifdef WEFT_HAVE_HIREDIS
    std::string mine;
    if (Status status = node_->address(mine); !status) return status;
    try {
      directory_ = std::make_unique<RedisDirectory>(user, self_, mine, settings_.directory);
    } catch (const Error& error) {
      return error.status();
    }
#else
    return {Code::unsupported,
            "directory '" + settings_.directory + "': this weft-store was built without hiredis"};
#endif
  }
  if (Status status = open_sockets(); !status) return status;
  const auto lock = server_.lock();
  server_.set_remote(this);
  return Code::ok;
}

Status Manager::address(std::string& text) { return node_->address(text); }

void Manager::run() {
  std::vector<pollfd> ready;
  std::uint64_t last_work_ns = 0;
  std::unique_lock turn(turn_mutex_);
  // Announces objects that the store had before.
  directory_->open();
  if (may_be_helped_) server_.set_helper(this);
  for (; !is_over_.load(std::memory_order_relaxed); turn.lock()) {
    const std::uint64_t now_ns = monotonic_ns();
    const bool has_moved = take_turn(now_ns);
    if (has_moved) last_work_ns = now_ns;
    // Operations under way take less time than falling asleep and being woken; others may need this
    // core for them.
    const bool polls =
        now_ns - last_work_ns < settings_.spin_us * std::uint64_t{1000} || !node_->arm();
    if (!polls) {
      ready = {{node_->event_fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      directory_->await(ready);
      if (sockets_ != nullptr) sockets_->await(ready);
    }
    turn.unlock();
    if (polls) {
      if (!has_moved) ::sched_yield();
      continue;
    }
    if (::poll(ready.data(), ready.size(), 20) > 0 && (ready[1].revents & POLLIN) != 0) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    }
  }
  turn.unlock();
  server_.set_helper(nullptr);
  {
    const auto lock = server_.lock();
    server_.set_remote(nullptr);
  }
  // Operations end before the memory they write to can go.
  end_groups();
  set_aside_.clear();
  node_.reset();
  sockets_.reset();
  const auto lock = server_.lock();
  for (auto& [id, fetch] : fetches_)
    if (fetch->entry != kNoEntry) server_.objects().abort(fetch->entry);
  server_.end_remote_intos();
  for (const Lease& lease : leases_) server_.objects().drop(lease.entry);
  for (const auto& [entry, registered] : registered_) server_.objects().drop(entry);
}

// True if something progressed.
bool Manager::take_turn(std::uint64_t now_ns) {
  connect_missing(now_ns);
  bool has_moved = process_set_aside();
  has_moved |= serve_inbox();
  has_moved |= node_->progress();
  if (sockets_ != nullptr) has_moved |= sockets_->progress(now_ns);
  end_reads();
  end_leases(now_ns, 0);
  repeat_restores(now_ns);
  if (!registered_.empty()) end_registrations();
  end_late_pushes(now_ns);
  retry_rooms(now_ns);
  ping_pushes(now_ns);
  directory_->progress(now_ns);
  refresh_directory_status(now_ns);
  retry_fetches(now_ns);
  forget_sent();
  // relaxed: a hint whether there is anything to help with.
  num_fetches_.store(fetches_.size(), std::memory_order_relaxed);
  return has_moved || has_commands_.load(std::memory_order_relaxed);
}

// While a fetch is under way the store's thread, which polls anyway, progresses it as well as the
// manager's: the one that has a core.
bool Manager::help() {
  // relaxed: written by this thread, or by the one that has the turn.
  const bool has_urgent = has_urgent_.load(std::memory_order_relaxed);
  if (!has_urgent && num_fetches_.load(std::memory_order_relaxed) == 0) {
    idle();
    return false;
  }
  if (is_over_.load(std::memory_order_relaxed)) return false;
  const std::unique_lock turn(turn_mutex_, std::try_to_lock);
  if (!turn.owns_lock()) {
    // It checks for commands at the end of its turn, or has done so.
    if (has_urgent && !has_rung_.exchange(true, std::memory_order_relaxed)) wake();
    return false;
  }
  // Long objects are copied, and their checksums computed, in one go.
  if (num_long_ != 0 || !set_aside_.empty()) {
    wake();
    return false;
  }
  has_helped_ = is_helping_ = true;
  const bool has_moved = take_turn(monotonic_ns());
  is_helping_ = false;
  if (!set_aside_.empty()) wake();
  return has_moved;
}

// True for messages that would keep the store's clients waiting.
bool Manager::takes_long(const PeerMessage& message) {
  return (message.kind == PeerKind::offer && message.data_bytes > kLongBytes) ||
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
  if (turn.owns_lock() && !node_->arm()) wake();
}

void Manager::stop() {
  is_over_.store(true, std::memory_order_relaxed);
  wake();
}

void Manager::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

// --- From the store's thread ---

void Manager::sealed(const ObjectId& id, std::uint32_t) { post({CommandKind::sealed, id}); }
void Manager::gone(const ObjectId& id, bool) { post({CommandKind::gone, id}); }
void Manager::restored(const ObjectId& id) { post({CommandKind::restored, id}); }
void Manager::wanted(const ObjectId& id) { post({CommandKind::wanted, id}); }
void Manager::unwanted(const ObjectId& id) { post({CommandKind::unwanted, id}); }
void Manager::read_into(std::uint64_t number, const IntoTarget& target) {
  post({CommandKind::read_into, target.id, number, target});
}
void Manager::no_more_into(std::uint64_t number) { post({CommandKind::no_more_into, {}, number}); }
void Manager::replicate(std::uint64_t number, const ObjectId& id, std::uint32_t num_others) {
  post({CommandKind::replicate, id, number, {}, num_others});
}
void Manager::no_more_copies(std::uint64_t number) {
  post({CommandKind::no_more_copies, {}, number});
}
void Manager::confirm(std::uint64_t number, const ObjectId& id) {
  post({CommandKind::confirm, id, number});
}
void Manager::push(std::uint64_t number, const ObjectId& id,
                   const std::vector<std::string>& hosts) {
  post({CommandKind::push, id, number, {}, 0, hosts});
}
void Manager::no_more_push(std::uint64_t number) { post({CommandKind::no_more_push, {}, number}); }
bool Manager::erased(const ObjectId& id) {
  post({CommandKind::erased, id});
  const std::lock_guard lock(inbox_mutex_);
  return !peer_names_.empty();
}

void Manager::post(const Command& command) {
  // The store's thread progresses these itself.
  const bool is_urgent = may_be_helped_ && (command.kind == CommandKind::wanted ||
                                            command.kind == CommandKind::read_into);
  bool rings;
  {
    const std::lock_guard lock(inbox_mutex_);
    rings = inbox_.empty() && !is_urgent;  // otherwise its first one has rung
    inbox_.push_back(command);
    has_commands_.store(true, std::memory_order_relaxed);
    if (is_urgent) has_urgent_.store(true, std::memory_order_relaxed);
  }
  if (rings) wake();
}

void Manager::status(nlohmann::json& json) {
  const std::lock_guard lock(inbox_mutex_);
  json["transfers"] = {{"fetched", counters_.fetched},
                       {"fetched_bytes", counters_.fetched_bytes},
                       {"fetched_one_sided", counters_.fetched_one_sided},
                       {"fetched_of_several", counters_.fetched_of_several},
                       {"given", counters_.given},
                       {"given_bytes", counters_.given_bytes},
                       {"retried", counters_.retried},
                       {"wrong_checksum", counters_.wrong},
                       {"leases_ended", counters_.leases_ended},
                       {"pushed", counters_.pushed},
                       {"pushed_here", counters_.pushed_here},
                       {"second", counters_.second},
                       {"refused", counters_.refused}};
  nlohmann::json peers = nlohmann::json::array();
  for (const auto& [generation, peer] : peer_names_)
    peers.push_back({{"name", peer.first}, {"fabric", peer.second}});
  json["peers"] = std::move(peers);
  if (!directory_status_.empty()) json.update(nlohmann::json::parse(directory_status_));
}

// Status is read on the store's thread, which does not call the directory.
void Manager::refresh_directory_status(std::uint64_t now_ns) {
  if (now_ns < next_status_ns_) return;
  next_status_ns_ = now_ns + 500'000'000;
  nlohmann::json json;
  directory_->status(json);
  const std::lock_guard lock(inbox_mutex_);
  directory_status_ = json.dump();
}

// Most sends complete in their order. All are checked only when they have become twice as many, so
// that a list of thousands costs the same for each, and a slow peer no memory.
void Manager::forget_sent() {
  const auto is_done = [](const auto& message) { return message->operation.is_done(); };
  while (!outgoing_.empty() && is_done(outgoing_.front())) outgoing_.pop_front();
  if (outgoing_.size() < most_outgoing_) return;
  std::erase_if(outgoing_, is_done);
  most_outgoing_ = std::max<std::size_t>(64, 2 * outgoing_.size());
}

bool Manager::serve_inbox() {
  std::deque<Command> commands;
  {
    const std::lock_guard lock(inbox_mutex_);
    commands.swap(inbox_);
    has_commands_.store(false, std::memory_order_relaxed);
    has_urgent_.store(false, std::memory_order_relaxed);
    has_rung_.store(false, std::memory_order_relaxed);
  }
  for (Command& command : commands) {
    switch (command.kind) {
      case CommandKind::sealed:
        directory_->announce(command.id,
                             copies_.erase(command.id) != 0 ? Announced::copy : Announced::sealed);
        confirm_sealed(command.id);
        break;
      case CommandKind::gone:
        directory_->withdraw(command.id);
        give_restored(command.id);  // absent
        break;
      case CommandKind::restored:
        give_restored(command.id);
        break;
      case CommandKind::wanted:
        start(command.id);
        break;
      case CommandKind::unwanted:
        if (Fetch* fetch = fetch_of(command.id)) leave(*fetch, {Code::cancelled});
        break;
      case CommandKind::read_into:
        start_into(command.number, std::move(command.into));
        break;
      case CommandKind::no_more_into:
        for (const auto& [id, fetch] : fetches_)
          if (fetch->into_number == command.number) {
            leave(*fetch, {Code::cancelled});
            break;
          }
        break;
      case CommandKind::erased:
        directory_->erase(command.id);
        break;
      case CommandKind::replicate:
        replications_.emplace(command.number,
                              Replication{command.id, command.num_others, {}, {}, {}});
        replicate_to(command.number);
        break;
      case CommandKind::no_more_copies:
        end_replication(command.number);
        break;
      case CommandKind::confirm:
        confirms_.emplace(command.number, Confirm{command.id});
        break;
      case CommandKind::push:
        start_push(command.number, command.id, command.hosts);
        break;
      case CommandKind::no_more_push:
        give_up_push(command.number);
        break;
      case CommandKind::group_arrived:
        pushed_arrived(command.number);
        break;
      case CommandKind::group_ended:
        group_ended(command.number, command.code);
        break;
    }
  }
  return !commands.empty();
}

// --- Messages of other managers ---

void Manager::received(const Peer& peer, std::span<const std::byte> bytes) {
  if (is_over_) return;
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
    node_->close(link);
    return lost(link, {Code::no_memory, "no memory for a message of it"});
  }
  if (!is_sane) {
    if (const std::uint8_t version = version_of(bytes); version != kPeerVersion)
      log_version(peer, version);
    const std::lock_guard lock(inbox_mutex_);
    ++counters_.refused;
    return;
  }
  process(peer, message);
}

void Manager::process(const Peer& peer, const PeerMessage& message) {
  if (message.kind == PeerKind::members) return received_members(peer, message);
  handle(peer.generation(), message);
}

void Manager::send(std::uint64_t to, const PeerMessage& message) {
  if (to == self_) {
    handle(self_, message);
    return;
  }
  const auto found = peers_.find(to);
  if (found == peers_.end()) return;  // its meaning is sent again when members change
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->bytes = encode(message);
  node_->send(found->second, outgoing->bytes.data(), outgoing->bytes.size(), outgoing->operation);
  if (!outgoing->operation.is_done()) outgoing_.push_back(std::move(outgoing));
}

void Manager::handle(std::uint64_t from, const PeerMessage& message) {
  switch (message.kind) {
    case PeerKind::members:  // needs the link: received_members()
      return;
    case PeerKind::holders:
      if (message.number != 0) not_given(from, message.number);
      return directory_->received(from, message);
    case PeerKind::announce:
    case PeerKind::withdraw:
    case PeerKind::watch:
    case PeerKind::unwatch:
    case PeerKind::erase:
    case PeerKind::confirm:
    case PeerKind::confirmed:
      return directory_->received(from, message);
    case PeerKind::drop:
      return must_drop(message.id, message.number == 1 ? Dropped::second : Dropped::erased);
    case PeerKind::keep:
      return keep(from, message);
    case PeerKind::kept:
    case PeerKind::unkept:
      return replica_answered(from, message);
    case PeerKind::ask:
      return give(from, message);
    case PeerKind::socket:
      return received_socket_address(from, message);
    case PeerKind::push:
      return take_push(from, message);
    case PeerKind::push_answer:
      return push_answered(from, message);
    case PeerKind::push_group:
      return join_group(from, message);
    case PeerKind::push_end:
      return push_ended(from, message);
    case PeerKind::push_stop:
      return push_stopped(from, message.number);
    case PeerKind::push_ping:
      return;
    case PeerKind::data:
    case PeerKind::offer:
    case PeerKind::absent: {
      if (sockets_ != nullptr) return;  // nothing was asked over the Node
      // Only a holder that was asked may answer.
      const auto asked = asks_.find(message.number);
      if (asked == asks_.end()) {
        if (message.kind == PeerKind::offer) {
          PeerMessage fin;
          fin.kind = PeerKind::fin;
          fin.number = message.number;
          send(from, fin);
        }
        return;
      }
      return answered(*asked->second, from, message);
    }
    case PeerKind::fin:
      for (Lease& lease : leases_)
        if (lease.peer == from && lease.number == message.number) lease.ends_ns = 1;
      std::erase_if(restores_, [&](const auto& waiting) {
        return waiting.second.to == from && waiting.second.ask.number == message.number;
      });
      return;
  }
}

}  // namespace weft::objstore
