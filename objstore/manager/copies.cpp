// Replicas on other hosts, which a put waits for. The host that has the object asks others to keep
// a replica; they fetch it as any other object, and answer.
#include "manager.hpp"
#include "objstore/shared/clock.hpp"

namespace weft::objstore {
namespace {

// A replica holder waits so long for room before it answers that it has none.
constexpr std::uint64_t kRoomNs = 2'000'000'000;

}  // namespace

// Asks as many hosts as are still missing, of those that were not asked before; ends with the
// number reached if there are no more.
void Manager::replicate_to(std::uint64_t number) {
  Replication& replication = replications_.at(number);
  if (replication.kept.size() >= replication.num_others) return end_replication(number);
  PeerMessage message;
  message.kind = PeerKind::keep;
  message.id = replication.id;
  message.number = number;
  const std::vector<std::uint64_t> members(stores_.begin(), stores_.end());
  // Objects begin with different hosts.
  const std::size_t first = std::hash<ObjectId>()(replication.id);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint64_t member = members[(first + i) % members.size()];
    if (replication.asked.size() - replication.refused.size() >= replication.num_others) return;
    if (replication.asked.insert(member).second) send(member, message);
  }
  if (replication.asked.size() == replication.kept.size() + replication.refused.size())
    end_replication(number);
}

void Manager::end_replication(std::uint64_t number) {
  const auto found = replications_.find(number);
  if (found == replications_.end()) return;
  const auto num_hosts = static_cast<std::uint32_t>(found->second.kept.size() + 1);
  replications_.erase(found);
  const auto lock = server_.lock();
  server_.replicated(number, num_hosts);
}

void Manager::replica_answered(std::uint64_t from, const PeerMessage& message) {
  const auto found = replications_.find(message.number);
  if (found == replications_.end()) return;
  Replication& replication = found->second;
  if (!replication.asked.contains(from) || replication.kept.contains(from) ||
      replication.refused.contains(from))
    return;
  (message.kind == PeerKind::kept ? replication.kept : replication.refused).insert(from);
  replicate_to(message.number);
}

void Manager::lost_replica_holder(std::uint64_t member) {
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

void Manager::keep(std::uint64_t from, const PeerMessage& message) {
  bool is_here;
  {
    const auto lock = server_.lock();
    is_here = server_.objects().is_here(message.id);
  }
  if (is_here) {
    PeerMessage answer;
    answer.kind = PeerKind::kept;
    answer.id = message.id;
    answer.number = message.number;
    return send(from, answer);
  }
  Fetch* fetch = fetch_of(message.id);
  if (fetch == nullptr) {
    auto made = std::make_unique<Fetch>();
    fetch = made.get();
    fetch->id = message.id;
    fetch->is_wanted = false;
    fetches_.emplace(message.id, std::move(made));
  }
  fetch->replica_requests[from].insert(message.number);
  fetch->keep_until_ns = monotonic_ns() + kRoomNs;
  fetch->holders.insert(from);
  fetch->failed.erase(from);
  advance(*fetch);
}

// Answers with whether the object is here now, by this fetch or otherwise.
void Manager::answer_replica_requests(const Fetch& fetch) {
  bool is_kept;
  {
    const auto lock = server_.lock();
    is_kept = server_.objects().is_here(fetch.id);
  }
  PeerMessage answer;
  answer.kind = is_kept ? PeerKind::kept : PeerKind::unkept;
  answer.id = fetch.id;
  for (const auto& [host, numbers] : fetch.replica_requests)
    for (const std::uint64_t number : numbers) {
      answer.number = number;
      send(host, answer);
    }
}

}  // namespace weft::objstore
