#include "embedded.hpp"

#include <nlohmann/json.hpp>

#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

// A copy may be under way for so long when its object is deleted.
constexpr std::uint64_t kErasedNs = 60'000'000'000;

}  // namespace

// D. Thaler, C. Ravishankar, "Using name-based mappings to increase hit rates", 1998.
std::uint64_t EmbeddedDirectory::home_of(const ObjectId& id) const {
  const std::uint64_t hash = std::hash<ObjectId>()(id);
  const auto weight = [hash](std::uint64_t member) {
    std::uint64_t mixed = (hash ^ member) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return mixed ^ mixed >> 32;
  };
  std::uint64_t best = self_, best_weight = weight(self_);
  for (const std::uint64_t member : members_) {
    const std::uint64_t its = weight(member);
    if (its > best_weight || (its == best_weight && member > best)) {
      best = member;
      best_weight = its;
    }
  }
  return best;
}

void EmbeddedDirectory::send(std::uint64_t to, PeerKind kind, const ObjectId& id,
                             std::uint64_t number) {
  PeerMessage message;
  message.kind = kind;
  message.id = id;
  message.number = number;
  if (to == self_)
    received(self_, message);
  else
    user_.send_to(to, message);
}

void EmbeddedDirectory::send_holders(std::uint64_t to, const ObjectId& id,
                                     std::vector<std::uint64_t> holders, bool is_deleted,
                                     std::uint64_t number) {
  PeerMessage message;
  message.kind = PeerKind::holders;
  message.id = id;
  message.number = number;
  message.holders = std::move(holders);
  message.is_deleted = is_deleted;
  if (to == self_)
    received(self_, message);
  else
    user_.send_to(to, message);
}

// --- Calls of the manager ---

void EmbeddedDirectory::open() {
  for (const ObjectId& id : user_.local_objects()) announce(id, Announced::again);
}

void EmbeddedDirectory::announce(const ObjectId& id, Announced kind) {
  send(home_of(id), PeerKind::announce, id, static_cast<std::uint64_t>(kind));
}
void EmbeddedDirectory::withdraw(const ObjectId& id) { send(home_of(id), PeerKind::withdraw, id); }
void EmbeddedDirectory::confirm(const ObjectId& id, std::uint64_t number) {
  send(home_of(id), PeerKind::confirm, id, number);
}
void EmbeddedDirectory::watch(const ObjectId& id, const PeerMessage& ask) {
  watched_.insert(id);
  const std::uint64_t home = home_of(id);
  PeerMessage message = ask;
  message.kind = PeerKind::watch;
  message.id = id;
  if (home == self_)
    received(self_, message);
  else
    user_.send_to(home, message);
}
std::uint64_t EmbeddedDirectory::answerer(const ObjectId& id) const {
  const std::uint64_t home = home_of(id);
  return home == self_ ? 0 : home;
}
void EmbeddedDirectory::unwatch(const ObjectId& id) {
  watched_.erase(id);
  send(home_of(id), PeerKind::unwatch, id);
}
void EmbeddedDirectory::erase(const ObjectId& id) { send(home_of(id), PeerKind::erase, id); }

// --- Members ---

// Announces to the new member what it answers for from now on, and repeats all watches: others may
// have announced what it holds while it could not be asked.
void EmbeddedDirectory::joined(std::uint64_t member) {
  members_.insert(member);
  for (const ObjectId& id : user_.local_objects())
    if (home_of(id) == member) announce(id, Announced::again);
  const std::vector<ObjectId> watched(watched_.begin(), watched_.end());
  for (const ObjectId& id : watched) send(home_of(id), PeerKind::watch, id);
  std::erase_if(known_, [&](const auto& known) { return home_of(known.first) == member; });
}

// Announces what the lost member answered for to its successors.
void EmbeddedDirectory::lost(std::uint64_t member) {
  std::vector<ObjectId> held, watched;
  for (const ObjectId& id : user_.local_objects())
    if (home_of(id) == member) held.push_back(id);
  for (const ObjectId& id : watched_)
    if (home_of(id) == member) watched.push_back(id);
  members_.erase(member);
  for (auto known = known_.begin(); known != known_.end();) {
    known->second.holders.erase(member);
    known->second.watchers.erase(member);
    known = known->second.is_empty() ? known_.erase(known) : std::next(known);
  }
  for (const ObjectId& id : held) announce(id, Announced::again);
  for (const ObjectId& id : watched) send(home_of(id), PeerKind::watch, id);
}

