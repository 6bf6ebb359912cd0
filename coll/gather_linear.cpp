// Gather by receiving every block straight into its place; all receives are posted at once.
#include <vector>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status gather_linear(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Links links(team, Collective::gather);
  if (team.rank() != root) return links.send(send, bytes, root);
  std::vector<std::unique_ptr<tagged::Request>> requests(index(team.size()));
  for (int r = 0; r < team.size(); ++r)
    if (r != root) links.start_receive(requests[index(r)], at(receive, index(r) * bytes), bytes, r);
  Status status;
  for (auto& request : requests)
    if (Status done = links.finish(request); status && !done) status = done;
  return status;
}

}  // namespace weft::coll
