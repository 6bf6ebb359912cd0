// Broadcast of long data in blocks along a hypercube: in every step every member sends one block
// and gets another (plan/binomial_pipeline.hpp), so no schedule takes fewer steps.
// Cost, with b blocks: (b + ceil(log2 n) - 1) (alpha + bytes / b beta).
#include <algorithm>
#include <array>
#include <bit>

#include "coll/algorithms/algorithms.hpp"
#include "coll/plan/binomial_pipeline.hpp"

namespace weft::coll {

void bcast_pipeline(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root,
                    std::size_t block_bytes) {
  // The number of sends of one member under way: a late receiver does not hold up the next one.
  constexpr std::uint64_t kWindow = 2;
  const int n = group.size;
  if (n == 1) return;
  const Circle circle{group, root};  // the root is number 0
  const int me = circle.me();
  const auto num_blocks = static_cast<std::uint32_t>((bytes + block_bytes - 1) / block_bytes);
  const BinomialPipeline pipeline(n, num_blocks);
  const auto place = [&](std::uint32_t block) { return data + block * block_bytes; };
  const auto length = [&](std::uint32_t block) {
    return std::min(block_bytes, bytes - block * block_bytes);
  };
  // The receives, by block number modulo 64. A block sent in a step is at most log2 n + 2 blocks
  // older than that step, so that no two blocks that are still needed share an entry.
  std::array<int, 64> received;
  received.fill(Plan::kNone);
  const auto receive = [&](std::uint64_t step) {
    if (step >= pipeline.num_steps()) return;
    if (const auto move = pipeline.receive(me, step); move.peer >= 0)
      received[move.block % received.size()] =
          plan.receive(circle.team_rank(move.peer), place(move.block), length(move.block));
  };
  int sent[kWindow] = {Plan::kNone, Plan::kNone};
  for (std::uint64_t step = 0; step < kWindow; ++step) receive(step);
  for (std::uint64_t step = 0; step < pipeline.num_steps(); ++step) {
    // Post the receive before a send may wait, so that a sender to this member never waits for it.
    receive(step + kWindow);
    if (const auto move = pipeline.send(me, step); move.peer >= 0) {
      int& before = sent[step % kWindow];
      before = plan.send(circle.team_rank(move.peer), place(move.block), length(move.block),
                         received[move.block % received.size()], before);
    }
  }
}

void bcast_pipeline(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root) {
  const int steps = std::bit_width(static_cast<unsigned>(group.size - 1));
  bcast_pipeline(plan, group, data, bytes, root, segment_bytes(bytes, steps - 1));
}

}  // namespace weft::coll
