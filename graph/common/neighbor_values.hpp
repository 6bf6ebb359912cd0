#pragma once
// NeighborValues: what the other ends of a rank's edges have in an array that is distributed over
// the ranks. It has room for all vertices; only blocks in which the rank has neighbors are read,
// and so take memory. For a block of another rank's vertices, what their edges lead to is read when
// it is taken over.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "graph/common/vertex_blocks.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/owned_array.hpp"

namespace weft::graph {

template <class T>
class NeighborValues {
 public:
  // Throws weft::Error (no_memory).
  explicit NeighborValues(const Graph& graph)
      : graph_(graph),
        copy_(nullptr, graph.job().size() > 1 ? graph.num_vertices() : 0),
        rounds_(nullptr, copy_.empty() ? 0 : graph.reach().num_blocks()),
        has_all_(graph.reach().count() == graph.reach().num_blocks()) {}

  // Reads the values for the rank's own edges, by one thread. Their owners must not change them
  // until this is called again. A lost rank's are left as they are: the next collective call
  // reports it to all. Throws what else makes a read fail.
  void gather(const OwnedArray<T>& values) {
    from_ = &values;
    if (copy_.empty()) return;
    ++round_;
    std::copy_n(values.data(), graph_.num_owned(), &copy_[graph_.first()]);
    const int size = graph_.job().size(), rank = graph_.job().rank();
    Code failed = Code::ok;
    for (int step = 1; step < size; ++step) {
      const auto owner = static_cast<std::size_t>((rank + step) % size);
      graph_.reach().for_each(
          graph_.cut()[owner], graph_.cut()[owner + 1], [&](VertexId first, VertexId last) {
            reads_.push_back(graph_.job().rdma_read_async(0, part_of(first, last, owner),
                                                          &copy_[first],
                                                          std::size_t{last - first} * sizeof(T)));
            if (reads_.size() == kMostReads) end_reads(failed);
          });
      end_reads(failed);
    }
    if (failed != Code::ok && failed != Code::peer_lost) throw Error(failed);
  }

  // By vertex; with what was fetched since the last gather.
  const T* data() const noexcept { return copy_.empty() ? from_->data() : copy_.data(); }

  // Makes sure that these vertices' values are there, which the rank's own edges may not lead to:
  // any thread, with its number. Codes are those of Job::rdma_read.
  Code fetch(int thread, const VertexId* begin, const VertexId* end) {
    if (has_all_) return Code::ok;
    for (const VertexId* v = begin; v != end; ++v)
      if (const Code code = fetch_block(thread, Reach::block_of(*v)); code != Code::ok) return code;
    return Code::ok;
  }
  Code fetch(int thread, const VertexBlock& block) {
    for (std::size_t b = Reach::block_of(block.first); b <= Reach::block_of(block.last - 1); ++b)
      if (const Code code = fetch_block(thread, b); code != Code::ok) return code;
    return Code::ok;
  }

 private:
  static constexpr std::size_t kMostReads = 1024;  // under way

  transport::RemoteMemory part_of(VertexId first, VertexId last, std::size_t owner) const {
    return from_->remotes()[owner].part(std::uint64_t{first - graph_.cut()[owner]} * sizeof(T),
                                        std::size_t{last - first} * sizeof(T));
  }

  void end_reads(Code& failed) {
    for (const transport::Token read : reads_)
      if (const Code code = graph_.job().wait(0, read); code != Code::ok) failed = code;
    reads_.clear();
  }

  // One thread reads a block in a round, and others that want it wait for that.
  Code fetch_block(int thread, std::size_t block) {
    if (graph_.reach().has_block(block)) return Code::ok;
    const std::atomic_ref state(rounds_[block]);
    const std::uint32_t there = 2 * round_, comes = there - 1;
    for (;;) {
      // acquire: pairs with the release of the thread that has read it.
      std::uint32_t found = state.load(std::memory_order_acquire);
      if (found == there) return Code::ok;
      if (found == comes) {
        std::this_thread::yield();
        continue;
      }
      if (!state.compare_exchange_strong(found, comes, std::memory_order_relaxed)) continue;
      const Code code = read_block(thread, block);
      state.store(code == Code::ok ? there : 0, std::memory_order_release);
      return code;
    }
  }
  Code read_block(int thread, std::size_t block) {
    auto first = static_cast<VertexId>(block * Reach::kBlock);
    const auto last = static_cast<VertexId>(
        std::min<std::size_t>(graph_.num_vertices(), (block + 1) * Reach::kBlock));
    while (first < last) {
      const auto owner = static_cast<std::size_t>(graph_.owner(first));
      const VertexId end = std::min(last, graph_.cut()[owner + 1]);
      const Code code = graph_.job().rdma_read(thread, part_of(first, end, owner), &copy_[first],
                                               std::size_t{end - first} * sizeof(T));
      if (code != Code::ok) return code;
      first = end;
    }
    return Code::ok;
  }

  const Graph& graph_;
  const OwnedArray<T>* from_ = nullptr;
  Buffer<T> copy_;                // of all vertices; empty in a job of one
  Buffer<std::uint32_t> rounds_;  // by block out of reach: 2 x the round in which it was read
  const bool has_all_;
  std::uint32_t round_ = 0;
  std::vector<transport::Token> reads_;
};

}  // namespace weft::graph
