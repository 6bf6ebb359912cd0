#pragma once
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
// steps that ends with an edge of a dimension that is in it, and the next run's block arrives in
// the last step of this one, at the receiver; so the two change roles at the end of each run, which
// is counted by bits. The first block that the new sender gets in a run is the one that the new
// receiver sent in the run before.
//
// The end. Blocks from the last one on are all the last one; a member that has it does not get it
// again. That takes blocks + ceil(log2 n) - 1 steps, which no schedule can better, as the last
// block leaves the root in step `blocks` at the earliest and then can only double.
//
// A pure function of group sizes, block counts and steps, used by plans and by mcast/schedules.
// Threads: any.
#include <algorithm>
#include <bit>
#include <cstdint>

namespace weft::coll {

// Member 0 has a message of at least one block; there are at least two members.
class BinomialPipeline {
 public:
  struct Move {
    int peer = -1;  // -1: nothing moves
    std::uint32_t block = 0;
  };

  BinomialPipeline(int num_members, std::uint32_t num_blocks)
      : num_members_(num_members),
        dimensions_(std::bit_width(static_cast<unsigned>(num_members)) - 1),
        num_pairs_(num_members - (1 << dimensions_)),
        last_(static_cast<Endless>(num_blocks) - 1) {}

  std::uint64_t num_steps() const {
    return static_cast<std::uint64_t>(last_) +
           static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(num_members_ - 1)));
  }
  Move receive(int member, std::uint64_t step) const {
    return receipt(member, static_cast<Endless>(step));
  }
  Move send(int member, std::uint64_t step) const {
    const auto now = static_cast<Endless>(step);
    const int vertex = vertex_of(member);
    const int to = sender(vertex, now) == member ? receiver(vertex ^ (1 << dimension(now)), now)
                                                 : twin_of(member);
    if (to == 0) return {};
    const Move sent = receipt(to, now);
    return sent.peer == member ? Move{to, sent.block} : Move{};
  }

 private:
  // Block numbers of the message without end; negative: there is no block yet.
  using Endless = std::int64_t;

  bool is_pair(int vertex) const { return vertex >= 1 && vertex <= num_pairs_; }
  int vertex_of(int member) const {
    return member < (1 << dimensions_) ? member : member - (1 << dimensions_) + 1;
  }
  int twin_of(int member) const {
    return member < (1 << dimensions_) ? member + (1 << dimensions_) - 1 : vertex_of(member);
  }
  int dimension(Endless step) const { return static_cast<int>(step % dimensions_); }

  // The block that a vertex sends in a step.
  Endless outgoing(int vertex, Endless step) const {
    if (vertex == 0) return step;
    int r = 0;
    while ((vertex >> dimension(step + r) & 1) == 0) ++r;
    return step - dimensions_ + r;
  }
  // The member of the vertex that sends in a step; the other one receives.
  int sender(int vertex, Endless step) const {
    if (!is_pair(vertex)) return vertex;
    const auto bits = static_cast<unsigned>(vertex);
    const Endless runs = step / dimensions_ * std::popcount(bits) +
                         std::popcount(bits & ((1u << dimension(step)) - 1));
    return runs % 2 == 0 ? vertex : vertex + (1 << dimensions_) - 1;
  }
  int receiver(int vertex, Endless step) const {
    return is_pair(vertex) ? twin_of(sender(vertex, step)) : vertex;
  }

  struct Receipt {
    int from = -1;
    Endless block = -1;
  };
  // The receipt of a member in a step of the message without end.
  Receipt incoming(int member, Endless step) const {
    const int vertex = vertex_of(member);
    if (member == 0 || step < 0) return {};
    if (receiver(vertex, step) == member) {
      const int other = vertex ^ (1 << dimension(step));
      return {sender(other, step), outgoing(other, step)};
    }
    // From the receiver of the pair: the block that it alone has.
    const int bit = step == 0 ? 0 : vertex >> dimension(step - 1) & 1;
    if (step == 0) return {};
    const int twin = twin_of(member);
    if (bit != 0) return {twin, outgoing(vertex, step - 1)};  // a run has just ended
    const int other = vertex ^ (1 << dimension(step - 1));
    return {twin, outgoing(other, step - 1)};
  }
  // The same in a message of limited length.
  Move receipt(int member, Endless step) const {
    const Receipt now = incoming(member, step);
    if (now.block < 0) return {};
    if (now.block >= last_)
      for (Endless earlier = last_; earlier < step; ++earlier)
        if (incoming(member, earlier).block >= last_) return {};
    return {now.from, static_cast<std::uint32_t>(std::min(now.block, last_))};
  }

  int num_members_, dimensions_, num_pairs_;
  Endless last_;  // the last block's number
};

}  // namespace weft::coll
