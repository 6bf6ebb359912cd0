#pragma once
// VertexArray: a value for every vertex of the graph. The values of a rank's own vertices are the
// valid ones (masters); the others are its mirrors of other ranks' vertices, in which it reduces
// its own contributions before they are sent.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "weft/exchange.hpp"
#include "weft/export.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/migration.hpp"

namespace weft::graph {

template <class T>
class VertexArray {
 public:
  // A message between ranks: a vertex, and a value for it.
  struct Message {
    VertexId vertex;
    T value;
  };

  // All values are `initial`. Collective; throws weft::Error (no_memory, peer_lost).
  VertexArray(const Graph& graph, const T& initial)
      : graph_(&graph), values_(&graph.job(), graph.num_vertices()) {
    // Its memory is zeroed as it comes.
    const T zero{};
    if (std::memcmp(&initial, &zero, sizeof zero) != 0) fill(initial);
  }

  T& operator[](VertexId vertex) noexcept { return values_[vertex]; }
  const T& operator[](VertexId vertex) const noexcept { return values_[vertex]; }
  T* data() const noexcept { return values_.data(); }
  void swap(VertexArray& other) noexcept {
    values_.swap(other.values_);
    exchange_.swap(other.exchange_);
    remotes_.swap(other.remotes_);
    worklist_.swap(other.worklist_);
  }

  void fill(const T& value) {
    const auto size = values_.size(), threads = static_cast<std::size_t>(graph_->num_threads());
    graph_->team().run([&](int t) {
      const auto thread = static_cast<std::size_t>(t);
      std::fill(values_.begin() + size * thread / threads,
                values_.begin() + size * (thread + 1) / threads, value);
    });
  }

  // The lanes for its messages. The first call is collective, throws weft::Error, and fixes their
  // settings.
  transport::Exchange<Message>& exchange(const transport::ExchangeSettings& settings = {}) {
    if (exchange_ == nullptr)
      exchange_ = std::make_unique<transport::Exchange<Message>>(graph_->job(),
                                                                 graph_->num_threads(), settings);
    return *exchange_;
  }

  // The location of each rank's array, to be read with Job::rdma_read; empty in a job of one. The
  // first call is collective and throws weft::Error.
  const std::vector<transport::RemoteMemory>& remotes() {
    if (remotes_.empty() && graph_->job().size() > 1) {
      const Status status = graph_->job().all_gather(values_.remote(), remotes_);
      if (!status.ok()) throw Error(status);
    }
    return remotes_;
  }

  // The tasks of steps that read this array. The first call is collective and throws weft::Error.
  Worklist<T>& worklist() {
    if (worklist_ == nullptr) worklist_ = std::make_unique<Worklist<T>>(*graph_);
    return *worklist_;
  }

 private:
  const Graph* graph_;
  Buffer<T> values_;
  std::unique_ptr<transport::Exchange<Message>> exchange_;
  std::vector<transport::RemoteMemory> remotes_;
  std::unique_ptr<Worklist<T>> worklist_;
};

}  // namespace weft::graph
