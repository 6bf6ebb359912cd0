#pragma once
// gather: reading an array that lies in consecutive parts, one in each rank's memory.
#include <cstdint>
#include <span>
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

// Copies the values [first, first + count) to `to`. While the others change nothing: they wait for
// this rank at a barrier behind it. peer_lost or what Job::rdma_read says, with the rank's name.
Status gather(transport::Job& job, const Parts& parts, std::uint64_t first, std::size_t count,
              void* to);

}  // namespace weft::graph
