// Barrier over hosts: each host's members notify their leader, the leaders run a barrier, and
// release their members. Cost: log2(hosts) alpha across.
#include "coll/two_level/two_level.hpp"

namespace weft::coll {

Status two_level_barrier(Team& team) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead();
  std::byte token{};
  std::byte* tokens = team.scratch(index(hosts.inside().size()));
  if (tokens == nullptr) return Code::no_memory;
  WEFT_COLL_TRY(gather(hosts.inside(), &token, tokens, sizeof token, hosts.leader()));
  if (leads) WEFT_COLL_TRY(barrier(hosts.across()));
  return bcast(hosts.inside(), &token, sizeof token, hosts.leader());
}

}  // namespace weft::coll
