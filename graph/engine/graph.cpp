// Graph: the owners of vertices, and rows of other ranks.
#include "weft/graph/graph.hpp"

#include <algorithm>

namespace weft::graph {

Code Graph::read_row(int owner, int thread, VertexId vertex, RowCache::Row& row) const {
  const RemoteRows& rows = remote_out_[static_cast<std::size_t>(owner)];
  const std::uint64_t index = vertex - cut_[static_cast<std::size_t>(owner)];
  std::uint64_t ends[2] = {};
  Code code = job_->rdma_read(thread, rows.offsets.part(index * 8, sizeof ends), ends, sizeof ends);
  if (code != Code::ok) return code;
  if (ends[0] > ends[1] || ends[1] > rows.vertices.bytes / sizeof(VertexId)) return Code::corrupt;
  const std::size_t size = ends[1] - ends[0];
  row.vertices.resize(size);
  if (size == 0) return Code::ok;
  const auto from = rows.vertices.part(ends[0] * sizeof(VertexId), size * sizeof(VertexId));
  code = job_->rdma_read(thread, from, row.vertices.data(), size * sizeof(VertexId));
  if (code != Code::ok || rows.weights.bytes == 0) return code;
  row.weights.resize(size);
  return job_->rdma_read(thread, rows.weights.part(ends[0] * sizeof(Weight), size * sizeof(Weight)),
                         row.weights.data(), size * sizeof(Weight));
}

int Graph::owner(VertexId vertex) const noexcept {
  if (cut_.size() <= 17) {
    int owner = 0;
    for (std::size_t p = 1; p + 1 < cut_.size(); ++p) owner += vertex >= cut_[p] ? 1 : 0;
    return owner;
  }
  return static_cast<int>(std::upper_bound(cut_.begin() + 1, cut_.end() - 1, vertex) -
                          (cut_.begin() + 1));
}

}  // namespace weft::graph
