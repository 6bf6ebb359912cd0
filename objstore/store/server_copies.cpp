// Puts and seals that wait until other hosts have copies. The object is sealed here before, and
// stays whatever the result.
#include <algorithm>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {

void Server::replicate(Client& client, const Request& request) {
  if (remote_ == nullptr)
    return complete(client, request.tag, {Code::peer_lost, Reason::few_copies}, 0, 1);
  const std::uint64_t number = next_wait_++;
  replications_.emplace(number, Replication{client.serial, request.tag, request.copies,
                                            deadline_after(request.timeout_ms)});
  remote_->replicate(number, request.id, request.copies - 1);
}

void Server::replicated(std::uint64_t number, std::uint32_t num_hosts) {
  const auto found = replications_.find(number);
  if (found == replications_.end()) return;
  const Replication replication = found->second;
  replications_.erase(found);
  const auto client = clients_.find(replication.client);
  if (client == clients_.end()) return;
  complete(*client->second, replication.tag,
           num_hosts >= replication.num_wanted ? Outcome{}
                                               : Outcome{Code::peer_lost, Reason::few_copies},
           0, num_hosts);
}

// is_first, too, if nothing is known in time: then the log names the first host.
void Server::confirmed(std::uint64_t number, bool is_first) {
  const auto found = confirms_.find(number);
  if (found == confirms_.end()) return;
  const Confirm confirm = found->second;
  confirms_.erase(found);
  const auto client = clients_.find(confirm.client);
  if (client == clients_.end()) return;
  if (!is_first)
    complete(*client->second, confirm.request.tag, {Code::exists, Reason::exists_elsewhere});
  else if (confirm.request.copies > 1)
    replicate(*client->second, confirm.request);
  else
    complete(*client->second, confirm.request.tag, {});
}

void Server::end_confirms(std::uint64_t now_ns) {
  std::vector<std::uint64_t> due;
  for (const auto& [number, confirm] : confirms_)
    if (confirm.deadline_ns <= now_ns || remote_ == nullptr) due.push_back(number);
  for (const std::uint64_t number : due) confirmed(number, true);
}

// Ends replications whose deadline has passed; Remote knows on how many hosts the object is by now.
void Server::end_replications(std::uint64_t now_ns) {
  std::vector<std::uint64_t> due;
  for (auto& [number, replication] : replications_) {
    if (replication.deadline_ns > now_ns && remote_ != nullptr) continue;
    replication.deadline_ns = UINT64_MAX;
    due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    if (remote_ != nullptr)
      remote_->no_more_copies(number);
    else
      replicated(number, 1);
  }
}

}  // namespace weft::objstore
