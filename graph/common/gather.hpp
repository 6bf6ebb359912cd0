#pragma once
// gather: reads an array that is distributed over the ranks in consecutive parts.
#include <cstdint>
#include <vector>

#include "weft/graph/graph.hpp"
#include "weft/graph/owned_array.hpp"

namespace weft::graph {

struct Parts {
  std::vector<std::uint64_t> begins;  // of each rank's values, and the end of the last
  std::size_t value_bytes = 0;
  void* mine = nullptr;
  const std::vector<transport::RemoteMemory>* remotes = nullptr;  // empty in a job of one
};

template <class T>
Parts parts_of(const Graph& graph, const OwnedArray<T>& values) {
  return {{graph.cut().begin(), graph.cut().end()}, sizeof(T), values.data(), &values.remotes()};
}

// Copies the values [first, first + count) to `to`. The other ranks must not change the array: they
// wait at a barrier that follows. Errors are those of Job::rdma_read, with the rank's name.
Status gather(transport::Job& job, const Parts& parts, std::uint64_t first, std::size_t count,
              void* to);

}  // namespace weft::graph
