// Replicas on other hosts, which a put waits for. The host that has the object asks others to keep
// a replica; they fetch it as any other object, and answer.
#include "copies.hpp"

namespace weft::objstore {

void Replicas::start(std::uint64_t number, const ObjectId& id, std::uint32_t num_others) {
  replications_.emplace(number, Replication{id, num_others, {}, {}, {}});
  replicate_to(number);
}

// Asks as many hosts as are still missing, of those that were not asked before; ends with the
// number reached if there are no more.
void Replicas::replicate_to(std::uint64_t number) {
  Replication& replication = replications_.at(number);
  if (replication.kept.size() >= replication.num_others) return end_replication(number);
  PeerMessage message;
  message.kind = PeerKind::keep;
  message.id = replication.id;
  message.number = number;
  const std::vector<std::uint64_t> members(members_.stores().begin(), members_.stores().end());
  // Objects begin with different hosts.
  const std::size_t first = std::hash<ObjectId>()(replication.id);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint64_t member = members[(first + i) % members.size()];
    if (replication.asked.size() - replication.refused.size() >= replication.num_others) return;
    if (replication.asked.insert(member).second) members_.send(member, message);
  }
  if (replication.asked.size() == replication.kept.size() + replication.refused.size())
    end_replication(number);
}

void Replicas::end_replication(std::uint64_t number) {
  const auto found = replications_.find(number);
  if (found == replications_.end()) return;
  const auto num_hosts = static_cast<std::uint32_t>(found->second.kept.size() + 1);
  replications_.erase(found);
  const auto lock = core_.server.lock();
  core_.server.replicated(number, num_hosts);
}

void Replicas::replica_answered(std::uint64_t from, const PeerMessage& message) {
  const auto found = replications_.find(message.number);
  if (found == replications_.end()) return;
  Replication& replication = found->second;
  if (!replication.asked.contains(from) || replication.kept.contains(from) ||
      replication.refused.contains(from))
    return;
  (message.kind == PeerKind::kept ? replication.kept : replication.refused).insert(from);
  replicate_to(message.number);
}

void Replicas::lost_replica_holder(std::uint64_t member) {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, replication] : replications_) {
    if (!replication.asked.contains(member)) continue;
    replication.kept.erase(member);
    replication.refused.insert(member);
    numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) replicate_to(number);
}

// --- The replica holder's side ---

void Replicas::keep(std::uint64_t from, const PeerMessage& message) {
  bool is_here;
  {
    const auto lock = core_.server.lock();
    is_here = core_.server.objects().is_here(message.id);
  }
  if (!is_here) return fetches_.keep(from, message.id, message.number);
  PeerMessage answer;
  answer.kind = PeerKind::kept;
  answer.id = message.id;
  answer.number = message.number;
  members_.send(from, answer);
}

}  // namespace weft::objstore
