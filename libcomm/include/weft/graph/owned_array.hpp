#pragma once
// OwnedArray: a value for each vertex that this rank owns, which other ranks can read.
#include <memory>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/graph.hpp"

namespace weft::graph {

template <class T>
class OwnedArray {
 public:
  // Zeroed. Collective; throws weft::Error (no_memory, peer_lost).
  explicit OwnedArray(const Graph& graph)
      : first_(graph.first()), values_(&graph.job(), graph.num_owned()) {
    if (graph.job().size() == 1) return;
    const Status status = graph.job().all_gather(values_.remote(), remotes_);
    if (!status.ok()) throw Error(status);
  }
  T& operator[](VertexId vertex) noexcept { return values_[vertex - first_]; }
  const T& operator[](VertexId vertex) const noexcept { return values_[vertex - first_]; }
  T* data() const noexcept { return values_.data(); }  // of the first owned vertex
  // The location of each rank's part; empty in a job of one.
  const std::vector<transport::RemoteMemory>& remotes() const noexcept { return remotes_; }

 private:
  VertexId first_;
  Buffer<T> values_;
  std::vector<transport::RemoteMemory> remotes_;
};

}  // namespace weft::graph
