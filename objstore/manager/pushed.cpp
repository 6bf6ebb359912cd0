// An object that another host pushes here: room for it, the group that fills it, and the seal once
// all bytes have arrived. If the group fails before, the room is given up, and nobody has seen the
// object. Then the parts of both sides of a push: the Multicast and its groups.
#include <algorithm>

#include "manager.hpp"
#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"
#include "weft/job.hpp"

namespace weft::objstore {
namespace {

// A push waits so long for room that a spill makes.
constexpr std::uint64_t kRoomNs = 2'000'000'000, kRetryRoomNs = 5'000'000;
// The room is kept so long for a group that the pusher does not make: longer than it waits for the
// answers of all others.
constexpr std::uint64_t kGroupNs = 30'000'000'000;
constexpr std::uint64_t kPingNs = 1'000'000'000;

}  // namespace

void Manager::take_push(std::uint64_t from, const PeerMessage& message) {
  const std::uint64_t key = next_number_++ | kPushedHere;
  Pushed pushed;
  pushed.id = message.id;
  pushed.from = from;
  pushed.number = message.number;
  pushed.sizes = {message.data_bytes, message.metadata_bytes, message.stamp, 0};
  pushed.room_until_ns = monotonic_ns() + kRoomNs;
  pushed_.emplace(key, std::move(pushed));
  find_room(key);
}

// Answers, unless there may be room soon.
void Manager::find_room(std::uint64_t key) {
  Pushed& pushed = pushed_.at(key);
  Outcome outcome;
  if (settings_.listen.empty())
    outcome = {Code::unsupported, Reason::not_listening};
  else if (const Status status = open_groups(); !status)
    outcome = {status.code(), Reason::not_listening};
  if (outcome.ok()) {
    const auto lock = server_.lock();
    Objects& objects = server_.objects();
    outcome = objects.is_here(pushed.id)
                  ? Outcome{Code::exists, Reason::exists}
                  : server_.create_in_place(pushed.id, pushed.sizes.data_bytes,
                                            pushed.sizes.metadata_bytes, pushed.entry);
    if (outcome.code == Code::again && objects.spill().is_open() &&
        monotonic_ns() < pushed.room_until_ns)
      return;
    // A local client that creates it may still abort.
    if (outcome.code == Code::exists && !objects.is_here(pushed.id))
      outcome = {Code::again, Reason::exists};
    else if (outcome.code == Code::again)
      outcome = {Code::no_memory, Reason::no_room};
  }
  PeerMessage answer;
  answer.kind = PeerKind::push_answer;
  answer.id = pushed.id;
  answer.number = pushed.number;
  answer.code = static_cast<std::uint32_t>(outcome.code);
  answer.reason = static_cast<std::uint32_t>(outcome.reason);
  answer.wants_checksum = settings_.verifies;
  if (outcome.ok()) answer.members = {{self_, group_address_}};
  send(pushed.from, answer);
  pushed.room_until_ns = 0;
  pushed.group_until_ns = monotonic_ns() + kGroupNs;
  if (!outcome.ok()) pushed_.erase(key);
}

void Manager::retry_rooms(std::uint64_t now_ns) {
  if (pushed_.empty() || now_ns < next_room_ns_) return;
  next_room_ns_ = now_ns + kRetryRoomNs;
  std::vector<std::uint64_t> waiting, left;
  for (const auto& [key, pushed] : pushed_) {
    if (pushed.room_until_ns != 0)
      waiting.push_back(key);
    else if (pushed.group == nullptr && now_ns > pushed.group_until_ns)
      left.push_back(key);
  }
  for (const std::uint64_t key : waiting) find_room(key);
  for (const std::uint64_t key : left) pushed_ended(key, Code::timed_out);
}

void Manager::join_group(std::uint64_t from, const PeerMessage& message) {
  const auto found = std::find_if(pushed_.begin(), pushed_.end(), [&](const auto& one) {
    return one.second.from == from && one.second.number == message.number;
  });
  if (found == pushed_.end() || found->second.entry == kNoEntry || found->second.group != nullptr)
    return send_push_end(from, message.number, {Code::not_found});
  auto& [key, pushed] = *found;
  PushGroupSettings settings;
  for (const Member& member : message.members) {
    if (member.generation == self_) settings.self = static_cast<int>(settings.members.size());
    settings.members.push_back(member.address);
  }
  settings.group = message.group;
  settings.block_bytes = message.block_bytes;
  settings.bytes = pushed.sizes.data_bytes + pushed.sizes.metadata_bytes;
  if (settings.self == 0) return pushed_ended(key, Code::corrupt);  // of others
  {
    const auto lock = server_.lock();
    settings.place = server_.objects().place(pushed.entry);
  }
  if (settings_.verifies) pushed.sizes.checksum = message.checksum;
  pushed.group = make_group(key, std::move(settings));
}

void Manager::pushed_arrived(std::uint64_t key) {
  const auto found = pushed_.find(key);
  if (found == pushed_.end() || found->second.entry == kNoEntry) return;
  Pushed& pushed = found->second;
  Outcome outcome;
  const Sizes& sizes = pushed.sizes;
  std::byte* place = nullptr;
  {
    const auto lock = server_.lock();
    place = server_.objects().place(pushed.entry);
  }
  if (sizes.checksum != 0 &&
      checksum_of(place, sizes.data_bytes, sizes.metadata_bytes) != sizes.checksum)
    outcome = {Code::corrupt, Reason::wrong_checksum};
  {
    const auto lock = server_.lock();
    {
      const std::lock_guard counters(inbox_mutex_);
      if (outcome.ok())
        ++counters_.pushed_here;
      else
        ++counters_.wrong;
    }
    const std::uint32_t entry = std::exchange(pushed.entry, kNoEntry);
    if (outcome.ok()) {
      copies_.insert(pushed.id);
      server_.objects().seal(entry, 0, false, sizes.stamp);
      server_.objects().set_checksum(entry, sizes.checksum);
    } else {
      server_.objects().abort(entry);
    }
  }
  send_push_end(pushed.from, pushed.number, outcome);
}

// The group has ended: without all bytes, unless the object arrived before.
void Manager::pushed_ended(std::uint64_t key, Code code) {
  const auto found = pushed_.find(key);
  if (found == pushed_.end()) return;
  const Pushed pushed = std::move(found->second);
  pushed_.erase(found);
  if (pushed.entry == kNoEntry) return;
  {
    const auto lock = server_.lock();
    server_.objects().abort(pushed.entry);
  }
  server_.wake();
  // The host that was lost is another one.
  if (code == Code::ok || code == Code::peer_lost) code = Code::cancelled;
  send_push_end(pushed.from, pushed.number, {code});
}

void Manager::stop_pushed(std::uint64_t key) {
  if (const auto& group = pushed_.at(key).group; group != nullptr)
    group->stop();
  else
    pushed_ended(key, Code::cancelled);
}

// The pusher has requested the end.
void Manager::push_stopped(std::uint64_t from, std::uint64_t number) {
  for (const auto& [key, pushed] : pushed_)
    if (pushed.from == from && pushed.number == number) return stop_pushed(key);
}

void Manager::send_push_end(std::uint64_t to, std::uint64_t number, Outcome outcome) {
  PeerMessage message;
  message.kind = PeerKind::push_end;
  message.number = number;
  message.code = static_cast<std::uint32_t>(outcome.code);
  message.reason = static_cast<std::uint32_t>(outcome.reason);
  send(to, message);
}

void Manager::lost_pusher(std::uint64_t member) {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, pushed] : pushed_)
    if (pushed.from == member) keys.push_back(key);
  for (const std::uint64_t key : keys) stop_pushed(key);
}

