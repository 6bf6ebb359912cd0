// An object that goes to many hosts at once: the side of the host that has it. Each is asked to
// make room; hosts that have it already, or have no room, are left out; the others and this one
// make a group, through which the bytes go. Each host reports its own result.
#include "push.hpp"

#include <algorithm>
#include <random>

#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

// A host may take so long to answer whether it has room, and to report the result after the group
// has ended.
constexpr std::uint64_t kAnswerNs = 10'000'000'000;
constexpr int kConnectMs = 10'000;
// An object has some 64 blocks, but none so small that its overhead counts more than its bytes.
constexpr std::uint64_t kLeastBlock = 64 << 10, kMostBlock = 1 << 20, kBlocks = 64;

std::uint64_t block_bytes_for(std::uint64_t bytes) {
  const std::uint64_t wanted = (bytes / kBlocks + kLeastBlock - 1) / kLeastBlock * kLeastBlock;
  return std::clamp(wanted, kLeastBlock, kMostBlock);
}

// The host's name within the name that its store has among peers.
std::string_view host_name(std::string_view peer_name) {
  constexpr std::string_view kPrefix = "weft-store ";
  return peer_name.starts_with(kPrefix) ? peer_name.substr(kPrefix.size()) : peer_name;
}

static_assert(kMostPushed + 1 <= kMaxMembers);

// Never used twice: the id of a group that has failed is used up.
std::uint64_t new_group_id() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

void Pushes::start_push(std::uint64_t number, const ObjectId& id,
                        const std::vector<std::string>& hosts) {
  Push push;
  push.id = id;
  {
    const auto lock = core_.server.lock();
    push.entry = core_.server.objects().find_sealed(id);
    if (push.entry == kNoEntry) return core_.server.pushed(number, {Code::not_found}, {});
    if (hosts.empty() && members_.stores().size() > core_.settings.most_pushed)
      return core_.server.pushed(number, {Code::bad_argument, Reason::many_hosts}, {},
                                 members_.stores().size());
    core_.server.objects().hold(push.entry);
  }
  for (const std::string& host : hosts) {
    Target& target = push.targets.emplace_back();
    target.host = host;
  }
  if (hosts.empty()) {
    const std::lock_guard lock(core_.mutex);
    for (const std::uint64_t store : members_.stores()) {
      Target& target = push.targets.emplace_back();
      target.generation = store;
      const auto known = core_.peer_names.find(store);
      if (known != core_.peer_names.end()) target.host = host_name(known->second.first);
    }
  }
  const std::size_t num = push.targets.size();
  pushes_.emplace(number, std::move(push));
  for (std::size_t i = 0; i < num; ++i) find_target(number, i);
  advance_push(number);
}

// Finds the peer by the name of the host, or by an address where its store listens.
void Pushes::find_target(std::uint64_t number, std::size_t place) {
  Target& target = pushes_.at(number).targets[place];
  if (target.generation != 0) return found_target(number, place, target.generation);
  std::vector<std::uint64_t> named;
  {
    const std::lock_guard lock(core_.mutex);
    for (const auto& [generation, peer] : core_.peer_names)
      if (host_name(peer.first) == target.host) named.push_back(generation);
  }
  if (named.size() == 1) return found_target(number, place, named.front());
  if (named.empty() && target.host == host_name(core_.settings.name))
    return found_target(number, place, core_.self);
  if (named.empty() && target.host.find(':') != std::string::npos) {
    if (const std::uint64_t known = members_.connected_to(target.host); known != 0)
      return found_target(number, place, known);
    core_.node->connect_async(
        target.host,
        [this, number, place, address = target.host](Status status, Peer peer) {
          if (status) members_.note_connected(address, peer.generation());
          const auto found = pushes_.find(number);
          if (found == pushes_.end() || !found->second.targets[place].is_open()) return;
          if (status) {
            found_target(number, place, peer.generation());
          } else {
            found->second.targets[place].state = Target::State::ended;
            found->second.targets[place].outcome = {status.code()};
          }
          advance_push(number);
        },
        kConnectMs);
    return;
  }
  target.state = Target::State::ended;
  target.outcome = {named.empty() ? Code::not_found : Code::bad_argument};
}

