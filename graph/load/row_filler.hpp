#pragma once
// Filling rows: a pass that counts the edges of every vertex, and passes that bring every edge to
// the rank which has its row.
#include <cstdint>
#include <vector>

#include "edge_feed.hpp"
#include "weft/graph/graph.hpp"

namespace weft::graph {

// What a row has of the edges.
struct RowKind {
  bool out = true;          // a row has the edges out of its vertex; false: those in
  bool undirected = false;  // and the reverse of every edge
  Weights weights = Weights::none;
};

// Of an edge in rows.
constexpr std::size_t edge_bytes(Weights weights) noexcept {
  return sizeof(VertexId) + (weights == Weights::none ? 0 : sizeof(Weight));
}

// By thread, where the threads of the only rank count edges apart: the index in each row for the
// thread's next edge. Else empty.
using Places = std::vector<Buffer<std::uint32_t>>;

// The edges of every vertex, over all ranks, added to `degrees`, which are zeroed and have
// num_vertices elements. Collective; throws weft::Error on all ranks alike.
void count_edges(transport::Job& job, Team& team, EdgeFeed& edges, const RowKind& kind,
                 Buffer<std::uint32_t>& degrees, Places& places);

// Puts the edges of all ranks into rows: rank r has those of the vertices cut[r] to cut[r + 1] - 1,
// and edges of no rank's rows are passed over. `rows` has the memory, for as many edges as were
// counted. offsets[r + 1] is where row r begins, or with `places` where it ends; afterwards it is
// where it ends. In the last pass the edges that are kept in memory are given back. Collective;
// throws weft::Error on all ranks alike.
void fill_rows(transport::Job& job, Team& team, EdgeFeed& edges, const RowKind& kind,
               const std::vector<VertexId>& cut, bool is_last, Places& places, Rows& rows);

}  // namespace weft::graph
