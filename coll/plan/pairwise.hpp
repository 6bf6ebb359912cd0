#pragma once
// The exchange of blocks between all members in n - 1 steps: in step k every member sends to the
// one k positions on and receives from the one k positions back. Several steps are under way at a
// time, so that no link waits for the slowest of a step.
#include <algorithm>
#include <array>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

struct Block {
  BufferRef buffer;
  std::size_t bytes;
};

// out(member), in(member): the Block that is sent there or received; an empty one is not sent.
template <class Out, class In>
void write_pairwise(Plan& plan, const Group& group, const Out& out, const In& in) {
  constexpr int kWindow = 8;
  const int n = group.size, me = group.rank;
  const Block own = out(me), room = in(me);
  plan.copy(room.buffer, own.buffer, std::min(own.bytes, room.bytes));
  std::array<int, kWindow> received, sent;
  received.fill(Plan::kNone);
  sent.fill(Plan::kNone);
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me - step + n) % n;
    int& last_received = received[index(step % kWindow)];
    int& last_sent = sent[index(step % kWindow)];
    const int before[] = {last_received, last_sent};
    if (const Block block = in(from); block.bytes != 0)
      last_received =
          plan.receive(group.team_rank(from), block.buffer, block.bytes, before[0], before[1]);
    if (const Block block = out(to); block.bytes != 0)
      last_sent = plan.send(group.team_rank(to), block.buffer, block.bytes, before[0], before[1]);
  }
}

}  // namespace weft::coll
