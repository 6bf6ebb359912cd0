#pragma once
// VertexBlocks: a phase in which every vertex is visited once, shared out to the threads of all
// ranks. A rank's own threads take its vertices in blocks from the front; ranks that have done
// theirs take blocks of others from the back, each by two fetch_adds: migration, as section
// 5.2 of the RGraph paper has it for lists of active vertices. So a rank whose core is slower, or
// has other work, does fewer of its vertices, and none waits for it longer than for a block.
//
// Who visits another rank's block reads the rows and values that it needs from the owner, and
// writes the results there, before the visit returns. No code of the graph runs at the owner.
//
// Phases alternate between two words of task_range.hpp. A rank opens a phase before the collective
// call that begins it, which none passes before all have opened theirs; the word of the phase
// before is left alone until then, so no claim of one phase gets a block of another.
#include <vector>

#include "weft/graph/graph.hpp"
#include "weft/graph/owned_array.hpp"
#include "weft/graph/task_range.hpp"

namespace weft::graph {

struct VertexBlock {
  int owner = -1;
  VertexId first = 0, last = 0;
  std::size_t size() const noexcept { return last - first; }
};

// The location of the values of another rank's block.
template <class T>
transport::RemoteMemory part_of(const Graph& graph, const OwnedArray<T>& values,
                                const VertexBlock& block) {
  const auto owner = static_cast<std::size_t>(block.owner);
  return values.remotes()[owner].part(std::uint64_t{block.first - graph.cut()[owner]} * sizeof(T),
                                      block.size() * sizeof(T));
}

class VertexBlocks {
 public:
  // Vertices of a block, which begins at a multiple of it: few enough that others do not wait long
  // for the last one of a slow rank, enough that reads of their rows are longer than the latency.
  static constexpr VertexId kSize = 512;

  // Collective; throws weft::Error (no_memory, peer_lost).
  explicit VertexBlocks(const Graph& graph);

  // Opens this rank's blocks of the next phase.
  void open() noexcept;

  // This thread's part of the phase: visit(block) returns a Code. What is not ok ends the thread's
  // part and is returned; peer_lost is also reported to all by the next collective call.
  template <class Visit>
  Code work(int thread, Visit&& visit) {
    for (VertexBlock block; take_own(block);)
      if (const Code code = visit(block); code != Code::ok) return code;
    for (int distance = 1; distance < graph_.job().size();) {
      VertexBlock block;
      if (const Code code = take_from(distance, thread, block); code != Code::ok) return code;
      if (block.owner < 0) {
        ++distance;
        continue;
      }
      graph_.migration_counts().tasks.fetch_add(block.size(), std::memory_order_relaxed);
      if (const Code code = visit(block); code != Code::ok) return code;
    }
    return Code::ok;
  }

 private:
  std::uint32_t num_blocks(int rank) const noexcept;
  VertexBlock block_of(int rank, std::uint32_t number) const noexcept;
  bool take_own(VertexBlock& block) noexcept;
  // Of the rank so far behind this one in a ring of all; none, if few are left.
  Code take_from(int distance, int thread, VertexBlock& block) noexcept;

  const Graph& graph_;
  Buffer<std::uint64_t> words_;  // of two phases
  std::vector<transport::RemoteMemory> remotes_;
  unsigned phase_ = 0;
};

}  // namespace weft::graph
