#include "shared_rows.hpp"

#include <algorithm>

#include "graph/common/agree.hpp"

namespace weft::graph {

namespace {

// Memory of a buffer that is not remote by itself, as long as this lives.
template <class T>
Status share(transport::Job& job, const Buffer<T>& buffer, transport::RemoteMemory& memory) {
  memory = buffer.remote();
  if (memory.bytes > 0 || buffer.empty()) return Code::ok;
  return job.share(buffer.data(), buffer.size() * sizeof(T), memory);
}
// Nobody hears of a failure: the rows' memory stays, so a rank that still reads there does no harm.
template <class T>
void unshare(transport::Job& job, const Buffer<T>& buffer, const transport::RemoteMemory& memory) {
  if (memory.bytes > 0 && buffer.remote().bytes == 0) (void)job.unshare(memory);
}

}  // namespace

// An object by now, so its destructor runs if this throws.
SharedRows::SharedRows(const Graph& graph, const Rows& rows) : SharedRows(graph, rows, Unshared()) {
  transport::Job& job = graph.job();
  if (job.size() == 1) return;
  Status status = share(job, rows.offsets, mine_.offsets);
  if (status.ok() && !rows.whole) status = share(job, rows.vertices, mine_.vertices);
  throw_together(job, status);
  throw_if(job.all_gather(mine_, remotes_));
}

SharedRows::~SharedRows() {
  unshare(graph_.job(), rows_.vertices, mine_.vertices);
  unshare(graph_.job(), rows_.offsets, mine_.offsets);
}

Code SharedRows::read(int thread, int owner, VertexId first, VertexId last, Copy& copy,
                      RowRange& rows) const {
  const auto o = static_cast<std::size_t>(owner);
  copy.offsets.resize(static_cast<std::size_t>(last - first) + 1);
  const std::size_t offset_bytes = copy.offsets.size() * sizeof(std::uint64_t);
  const std::uint64_t at = std::uint64_t{first - graph_.cut()[o]} * sizeof(std::uint64_t);
  const Code code = graph_.job().rdma_read(thread, remotes_[o].offsets.part(at, offset_bytes),
                                           copy.offsets.data(), offset_bytes);
  if (code != Code::ok) return code;
  const transport::RemoteMemory& vertices = remotes_[o].vertices;
  const std::uint64_t begin = copy.offsets.front(), end = copy.offsets.back();
  if (!std::is_sorted(copy.offsets.begin(), copy.offsets.end()) ||
      end > (rows_.whole ? rows_.vertices.size() : vertices.bytes / sizeof(VertexId)))
    return Code::corrupt;
  if (rows_.whole) {
    rows = {copy.offsets.data(), rows_.vertices.data()};
    return Code::ok;
  }
  for (std::uint64_t& offset : copy.offsets) offset -= begin;
  copy.vertices.resize(end - begin);
  rows = {copy.offsets.data(), copy.vertices.data()};
  if (begin == end) return Code::ok;
  const std::size_t bytes = copy.vertices.size() * sizeof(VertexId);
  return graph_.job().rdma_read(thread, vertices.part(begin * sizeof(VertexId), bytes),
                                copy.vertices.data(), bytes);
}

}  // namespace weft::graph
