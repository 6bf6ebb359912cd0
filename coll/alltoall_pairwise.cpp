// All-to-all in n - 1 steps: in step k everyone sends to the member k places on and receives from
// the one k places back, straight between the user's buffers.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status alltoall_pairwise(Team& team, const void* send, void* receive, std::size_t bytes) {
  Links links(team, Collective::alltoall);
  const int n = team.size(), me = team.rank();
  copy_bytes(at(receive, index(me) * bytes), at(send, index(me) * bytes), bytes);
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me - step + n) % n;
    WEFT_COLL_TRY(links.exchange(at(send, index(to) * bytes), bytes, to,
                                 at(receive, index(from) * bytes), bytes, from));
  }
  return {};
}

}  // namespace weft::coll