void Pushes::found_target(std::uint64_t number, std::size_t place, std::uint64_t generation) {
  Push& push = pushes_.at(number);
  Target& target = push.targets[place];
  target.generation = generation;
  target.state = Target::State::ended;
  if (generation == core_.self) {
    target.outcome = {Code::ok, Reason::exists};
    return;
  }
  for (std::size_t i = 0; i < push.targets.size(); ++i)
    if (i != place && push.targets[i].generation == generation && !push.targets[i].is_same) {
      target.is_same = true;
      return;
    }
  if (!members_.has_link(generation)) {
    target.outcome = {Code::peer_lost};
    return;
  }
  PeerMessage message;
  message.kind = PeerKind::push;
  message.id = push.id;
  message.number = number;
  {
    const auto lock = core_.server.lock();
    const Entry& object = core_.server.objects().index().entry(push.entry);
    message.data_bytes = object.data_bytes;
    message.metadata_bytes = object.metadata_bytes;
    message.stamp = core_.server.objects().stamp_of(push.entry);
  }
  target.state = Target::State::asked;
  push.answer_until_ns = monotonic_ns() + kAnswerNs;
  members_.send(generation, message);
}

// Takes all steps that are possible now. The push may be gone afterwards.
void Pushes::advance_push(std::uint64_t number) {
  Push& push = pushes_.at(number);
  using State = Target::State;
  const auto any = [&push](State state) {
    return std::any_of(push.targets.begin(), push.targets.end(),
                       [&](const Target& target) { return target.state == state; });
  };
  if (any(State::connecting) || any(State::asked)) return;
  if (!push.has_begun) {
    push.has_begun = true;
    if (any(State::ready)) return begin_group(number, push);
  }
  if ((push.group != nullptr && !push.has_ended) || any(State::ready)) return;
  std::vector<PushResult> results;
  std::uint64_t num_sent = 0;
  for (const Target& target : push.targets) {
    if (target.is_same) continue;
    results.push_back({target.host, target.outcome});
    num_sent += target.outcome.ok() && target.outcome.reason != Reason::exists;
  }
  Outcome outcome = push.failure;
  if (results.empty()) outcome = {Code::not_found, Reason::no_hosts};
  if (push.is_given_up && std::any_of(results.begin(), results.end(), [](const PushResult& result) {
        return !result.outcome.ok();
      }))
    outcome = {Code::timed_out, Reason::few_hosts};
  const Push done = std::move(push);
  pushes_.erase(number);
  const auto lock = core_.server.lock();
  {
    const std::lock_guard counters(core_.mutex);
    core_.counters.pushed += num_sent;
  }
  core_.server.objects().drop(done.entry);
  core_.server.pushed(number, outcome, results);
}

// Makes the group of the targets that are ready; from now on its members do not change.
void Pushes::begin_group(std::uint64_t number, Push& push) {
  PushGroupSettings settings;
  PeerMessage message;
  message.kind = PeerKind::push_group;
  message.id = push.id;
  message.number = number;
  const Status opened = groups_.open();
  if (!opened) {
    push.failure = {opened.code(),
                    core_.settings.listen.empty() ? Reason::not_listening : Reason::none};
    for (Target& target : push.targets)
      if (target.state == Target::State::ready) {
        target.state = Target::State::ended;
        target.outcome = {opened.code()};
        stop_push_at(target.generation, number);
      }
    return advance_push(number);
  }
  std::uint64_t data_bytes = 0;
  std::uint32_t metadata_bytes = 0;
  {
    const auto lock = core_.server.lock();
    const Entry& object = core_.server.objects().index().entry(push.entry);
    data_bytes = object.data_bytes;
    metadata_bytes = object.metadata_bytes;
    message.checksum = core_.server.objects().checksum_of(push.entry);
    settings.place = core_.server.objects().place(push.entry);
  }
  settings.bytes = data_bytes + metadata_bytes;
  if (push.wants_checksum && message.checksum == 0) {
    message.checksum = checksum_of(settings.place, data_bytes, metadata_bytes);
    const auto lock = core_.server.lock();
    core_.server.objects().set_checksum(push.entry, message.checksum);
  }
  message.group = new_group_id();
  message.block_bytes = block_bytes_for(settings.bytes);
  message.members.push_back({core_.self, groups_.address()});
  for (const Target& target : push.targets)
    if (target.state == Target::State::ready)
      message.members.push_back({target.generation, target.group_address});
  settings.group = message.group;
  settings.block_bytes = message.block_bytes;
  for (const Member& member : message.members) settings.members.push_back(member.address);
  for (const Target& target : push.targets)
    if (target.state == Target::State::ready) members_.send(target.generation, message);
  push.group = groups_.make(number, std::move(settings));
}

