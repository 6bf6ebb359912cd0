// Scatter by sending every block straight from its place; all sends are started at once.
#include <vector>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status scatter_linear(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Links links(team, Collective::scatter);
  if (team.rank() != root) return links.receive(receive, bytes, root);
  std::vector<std::unique_ptr<tagged::Request>> requests(index(team.size()));
  for (int r = 0; r < team.size(); ++r)
    if (r != root) links.start_send(requests[index(r)], at(send, index(r) * bytes), bytes, r);
  Status status;
  for (auto& request : requests)
    if (Status done = links.finish(request); status && !done) status = done;
  return status;
}

}  // namespace weft::coll
