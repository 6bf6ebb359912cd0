#pragma once
// EdgeStore: edges as they were read, before they are sent to their owners. One thread fills each
// store; blocks are freed as they are sent, so that reading and building do not both need memory
// for all edges.
#include <cstddef>
#include <memory>
#include <vector>

#include "weft/graph/buffer.hpp"
#include "weft/graph/types.hpp"

namespace weft::graph {

class EdgeStore {
 public:
  static constexpr std::size_t kBlockEdges = std::size_t{1} << 16;

  // Without weights every edge weighs 1.
  explicit EdgeStore(bool weighted) : weighted_(weighted) {}

  void add(VertexId source, VertexId destination, Weight weight) {
    if (num_in_last_ == kBlockEdges) open_block();
    const std::size_t at = num_in_last_++;
    ends_[2 * at] = source;
    ends_[2 * at + 1] = destination;
    if (weighted_) weights_[at] = weight;
    if (source > largest_) largest_ = source;
    if (destination > largest_) largest_ = destination;
  }

  // The other direction of the edge that was added last.
  void add_mirrored(VertexId source, VertexId destination, Weight weight) {
    add(source, destination, weight);
    ++num_mirrored_;
  }

  // Removes all edges, and keeps a block for the next. largest() stays.
  void clear() {
    num_mirrored_ = 0;
    if (blocks_.empty()) return;
    blocks_.resize(1);
    ends_ = blocks_[0].ends.data();
    weights_ = blocks_[0].weights.data();
    num_in_last_ = 0;
  }

  bool weighted() const noexcept { return weighted_; }
  std::size_t size() const noexcept {
    return blocks_.empty() ? 0 : (blocks_.size() - 1) * kBlockEdges + num_in_last_;
  }
  std::uint64_t num_mirrored() const noexcept { return num_mirrored_; }
  VertexId largest() const noexcept { return largest_; }  // 0 without edges

  // visit(source, destination, weight) for every edge; after_block() behind each block. With
  // `give_back` the store is empty afterwards.
  template <class Visit, class AfterBlock>
  void for_each(bool give_back, Visit&& visit, AfterBlock&& after_block) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const std::size_t count = b + 1 < blocks_.size() ? kBlockEdges : num_in_last_;
      const VertexId* ends = blocks_[b].ends.data();
      const Weight* weights = blocks_[b].weights.data();
      for (std::size_t i = 0; i < count; ++i)
        visit(ends[2 * i], ends[2 * i + 1], weighted_ ? weights[i] : 1);
      if (give_back) blocks_[b] = {};
      after_block();
    }
    if (give_back) {
      blocks_.clear();
      num_in_last_ = kBlockEdges;
    }
  }

 private:
  struct Block {
    Buffer<VertexId> ends;  // source, destination, source, ...
    Buffer<Weight> weights;
  };
  void open_block() {
    blocks_.push_back({Buffer<VertexId>(nullptr, 2 * kBlockEdges),
                       Buffer<Weight>(nullptr, weighted_ ? kBlockEdges : 0)});
    ends_ = blocks_.back().ends.data();
    weights_ = blocks_.back().weights.data();
    num_in_last_ = 0;
  }

  bool weighted_;
  std::vector<Block> blocks_;
  VertexId* ends_ = nullptr;
  Weight* weights_ = nullptr;
  std::size_t num_in_last_ = kBlockEdges;
  VertexId largest_ = 0;
  std::uint64_t num_mirrored_ = 0;
};

}  // namespace weft::graph