void Pushes::push_answered(std::uint64_t from, const PeerMessage& message) {
  const auto found = pushes_.find(message.number);
  const auto is_asked = [from](const Target& target) {
    return target.generation == from && target.state == Target::State::asked;
  };
  if (found != pushes_.end()) {
    Push& push = found->second;
    const auto target = std::find_if(push.targets.begin(), push.targets.end(), is_asked);
    if (target != push.targets.end()) {
      const auto code = static_cast<Code>(message.code);
      if (code == Code::ok && message.members.size() == 1) {
        target->state = Target::State::ready;
        target->group_address = message.members.front().address;
        push.wants_checksum |= message.wants_checksum;
      } else {
        target->state = Target::State::ended;
        target->outcome = {code, static_cast<Reason>(message.reason)};
        if (code == Code::ok) target->outcome = {Code::corrupt};
        if (code == Code::exists) target->outcome = {Code::ok, Reason::exists};
      }
      return advance_push(message.number);
    }
  }
  // The push is over: the room is wanted by others.
  if (message.code == 0) stop_push_at(from, message.number);
}

void Pushes::push_ended(std::uint64_t from, const PeerMessage& message) {
  const auto found = pushes_.find(message.number);
  if (found == pushes_.end()) return;
  for (Target& target : found->second.targets) {
    if (target.generation != from || target.state != Target::State::ready ||
        !found->second.has_begun)
      continue;
    target.state = Target::State::ended;
    target.outcome = {static_cast<Code>(message.code), static_cast<Reason>(message.reason)};
    return advance_push(message.number);
  }
}

void Pushes::stop_push_at(std::uint64_t host, std::uint64_t number) {
  PeerMessage message;
  message.kind = PeerKind::push_stop;
  message.number = number;
  members_.send(host, message);
}

void Pushes::lost_target(std::uint64_t member) {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, push] : pushes_)
    for (Target& target : push.targets)
      if (target.generation == member && target.is_open()) {
        target.state = Target::State::ended;
        target.outcome = {Code::peer_lost};
        // This notifies the others sooner than their own connections do, if they have any.
        if (push.group != nullptr) push.group->stop();
        numbers.push_back(number);
      }
  for (const std::uint64_t number : numbers)
    if (pushes_.contains(number)) advance_push(number);
}

void Pushes::give_up_push(std::uint64_t number) {
  const auto found = pushes_.find(number);
  if (found == pushes_.end() || found->second.is_given_up) return;
  Push& push = found->second;
  push.is_given_up = true;
  if (push.group != nullptr) {
    push.group->stop();
    return;
  }
  push.has_begun = true;
  for (Target& target : push.targets) {
    if (!target.is_open()) continue;
    if (target.state != Target::State::connecting) stop_push_at(target.generation, number);
    target.state = Target::State::ended;
    target.outcome = {Code::timed_out};
  }
  advance_push(number);
}

void Pushes::group_ended(std::uint64_t number, Code code) {
  const auto found = pushes_.find(number);
  if (found == pushes_.end()) return;
  found->second.has_ended = true;
  found->second.answer_until_ns = monotonic_ns() + kAnswerNs;
  // Targets without a connection to this host yet are not notified by the group.
  if (code != Code::ok)
    for (const Target& target : found->second.targets)
      if (target.state == Target::State::ready) stop_push_at(target.generation, number);
  advance_push(number);
}

// Leaves out hosts that do not answer, so that the others do not wait for them.
void Pushes::end_late_pushes(std::uint64_t now_ns) {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, push] : pushes_) {
    if (now_ns < push.answer_until_ns || (push.group != nullptr && !push.has_ended)) continue;
    const auto late = push.has_begun ? Target::State::ready : Target::State::asked;
    for (Target& target : push.targets) {
      if (target.state != late) continue;
      target.state = Target::State::ended;
      target.outcome = {Code::timed_out};
      stop_push_at(target.generation, number);
      if (numbers.empty() || numbers.back() != number) numbers.push_back(number);
    }
  }
  for (const std::uint64_t number : numbers) advance_push(number);
}

void Pushes::add_awaited(std::set<std::uint64_t>& members) const {
  for (const auto& [number, push] : pushes_)
    for (const Target& target : push.targets)
      if (target.state == Target::State::ready) members.insert(target.generation);
}

void Pushes::end_groups() {
  for (auto& [number, push] : pushes_) push.group.reset();
}

void Pushes::drop_all() {
  for (const auto& [number, push] : pushes_) {
    core_.server.objects().drop(push.entry);
    core_.server.pushed(number, {Code::cancelled, Reason::shutting_down}, {});
  }
  pushes_.clear();
}

}  // namespace weft::objstore