// --- Messages of other managers ---

void EmbeddedDirectory::note(std::uint64_t from, const ObjectId& id, Announced kind) {
  Known& known = known_[id];
  const bool is_late = kind == Announced::copy && known.erased_ns != 0;
  const bool is_second = kind == Announced::sealed && !known.holders.empty() &&
                         !known.holders.contains(from) && !known.is_early;
  if (is_late || is_second)
    return send(from, PeerKind::drop, id,
                static_cast<std::uint64_t>(is_second ? Dropped::second : Dropped::erased));
  // Announcements of two hosts arrive in any order.
  known.is_early = kind == Announced::copy && (known.holders.empty() || known.is_early);
  known.holders.insert(from);
  known.erased_ns = 0;  // the name is used anew
  const std::set<std::uint64_t> watchers = known.watchers;
  for (const std::uint64_t watcher : watchers)
    if (watcher != from) send_holders(watcher, id, {from}, false);
}

void EmbeddedDirectory::answer_erase(std::uint64_t from, const ObjectId& id) {
  Known& remembered = known_[id];
  remembered.erased_ns = monotonic_ns();
  erased_.emplace_back(remembered.erased_ns, id);
  const Known known = remembered;
  // A holder that was sent a drop holds it no longer: the name may be used anew at once.
  remembered.holders.clear();
  // The sender has erased its own copy.
  for (const std::uint64_t holder : known.holders)
    if (holder != from) send(holder, PeerKind::drop, id);
  for (const std::uint64_t watcher : known.watchers) send_holders(watcher, id, {}, true);
}

void EmbeddedDirectory::received(std::uint64_t from, const PeerMessage& message) {
  switch (message.kind) {
    case PeerKind::announce:
      return note(from, message.id, static_cast<Announced>(message.number));
    case PeerKind::withdraw:
    case PeerKind::unwatch: {
      const auto found = known_.find(message.id);
      if (found == known_.end()) return;
      (message.kind == PeerKind::withdraw ? found->second.holders : found->second.watchers)
          .erase(from);
      if (found->second.holders.empty()) found->second.is_early = false;
      if (found->second.is_empty()) known_.erase(found);
      return;
    }
    case PeerKind::watch: {
      Known& known = known_[message.id];
      known.watchers.insert(from);
      std::vector<std::uint64_t> holders(known.holders.begin(), known.holders.end());
      std::erase(holders, from);
      // If others hold it too, the requester chooses, so that no one holder gives to all.
      const bool is_alone = holders.size() == 1 && holders.front() == self_;
      if (message.number != 0 && is_alone && user_.give_to(from, message)) return;
      if (!holders.empty() || message.number != 0)
        send_holders(from, message.id, std::move(holders), false, message.number);
      return;
    }
    case PeerKind::holders:
      if (!watched_.contains(message.id)) return;
      if (message.is_deleted) return user_.was_deleted(message.id);
      return user_.has_holders(message.id, message.holders);
    case PeerKind::confirm:
      return send(from, PeerKind::confirmed, message.id, message.number);
    case PeerKind::confirmed:
      return user_.confirmed(message.number);
    case PeerKind::erase:
      return answer_erase(from, message.id);
    case PeerKind::drop:
      return user_.must_drop(message.id, message.number == 1 ? Dropped::second : Dropped::erased);
    default:
      return;
  }
}

void EmbeddedDirectory::progress(std::uint64_t now_ns) {
  for (; !erased_.empty() && erased_.front().first + kErasedNs < now_ns; erased_.pop_front()) {
    const auto found = known_.find(erased_.front().second);
    if (found == known_.end() || found->second.erased_ns != erased_.front().first) continue;
    found->second.erased_ns = 0;
    if (found->second.is_empty()) known_.erase(found);
  }
}

void EmbeddedDirectory::status(nlohmann::json& json) {
  json["directory"] = {{"kind", "embedded"}, {"answers_for", known_.size()}};
}

}  // namespace weft::objstore