// --- Both sides ---

// A silent peer is noticed only by waiting for it: a receiver waits for others' bytes, and a pusher
// for reports of their arrival.
void Manager::ping_pushes(std::uint64_t now_ns) {
  if ((pushes_.empty() && pushed_.empty()) || now_ns < next_ping_ns_) return;
  next_ping_ns_ = now_ns + kPingNs;
  std::set<std::uint64_t> others;
  for (const auto& [number, push] : pushes_)
    for (const Target& target : push.targets)
      if (target.state == Target::State::ready) others.insert(target.generation);
  for (const auto& [key, pushed] : pushed_) others.insert(pushed.from);
  PeerMessage message;
  message.kind = PeerKind::push_ping;
  for (const std::uint64_t other : others) send(other, message);
}

// Groups listen at the interfaces (the first part of the addresses) where the store listens, on
// other ports.
Status Manager::open_groups() {
  if (multicast_ != nullptr) return Code::ok;
  if (settings_.listen.empty()) return Code::unsupported;
  NodeSettings settings;
  settings.name = settings_.name;
  settings.secret = settings_.secret;
  settings.fabrics = settings_.fabrics;
  try {
    auto made = std::make_unique<Multicast>(settings);
    for (const std::string& address : settings_.listen) {
      if (address.starts_with("unix:")) continue;
      const std::string any_port = address.substr(0, address.rfind(':')) + ":0";
      if (Status status = made->node().listen(any_port); !status) return status;
    }
    if (Status status = made->node().address(group_address_); !status) return status;
    multicast_ = std::move(made);
  } catch (const Error& error) {
    return error.status();
  }
  return Code::ok;
}

std::unique_ptr<PushGroup> Manager::make_group(std::uint64_t number, PushGroupSettings settings) {
  return std::make_unique<PushGroup>(
      *multicast_, std::move(settings),
      [this, number] {
        post({CommandKind::group_arrived, {}, number});
      },
      [this, number](const Status& status) {
        Command command{CommandKind::group_ended, {}, number};
        command.code = status.code();
        post(command);
      });
}

// Called without the server's lock: groups end before the objects' memory may go.
void Manager::end_groups() {
  for (auto& [number, push] : pushes_) push.group.reset();
  for (auto& [key, pushed] : pushed_) pushed.group.reset();
  multicast_.reset();
  const auto lock = server_.lock();
  for (const auto& [number, push] : pushes_) {
    server_.objects().drop(push.entry);
    server_.pushed(number, {Code::cancelled, Reason::shutting_down}, {});
  }
  for (const auto& [key, pushed] : pushed_)
    if (pushed.entry != kNoEntry) server_.objects().abort(pushed.entry);
  pushes_.clear();
  pushed_.clear();
}

}  // namespace weft::objstore
