// Who holds what: the part of the directory that this manager answers for, and asking the others.
#include <algorithm>

#include "clock.hpp"
#include "manager.hpp"

namespace weft::objstore {
namespace {

// How long a copy may be under way when its object is deleted.
constexpr std::uint64_t kErasedNs = 60'000'000'000;

}  // namespace

// Rendezvous hashing: D. Thaler, C. Ravishankar, "Using name-based mappings to increase hit rates",
// 1998.
std::uint64_t Manager::home_of(const ObjectId& id) const {
  const std::uint64_t hash = std::hash<ObjectId>()(id);
  const auto weight = [hash](std::uint64_t member) {
    std::uint64_t mixed = (hash ^ member) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return mixed ^ mixed >> 32;
  };
  std::uint64_t best = self_, best_weight = weight(self_);
  for (const auto& [generation, peer] : peers_) {
    const std::uint64_t its = weight(generation);
    if (its > best_weight || (its == best_weight && generation > best)) {
      best = generation;
      best_weight = its;
    }
  }
  return best;
}

void Manager::directory(std::uint64_t from, const PeerMessage& message) {
  PeerMessage answer;
  answer.id = message.id;
  answer.kind = PeerKind::holders;
  switch (message.kind) {
    case PeerKind::announce: {
      Known& known = known_[message.id];
      known.holders.insert(from);
      if (message.number != 0 && known.erased_ns != 0) {
        answer.kind = PeerKind::drop;
        send(from, answer);
        return;
      }
      known.erased_ns = 0;  // the name is used anew
      answer.holders = {from};
      const std::set<std::uint64_t> watchers = known.watchers;
      for (const std::uint64_t watcher : watchers)
        if (watcher != from) send(watcher, answer);
      return;
    }
    case PeerKind::withdraw:
    case PeerKind::unwatch: {
      const auto found = known_.find(message.id);
      if (found == known_.end()) return;
      (message.kind == PeerKind::withdraw ? found->second.holders : found->second.watchers)
          .erase(from);
      if (found->second.is_empty()) known_.erase(found);
      return;
    }
    case PeerKind::watch: {
      Known& known = known_[message.id];
      known.watchers.insert(from);
      for (const std::uint64_t holder : known.holders)
        if (holder != from) answer.holders.push_back(holder);
      if (!answer.holders.empty()) send(from, answer);
      return;
    }
    case PeerKind::holders: {
      const auto found = fetches_.find(message.id);
      if (found == fetches_.end()) return;
      Fetch& fetch = *found->second;
      if (message.is_deleted) {
        const auto lock = server_.lock();
        server_.fail_waits(message.id, Code::not_found, Reason::deleted);
        return;
      }
      for (const std::uint64_t holder : message.holders) {
        fetch.holders.insert(holder);
        fetch.failed.erase(holder);  // it has told anew
      }
      if (fetch.number == 0 && fetch.offer == nullptr && !fetch.is_reading) ask_next(fetch);
      return;
    }
    case PeerKind::erase: {
      Known& remembered = known_[message.id];
      remembered.erased_ns = monotonic_ns();
      erased_.emplace_back(remembered.erased_ns, message.id);
      const Known known = remembered;
      PeerMessage drop;
      drop.kind = PeerKind::drop;
      drop.id = message.id;
      // Who asked for it has erased its own. Holders withdraw when they have.
      for (const std::uint64_t holder : known.holders)
        if (holder != from) send(holder, drop);
      answer.is_deleted = true;
      for (const std::uint64_t watcher : known.watchers) send(watcher, answer);
      return;
    }
    default: {  // drop
      const auto lock = server_.lock();
      [[maybe_unused]] const Outcome outcome = server_.objects().erase(message.id);
      return;
    }
  }
}

void Manager::forget_erased(std::uint64_t now_ns) {
  for (; !erased_.empty() && now_ns - erased_.front().first > kErasedNs; erased_.pop_front()) {
    const auto found = known_.find(erased_.front().second);
    if (found == known_.end() || found->second.erased_ns != erased_.front().first) continue;
    found->second.erased_ns = 0;
    if (found->second.is_empty()) known_.erase(found);
  }
}

void Manager::forget_member(std::uint64_t member) {
  for (auto known = known_.begin(); known != known_.end();) {
    known->second.holders.erase(member);
    known->second.watchers.erase(member);
    known = known->second.is_empty() ? known_.erase(known) : std::next(known);
  }
}

// After a member came: what it answers for from now on is told to it. After one went: what it
// answered for is told to whoever does now.
void Manager::announce_moved(std::uint64_t joined, const std::vector<ObjectId>& were_at_lost) {
  PeerMessage message;
  message.kind = PeerKind::announce;
  for (const ObjectId& id : were_at_lost) {
    message.id = id;
    send(home_of(id), message);
  }
  if (joined == 0) return;
  for (const ObjectId& id : local_objects())
    if (home_of(id) == joined) {
      message.id = id;
      send(joined, message);
    }
  message.kind = PeerKind::watch;
  for (const auto& [id, fetch] : fetches_)
    if (home_of(id) == joined) {
      message.id = id;
      send(joined, message);
    }
  std::erase_if(known_, [&](const auto& known) { return home_of(known.first) == joined; });
}

}  // namespace weft::objstore
