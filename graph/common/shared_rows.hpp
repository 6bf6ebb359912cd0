#pragma once
// SharedRows: rows of edges of all ranks, which any of them reads many at a time. The rows stay in
// the memory in which they are; that is registered with a device when a rank first reads there. Of
// rows that are streamed from a file every rank reads the file.
#include <vector>

#include "weft/graph/graph.hpp"

namespace weft::graph {

// Rows of consecutive vertices: the edges of row i lead to vertices[offsets[i]] and on, up to
// vertices[offsets[i + 1]].
struct RowRange {
  const std::uint64_t* offsets = nullptr;
  const VertexId* vertices = nullptr;
};

class SharedRows {
 public:
  // What was read of another rank, reused from read to read.
  struct Copy {
    std::vector<std::uint64_t> offsets;
    std::vector<VertexId> vertices;
  };

  // The rows outlive it. Collective; throws weft::Error (no_memory, peer_lost). No rank may read
  // another's any more when that ends its own.
  SharedRows(const Graph& graph, const Rows& rows);
  ~SharedRows();
  SharedRows(const SharedRows&) = delete;
  SharedRows& operator=(const SharedRows&) = delete;

  // The rows from an own vertex on.
  RowRange own(VertexId first) const noexcept {
    return {rows_.offsets.data() + (first - graph_.first()), rows_.vertices.data()};
  }
  // Reads those of the owner's vertices [first, last): any thread, with its number. Codes are those
  // of Job::rdma_read, and corrupt.
  Code read(int thread, int owner, VertexId first, VertexId last, Copy& copy, RowRange& rows) const;

 private:
  struct Remote {
    transport::RemoteMemory offsets, vertices;
  };
  struct Unshared {};
  SharedRows(const Graph& graph, const Rows& rows, Unshared) noexcept
      : graph_(graph), rows_(rows) {}
  const Graph& graph_;
  const Rows& rows_;
  Remote mine_;
  std::vector<Remote> remotes_;
};

}  // namespace weft::graph
