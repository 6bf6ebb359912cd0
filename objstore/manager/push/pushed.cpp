// An object that another host pushes here: room for it, the group that fills it, and the seal once
// all bytes have arrived. If the group fails before, the room is given up, and nobody has seen the
// object.
#include "pushed.hpp"

#include <algorithm>

#include "objstore/manager/directory_duties.hpp"
#include "objstore/shared/checksum.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

// A push waits so long for room that a spill makes.
constexpr std::uint64_t kRoomNs = 2'000'000'000, kRetryRoomNs = 5'000'000;
// The room is kept so long for a group that the pusher does not make: longer than it waits for the
// answers of all others.
constexpr std::uint64_t kGroupNs = 30'000'000'000;

}  // namespace

void PushedHere::take_push(std::uint64_t from, const PeerMessage& message) {
  const std::uint64_t key = next_key_++ | PushGroups::kPushedHere;
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
void PushedHere::find_room(std::uint64_t key) {
  Pushed& pushed = pushed_.at(key);
  Outcome outcome;
  if (core_.settings.listen.empty())
    outcome = {Code::unsupported, Reason::not_listening};
  else if (const Status status = groups_.open(); !status)
    outcome = {status.code(), Reason::not_listening};
  if (outcome.ok()) {
    const auto lock = core_.server.lock();
    Objects& objects = core_.server.objects();
    outcome = objects.is_here(pushed.id)
                  ? Outcome{Code::exists, Reason::exists}
                  : core_.server.create_in_place(pushed.id, pushed.sizes.data_bytes,
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
  answer.wants_checksum = core_.settings.verifies;
  if (outcome.ok()) answer.members = {{core_.self, groups_.address()}};
  members_.send(pushed.from, answer);
  pushed.room_until_ns = 0;
  pushed.group_until_ns = monotonic_ns() + kGroupNs;
  if (!outcome.ok()) pushed_.erase(key);
}

void PushedHere::retry_rooms(std::uint64_t now_ns) {
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

void PushedHere::join_group(std::uint64_t from, const PeerMessage& message) {
  const auto found = std::find_if(pushed_.begin(), pushed_.end(), [&](const auto& one) {
    return one.second.from == from && one.second.number == message.number;
  });
  if (found == pushed_.end() || found->second.entry == kNoEntry || found->second.group != nullptr)
    return send_push_end(from, message.number, {Code::not_found});
  auto& [key, pushed] = *found;
  PushGroupSettings settings;
  for (const Member& member : message.members) {
    if (member.generation == core_.self) settings.self = static_cast<int>(settings.members.size());
    settings.members.push_back(member.address);
  }
  settings.group = message.group;
  settings.block_bytes = message.block_bytes;
  settings.bytes = pushed.sizes.data_bytes + pushed.sizes.metadata_bytes;
  if (settings.self == 0) return pushed_ended(key, Code::corrupt);  // of others
  {
    const auto lock = core_.server.lock();
    settings.place = core_.server.objects().place(pushed.entry);
  }
  if (core_.settings.verifies) pushed.sizes.checksum = message.checksum;
  pushed.group = groups_.make(key, std::move(settings));
}

void PushedHere::pushed_arrived(std::uint64_t key) {
  const auto found = pushed_.find(key);
  if (found == pushed_.end() || found->second.entry == kNoEntry) return;
  Pushed& pushed = found->second;
  Outcome outcome;
  const ObjectSizes& sizes = pushed.sizes;
  std::byte* place = nullptr;
  {
    const auto lock = core_.server.lock();
    place = core_.server.objects().place(pushed.entry);
  }
  if (sizes.checksum != 0 &&
      checksum_of(place, sizes.data_bytes, sizes.metadata_bytes) != sizes.checksum)
    outcome = {Code::corrupt, Reason::wrong_checksum};
  {
    const auto lock = core_.server.lock();
    {
      const std::lock_guard counters(core_.mutex);
      if (outcome.ok())
        ++core_.counters.pushed_here;
      else
        ++core_.counters.wrong;
    }
    const std::uint32_t entry = std::exchange(pushed.entry, kNoEntry);
    if (outcome.ok()) {
      directory_.note_copy(pushed.id);
      core_.server.objects().seal(entry, 0, false, sizes.stamp);
      core_.server.objects().set_checksum(entry, sizes.checksum);
    } else {
      core_.server.objects().abort(entry);
    }
  }
  send_push_end(pushed.from, pushed.number, outcome);
}

// The group has ended: without all bytes, unless the object arrived before.
void PushedHere::pushed_ended(std::uint64_t key, Code code) {
  const auto found = pushed_.find(key);
  if (found == pushed_.end()) return;
  const Pushed pushed = std::move(found->second);
  pushed_.erase(found);
  if (pushed.entry == kNoEntry) return;
  {
    const auto lock = core_.server.lock();
    core_.server.objects().abort(pushed.entry);
  }
  core_.server.wake();
  // The host that was lost is another one.
  if (code == Code::ok || code == Code::peer_lost) code = Code::cancelled;
  send_push_end(pushed.from, pushed.number, {code});
}

void PushedHere::stop_pushed(std::uint64_t key) {
  if (const auto& group = pushed_.at(key).group; group != nullptr)
    group->stop();
  else
    pushed_ended(key, Code::cancelled);
}

// The pusher has requested the end.
void PushedHere::push_stopped(std::uint64_t from, std::uint64_t number) {
  for (const auto& [key, pushed] : pushed_)
    if (pushed.from == from && pushed.number == number) return stop_pushed(key);
}

void PushedHere::send_push_end(std::uint64_t to, std::uint64_t number, Outcome outcome) {
  PeerMessage message;
  message.kind = PeerKind::push_end;
  message.number = number;
  message.code = static_cast<std::uint32_t>(outcome.code);
  message.reason = static_cast<std::uint32_t>(outcome.reason);
  members_.send(to, message);
}

void PushedHere::lost_pusher(std::uint64_t member) {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, pushed] : pushed_)
    if (pushed.from == member) keys.push_back(key);
  for (const std::uint64_t key : keys) stop_pushed(key);
}

void PushedHere::add_awaited(std::set<std::uint64_t>& members) const {
  for (const auto& [key, pushed] : pushed_) members.insert(pushed.from);
}

void PushedHere::end_groups() {
  for (auto& [key, pushed] : pushed_) pushed.group.reset();
}

void PushedHere::drop_all() {
  for (const auto& [key, pushed] : pushed_)
    if (pushed.entry != kNoEntry) core_.server.objects().abort(pushed.entry);
  pushed_.clear();
}

}  // namespace weft::objstore
