// Binomial pipeline: the hypercube schedule of P. Ganesan and M. Seshadri, "On Cooperative Content
// Distribution and the Price of Barter", ICDCS 2005.
//
// Vertices. With 2^d <= n < 2^(d+1) the members are the vertices of a hypercube of d dimensions;
// vertices 1 .. n - 2^d are pairs of members, and the root, vertex 0, is alone.
//
// Between vertices. Imagine a message without end. In step j all edges of dimension j mod d are
// used, both ways. The root sends block j. Block s so enters at the vertex that has only bit s mod
// d, doubles in each of the d - 1 steps that follow, which gives it to all vertices with that bit,
// and crosses to all the others in step s + d. A vertex therefore sends, in step j, the block j - d
// + r, where r is how many dimensions from j mod d on, cyclically, are not in it: that is the
// newest it has. Nothing is ever sent to the root.
//
// Within a pair. In each step one member, the receiver, takes the vertex's incoming block, and the
// other, the sender, sends the outgoing one; the receiver also gives the sender the block that only
// the receiver has, of which there is never more than one. A vertex sends one block for a run of
// steps that ends with an edge of a dimension that is in it, and the next run's block comes in the
// last step of this one, to the receiver; so the two change places at the end of each run, which is
// counted by bits. What comes first in a run to the new sender is the block that the new receiver
// sent in the run before.
//
// The end. Blocks from the last one on are all the last one; who has it gets it no more. That takes
// blocks + ceil(log2 n) - 1 steps, which no schedule can better, as the last block leaves the root
// in step `blocks` at the earliest and then can only double.
#include <algorithm>
#include <bit>

#include "mcast/schedules/schedule.hpp"

namespace weft::mcast {

namespace {

// Blocks of the message without end; negative: there is none yet.
using Endless = std::int64_t;

struct Cube {
  int dimensions;
  int num_pairs;

  explicit Cube(int num_members)
      : dimensions(std::bit_width(static_cast<unsigned>(num_members)) - 1),
        num_pairs(num_members - (1 << dimensions)) {}

  bool is_pair(int vertex) const { return vertex >= 1 && vertex <= num_pairs; }
  int vertex_of(int member) const {
    return member < (1 << dimensions) ? member : member - (1 << dimensions) + 1;
  }
  int twin_of(int member) const {
    return member < (1 << dimensions) ? member + (1 << dimensions) - 1 : vertex_of(member);
  }
  int dimension(Endless step) const { return static_cast<int>(step % dimensions); }

  // The block that a vertex sends in a step.
  Endless outgoing(int vertex, Endless step) const {
    if (vertex == 0) return step;
    int r = 0;
    while ((vertex >> dimension(step + r) & 1) == 0) ++r;
    return step - dimensions + r;
  }
  // The member of the vertex that sends in a step; the other one receives.
  int sender(int vertex, Endless step) const {
    if (!is_pair(vertex)) return vertex;
    const auto bits = static_cast<unsigned>(vertex);
    const Endless runs = step / dimensions * std::popcount(bits) +
                         std::popcount(bits & ((1u << dimension(step)) - 1));
    return runs % 2 == 0 ? vertex : vertex + (1 << dimensions) - 1;
  }
  int receiver(int vertex, Endless step) const {
    return is_pair(vertex) ? twin_of(sender(vertex, step)) : vertex;
  }

  struct Receipt {
    int from = -1;
    Endless block = -1;
  };
  // What a member is sent in a step of the message without end.
  Receipt incoming(int member, Endless step) const {
    const int vertex = vertex_of(member);
    if (member == 0 || step < 0) return {};
    if (receiver(vertex, step) == member) {
      const int other = vertex ^ (1 << dimension(step));
      return {sender(other, step), outgoing(other, step)};
    }
    // From the receiver of the pair: what it alone has.
    const int bit = step == 0 ? 0 : vertex >> dimension(step - 1) & 1;
    if (step == 0) return {};
    const int twin = twin_of(member);
    if (bit != 0) return {twin, outgoing(vertex, step - 1)};  // a run has just ended
    const int other = vertex ^ (1 << dimension(step - 1));
    return {twin, outgoing(other, step - 1)};
  }
  // The same in a message that ends.
  Move receipt(int member, Endless step, Endless last) const {
    const Receipt now = incoming(member, step);
    if (now.block < 0) return {};
    if (now.block >= last)
      for (Endless earlier = last; earlier < step; ++earlier)
        if (incoming(member, earlier).block >= last) return {};
    return {now.from, static_cast<std::uint32_t>(std::min(now.block, last))};
  }
};

std::uint64_t pipeline_steps(const Shape& shape) {
  return shape.num_members < 2
             ? 0
             : shape.num_blocks - 1 + static_cast<std::uint64_t>(ceil_log2(shape.num_members));
}

Turn pipeline_turn(const Shape& shape, int member, std::uint64_t step) {
  if (step >= pipeline_steps(shape)) return {};
  const Cube cube(shape.num_members);
  const auto now = static_cast<Endless>(step);
  const auto last = static_cast<Endless>(shape.num_blocks) - 1;
  const int vertex = cube.vertex_of(member);
  Turn turn{.send = {}, .receive = cube.receipt(member, now, last)};
  const int to = cube.sender(vertex, now) == member
                     ? cube.receiver(vertex ^ (1 << cube.dimension(now)), now)
                     : cube.twin_of(member);
  if (to != 0) {
    const Move sent = cube.receipt(to, now, last);
    if (sent.peer == member) turn.send = {to, sent.block};
  }
  return turn;
}

}  // namespace

const Algorithm kBinomialPipeline{"pipeline", pipeline_steps, pipeline_turn};

}  // namespace weft::mcast
