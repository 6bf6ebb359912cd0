#pragma once
// VertexArray: a value for every vertex of the graph. The values of a rank's own vertices are the
// valid ones (masters); the others are its mirrors of other ranks' vertices, in which it reduces
// its own contributions before they are sent. There is room for all, but memory only for what is
// used: own vertices, and those that the rank's edges lead to (Graph::reach).
#include <algorithm>
#include <cstring>
#include <memory>

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

  // Values are `initial`, as after fill(). Throws weft::Error (no_memory).
  VertexArray(const Graph& graph, const T& initial)
      : graph_(&graph), values_(&graph.job(), graph.num_vertices(), false) {
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
    worklist_.swap(other.worklist_);
  }

  // Sets the values of own vertices and of the other ends of the rank's edges; of all, if tasks may
  // migrate (LoadOptions::remote_rows).
  void fill(const T& value) {
    const auto size = values_.size(), threads = static_cast<std::size_t>(graph_->num_threads());
    graph_->team().run([&](int t) {
      const auto thread = static_cast<std::size_t>(t);
      const auto first = static_cast<VertexId>(size * thread / threads);
      const auto last = static_cast<VertexId>(size * (thread + 1) / threads);
      const auto fill_range = [&](VertexId begin, VertexId end) {
        std::fill(values_.begin() + begin, values_.begin() + end, value);
      };
      if (graph_->has_remote_rows())
        fill_range(first, last);
      else
        graph_->reach().for_each(first, last, fill_range);
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

  // The tasks of steps that read this array. The first call is collective and throws weft::Error.
  Worklist<T>& worklist() {
    if (worklist_ == nullptr) worklist_ = std::make_unique<Worklist<T>>(*graph_);
    return *worklist_;
  }

 private:
  const Graph* graph_;
  Buffer<T> values_;
  std::unique_ptr<transport::Exchange<Message>> exchange_;
  std::unique_ptr<Worklist<T>> worklist_;
};

}  // namespace weft::graph
