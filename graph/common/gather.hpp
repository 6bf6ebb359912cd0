#pragma once
// gather, gather_all: read an array that is distributed over the ranks in consecutive parts.
#include <algorithm>
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

// Copies the values [first, first + count) to `to`. The other ranks must not change the array: they
// wait at a barrier that follows. Errors are those of Job::rdma_read, with the rank's name.
Status gather(transport::Job& job, const Parts& parts, std::uint64_t first, std::size_t count,
              void* to);

// Copies the values of all vertices, in a job of several ranks, into local memory, which has huge
// pages. The owners must not change them meanwhile. A lost rank's are left as they are: the next
// collective call reports it to all. Throws what else makes a read fail.
template <class T>
void gather_all(const Graph& graph, const OwnedArray<T>& values, Buffer<T>& all) {
  const auto& cut = graph.cut();
  const int size = graph.job().size(), rank = graph.job().rank();
  std::copy_n(values.data(), graph.num_owned(), &all[graph.first()]);
  Code failed = Code::ok;
  for (int step = 1; step < size; ++step) {
    const auto owner = static_cast<std::size_t>((rank + step) % size);
    const std::size_t bytes = (cut[owner + 1] - cut[owner]) * sizeof(T);
    if (bytes == 0) continue;
    const Code code = graph.job().rdma_read(0, values.remotes()[owner], &all[cut[owner]], bytes);
    if (code != Code::ok) failed = code;
  }
  if (failed != Code::ok && failed != Code::peer_lost) throw Error(failed);
}

}  // namespace weft::graph
