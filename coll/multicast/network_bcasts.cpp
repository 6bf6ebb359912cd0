#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "coll/multicast/network_bcast.hpp"
#include "coll/plan/links.hpp"
#include "coll/two_level/hosts.hpp"

namespace weft::coll {

namespace {

static_assert(kLeastNativeBytes >= mcast::kLeastCopiedBytes);
// More packets than a message may have, where they are as short as a network allows.
constexpr std::uint64_t kMostCopiedBytes = std::uint64_t{mcast::kMostPackets} * 1024;

// A member of each host, the root first.
std::vector<int> one_of_each_host(Team& team, int root) {
  std::vector<int> members;
  Hosts* hosts = team.hosts();
  const int n = hosts != nullptr ? hosts->size() : team.size();
  const int first = hosts != nullptr ? hosts->host(root) : root;
  for (int i = 0; i < n; ++i) {
    const int place = (first + i) % n;
    members.push_back(team.world(hosts != nullptr ? hosts->leader_of(place) : place));
  }
  return members;
}

}  // namespace

NetworkBcasts::OfRoot* NetworkBcasts::find(int root) noexcept {
  const auto found = std::ranges::find(roots_, root, &OfRoot::root);
  return found == roots_.end() ? nullptr : &*found;
}

bool NetworkBcasts::takes(std::size_t bytes, int root) noexcept {
  const int num_hosts = team_.hosts() != nullptr ? team_.hosts()->size() : team_.size();
  if (team_.is_local() || num_hosts < mcast::kLeastCopiedMembers || bytes < kLeastNativeBytes ||
      bytes > kMostCopiedBytes)
    return false;
  const OfRoot* known = find(root);
  return known != nullptr ? !known->is_off : roots_.size() < kMostRoots;
}

Status NetworkBcasts::bcast(void* data, std::size_t bytes, int root, bool& is_done) {
  is_done = false;
  Hosts* hosts = team_.hosts();
  const bool leads = hosts == nullptr || hosts->lead(root);
  OfRoot* of_root = nullptr;
  const Status made = or_no_memory([&] {
    if (find(root) == nullptr) roots_.push_back({root});
    of_root = find(root);
    if (leads && of_root->across == nullptr)
      of_root->across = std::make_unique<NetworkBcast>(
          team_, one_of_each_host(team_, root),
          kMulticastTag + static_cast<std::int32_t>(of_root - roots_.data()));
  });
  if (!made) {
    team_.give_up();
    return made;
  }
  // Members inside get the data of a leader whose length was wrong.
  Status status;
  if (leads) status = of_root->across->bcast(data, bytes, is_done);
  if (!status && !is_done) return status;
  if (hosts != nullptr && hosts->inside().size() > 1) {
    std::uint8_t told = is_done ? 1 : 0;
    WEFT_COLL_TRY(coll::bcast(hosts->inside(), &told, sizeof told, hosts->leader()));
    is_done = told != 0;
    if (is_done) WEFT_COLL_TRY(coll::bcast(hosts->inside(), data, bytes, hosts->leader()));
  }
  if (is_done) return status;
  of_root->is_off = true;
  static std::atomic<bool> was_said{false};
  if (team_.rank() == root && !was_said.exchange(true))
    log_line(LogLevel::warn, team_.engine().rank(),
             "the network does not copy broadcasts (bcast=native), which go by messages: {}",
             of_root->across->why_not().text());
  of_root->across.reset();
  return {};
}

}  // namespace weft::coll
