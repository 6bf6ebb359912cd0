#pragma once
// RowCache: rows of edges of other ranks' vertices that this rank's threads have read to do their
// tasks (section 5.2.2 of the RGraph paper). Rows of a graph never change, so a copy stays right.
//
// Any threads may call find and insert at the same time. end_round is for one thread while no other
// uses the cache or a row that it gave.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/types.hpp"

namespace weft::graph {

class WEFT_API RowCache {
 public:
  struct Row {
    std::vector<VertexId> vertices;
    std::vector<Weight> weights;  // empty: every edge weighs 1
  };

  RowCache();
  ~RowCache();
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  // The row, good until end_round, or null. Counts a hit.
  const Row* find(VertexId vertex);
  // Keeps the row, unless another thread has done so; returns the kept one.
  const Row* insert(VertexId vertex, Row row);
  // Drops rows beyond max_rows: those with the fewest hits first, none that came in the last 4
  // rounds.
  void end_round(std::size_t max_rows);
  std::size_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::graph
