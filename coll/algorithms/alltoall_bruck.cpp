// All-to-all of short blocks (Bruck et al. 1997): a block for the member d positions on is sent in
// the steps k for which bit k of d is set, together with all other blocks of that step.
// Cost: ceil(log2 n) (alpha + n / 2 bytes beta).
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void alltoall_bruck(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                    std::size_t bytes) {
  const int n = group.size, me = group.rank;
  // blocks[d]: the block with d positions to go. packed: the blocks sent in this step; arrived: the
  // other member's.
  const BufferRef blocks = plan.scratch(index(n) * bytes);
  const BufferRef packed = plan.scratch(index((n + 1) / 2) * bytes);
  const BufferRef arrived = plan.scratch(index((n + 1) / 2) * bytes);

  plan.copy(blocks, send + index(me) * bytes, index(n - me) * bytes);
  plan.copy(blocks + index(n - me) * bytes, send, index(me) * bytes);
  for (int step = 1; step < n; step *= 2) {
    std::size_t length = 0;
    const auto each_traveller = [&](const auto& visit) {
      length = 0;
      for (int d = step; d < n; ++d)
        if ((d & step) != 0) {
          visit(blocks + index(d) * bytes);
          length += bytes;
        }
    };
    each_traveller([&](BufferRef block) { plan.copy(packed + length, block, bytes); });
    plan.exchange(group.team_rank((me + step) % n), packed, length,
                  group.team_rank((me - step + n) % n), arrived, length);
    each_traveller([&](BufferRef block) { plan.copy(block, arrived + length, bytes); });
  }
  // blocks[d] came from the member d positions back.
  for (int d = 0; d < n; ++d)
    plan.copy(receive + index((me - d + n) % n) * bytes, blocks + index(d) * bytes, bytes);
}

}  // namespace weft::coll
