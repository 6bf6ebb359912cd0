// Broadcast of long data in segments along two binary trees over all members but the root (P.
// Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", 2009): an inner node of one tree is a leaf of the other, so that every member receives and
// sends each byte once. Segments alternate between the trees.
// Cost, with s segments: (s + 4 log2 n) (alpha + bytes / s beta) at most.
#include <algorithm>
#include <bit>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {
namespace {

// A tree of nodes 1 .. size in symmetric order; odd nodes are leaves. Node 0 is above the root.
class Tree {
 public:
  explicit Tree(int size) : size_(size) {}
  int parent(int node) const noexcept {
    const int bit = node & -node;
    const int up = (node ^ bit) | 2 * bit;
    return up <= size_ ? up : node ^ bit;
  }
  // 0: none.
  int left(int node) const noexcept {
    const int bit = node & -node;
    return bit == 1 ? 0 : node - bit / 2;
  }
  int right(int node) const noexcept {
    for (int half = (node & -node) / 2; half > 0; half /= 2)
      if (node + half <= size_) return node + half;
    return 0;
  }
  int root() const noexcept {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(size_)));
  }

 private:
  int size_;
};

}  // namespace

void bcast_two_trees(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root,
                     std::size_t segment) {
  constexpr int kTrees = 2;
  const Circle circle{group, root};  // the root is number 0
  const int n = circle.size(), me = circle.me();
  const Tree tree(n - 1);
  // The node of tree t that a member is, by its number. In the second tree odd and even nodes
  // change roles: it is the first tree mirrored, or shifted where mirroring would keep the roles.
  const bool is_mirrored = (n - 1) % 2 == 0;
  const auto node_of = [&](int t, int place) {
    return t == 0 || place == 0 ? place : is_mirrored ? n - place : place % (n - 1) + 1;
  };
  const auto place_of = [&](int t, int node) {
    return t == 0 || node == 0 ? node : is_mirrored ? n - node : (node + n - 3) % (n - 1) + 1;
  };
  struct Part {  // this member's neighbours in a tree
    int parent = 0, children[2] = {0, 0};
    int received = Plan::kNone, sent[2] = {Plan::kNone, Plan::kNone};
  };
  Part parts[kTrees];
  for (int t = 0; t < kTrees; ++t) {
    const int node = node_of(t, me);
    parts[t].parent = me == 0 ? 0 : place_of(t, tree.parent(node));
    parts[t].children[0] = place_of(t, me == 0 ? tree.root() : tree.left(node));
    parts[t].children[1] = me == 0 ? 0 : place_of(t, tree.right(node));
  }
  const std::size_t num_segments = (bytes + segment - 1) / segment;
  const auto length = [&](std::size_t s) { return std::min(segment, bytes - s * segment); };
  const auto receive = [&](std::size_t s) {
    const Part& part = parts[s % kTrees];
    if (me == 0 || s >= num_segments) return Plan::kNone;
    return plan.receive(circle.team_rank(part.parent), data + s * segment, length(s));
  };
  for (std::size_t s = 0; s < kTrees; ++s) parts[s].received = receive(s);
  for (std::size_t s = 0; s < num_segments; ++s) {
    Part& part = parts[s % kTrees];
    const int received = part.received;
    part.received = receive(s + kTrees);
    for (int c = 0; c < 2; ++c)
      if (part.children[c] != 0)
        part.sent[c] = plan.send(circle.team_rank(part.children[c]), data + s * segment, length(s),
                                 received, part.sent[c]);
  }
}

void bcast_two_trees(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root) {
  const int depth = std::bit_width(static_cast<unsigned>(group.size - 1));
  bcast_two_trees(plan, group, data, bytes, root, segment_bytes(bytes, 2 * depth));
}

}  // namespace weft::coll
