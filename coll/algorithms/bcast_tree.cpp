// Broadcast of long data in segments along a k-ary tree: while one segment is passed on, the next
// arrives. Radix 1 is a pipelined chain, 2 the binary tree.
// Cost, with s segments, radix k and depth d = log_k(n): (s + d - 1) k (alpha + bytes / s beta).
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void bcast_tree(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root,
                int radix, std::size_t segment) {
  constexpr int kMostChildren = 8;
  assert(radix >= 1 && radix <= kMostChildren);
  const int n = group.size;
  const Circle circle{group, root};  // the root is number 0
  const int me = circle.me();
  const auto length = [&](std::size_t offset) { return std::min(segment, bytes - offset); };
  const int num_children = std::clamp(n - 1 - me * radix, 0, radix);
  const auto receive = [&](std::size_t offset) {
    if (me == 0 || offset >= bytes) return Plan::kNone;
    return plan.receive(circle.team_rank((me - 1) / radix), data + offset, length(offset));
  };
  std::array<int, kMostChildren> sent;
  sent.fill(Plan::kNone);
  int received = receive(0);
  for (std::size_t offset = 0; offset < bytes; offset += segment) {
    const int next = receive(offset + segment);
    // One segment for each child stays under way.
    for (int child = 0; child < num_children; ++child) {
      int& last = sent[index(child)];
      last = plan.send(circle.team_rank(me * radix + 1 + child), data + offset, length(offset),
                       received, last);
    }
    received = next;
  }
}

void bcast_chain(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root) {
  bcast_tree(plan, group, data, bytes, root, 1, segment_bytes(bytes, group.size - 2));
}

std::size_t segment_bytes(std::size_t bytes, int hops) noexcept {
  // s segments take (s + hops) (message + bytes / s), which is least with s = sqrt(bytes hops /
  // message).
  constexpr double kMessageBytes = 16 * 1024;
  constexpr std::size_t kLeastBytes = 4 * 1024, kMostBytes = 256 * 1024;
  const double best = std::sqrt(static_cast<double>(bytes) * kMessageBytes / std::max(1, hops));
  return std::clamp(static_cast<std::size_t>(best), kLeastBytes, kMostBytes);
}

}  // namespace weft::coll
