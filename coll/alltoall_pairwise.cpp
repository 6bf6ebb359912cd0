// All-to-all in n - 1 steps: in step k everyone sends to the member k places on and receives from
// the one k places back, straight between the user's buffers. Some steps are under way at a time,
// so that no link waits for the slowest of a step: at least (n - 1) bytes beta, (n - 1) alpha /
// window.
#include <array>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status alltoall_pairwise(Team& team, const void* send, void* receive, std::size_t bytes) {
  constexpr int kWindow = static_cast<int>(kMostUnderWay) / 2;
  Links links(team, Collective::alltoall);
  const int n = team.size(), me = team.rank();
  copy_bytes(at(receive, index(me) * bytes), at(send, index(me) * bytes), bytes);
  std::array<std::unique_ptr<tagged::Request>, kWindow> receiving, sending;
  Status status;
  for (int step = 1; step < n + kWindow; ++step) {
    const std::size_t slot = index(step % kWindow);  // of the step so many before, too
    const Status received = links.finish(receiving[slot]);
    const Status sent = links.finish(sending[slot]);
    if (status) status = received ? sent : received;
    if (step >= n || !status) continue;
    const int to = (me + step) % n, from = (me - step + n) % n;
    links.start_receive(receiving[slot], at(receive, index(from) * bytes), bytes, from);
    links.start_send(sending[slot], at(send, index(to) * bytes), bytes, to);
  }
  return status;
}

}  // namespace weft::coll
