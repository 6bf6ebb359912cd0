#include "triangles.hpp"

#include <numeric>

#include "graph/common/agree.hpp"
#include "graph/common/neighbor_values.hpp"
#include "graph/programs/add_to_owners.hpp"
#include "graph/programs/require.hpp"
#include "graph/programs/simple_row.hpp"

namespace weft::graph {
namespace {

// visit(thread, i) for the rank's own vertices, counted from the first.
template <class Visit>
void for_owned(const Graph& graph, Visit&& visit) {
  detail::WorkCounter work(graph.num_owned(), {.grain = 64}, graph.num_threads());
  graph.team().run([&](int thread) {
    work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
      for (auto i = static_cast<VertexId>(begin); i < end; ++i) visit(thread, i);
    });
  });
}

// Of each rank, where steps are saved and it has as many rows: a later run repeats at most one, as
// long as these are not too many edges to be read at once.
constexpr std::uint64_t kMinRounds = 16;

}  // namespace

ForwardRows::ForwardRows(const Graph& graph, bool directions)
    : graph_(graph), counts_directions_(directions), degrees_(graph) {
  transport::Job& job = graph.job();
  const VertexId first = graph.first(), size = graph.num_owned();
  // All neighbors, where there is room for as many as edges.
  const auto place = [&](VertexId i) {
    return graph.out().offsets[i] + (graph.undirected() ? 0 : graph.in().offsets[i]);
  };
  Buffer<VertexId> all(nullptr, place(size));
  Buffer<std::uint8_t> all_directions(nullptr, directions ? place(size) : 0);
  std::vector<SimpleRow> rows(static_cast<std::size_t>(graph.num_threads()));
  for_owned(graph, [&](int thread, VertexId i) {
    SimpleRow& row = rows[static_cast<std::size_t>(thread)];
    row.fill(graph, static_cast<VertexId>(first + i));
    std::copy(row.vertices().begin(), row.vertices().end(), &all[place(i)]);
    if (directions)
      std::copy(row.directions().begin(), row.directions().end(), &all_directions[place(i)]);
    degrees_[static_cast<VertexId>(first + i)] = static_cast<VertexId>(row.vertices().size());
  });

  NeighborValues<VertexId> gathered(graph);
  if (job.size() > 1) throw_if(job.barrier());
  gathered.gather(degrees_);
  const VertexId* const degrees = gathered.data();
  offsets_ = Buffer<std::uint64_t>(&job, std::size_t{size} + 1);
  for_owned(graph, [&](int, VertexId i) {
    const auto v = static_cast<VertexId>(first + i);
    const std::uint64_t begin = place(i);
    std::uint64_t kept = begin;
    for (std::uint64_t e = begin; e < begin + degrees_[v]; ++e) {
      const VertexId u = all[e];
      if (degrees[u] < degrees[v] || (degrees[u] == degrees[v] && u < v)) continue;
      all[kept] = u;
      if (directions) all_directions[kept] = all_directions[e];
      ++kept;
    }
    offsets_[std::size_t{i} + 1] = kept - begin;
  });
  std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  vertices_ = Buffer<VertexId>(&job, offsets_[size]);
  directions_ = Buffer<std::uint8_t>(&job, directions ? offsets_[size] : 0);
  for_owned(graph, [&](int, VertexId i) {
    const std::uint64_t count = offsets_[std::size_t{i} + 1] - offsets_[i];
    std::copy_n(all.data() + place(i), count, vertices_.data() + offsets_[i]);
    if (directions)
      std::copy_n(all_directions.data() + place(i), count, directions_.data() + offsets_[i]);
  });
  if (job.size() > 1)
    throw_if(job.all_gather(Remote{offsets_.remote(), vertices_.remote(), directions_.remote()},
                            remotes_));
}

bool ForwardRows::read_bytes(const transport::RemoteMemory& from, void* to,
                             std::size_t bytes) const {
  const Code code = graph_.job().rdma_read(0, from, to, bytes);
  if (code != Code::ok && code != Code::peer_lost) throw Error(code);
  return code == Code::ok;
}

std::vector<std::vector<VertexId>> ForwardRows::share_rounds(
    const RunOptions& options, const OwnedArray<std::uint8_t>& searched) const {
  const VertexId size = graph_.num_owned();
  std::vector<VertexId> bounds = {0};
  if (options.wants_save) {
    const std::uint64_t most =
        std::clamp<std::uint64_t>(offsets_[size] / kMinRounds, 1, options.edges_at_once);
    std::uint64_t edges = 0;
    for (VertexId i = 0; i < size; ++i) {
      if (searched.data()[i] == 0) edges += offsets_[std::size_t{i} + 1] - offsets_[i];
      if (edges < most || i + 1 == size) continue;
      bounds.push_back(i + 1);
      edges = 0;
    }
  }
  bounds.push_back(size);
  if (graph_.job().size() == 1) return {bounds};
  std::vector<VertexId> all;
  std::vector<std::size_t> counts;
  throw_if(graph_.job().all_gather(std::span<const VertexId>(bounds), all, counts));
  const std::size_t most = *std::max_element(counts.begin(), counts.end());
  std::vector<std::vector<VertexId>> rounds;
  auto begin = all.begin();
  for (const std::size_t count : counts) {
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    rounds.emplace_back(begin, end).resize(most, *(end - 1));
    begin = end;
  }
  return rounds;
}

void ForwardRows::end_reading() const {
  if (graph_.job().size() > 1) throw_if(graph_.job().barrier());
}

void triangles(const Graph& graph, const TriangleOptions& rules, const RunOptions& options,
               Triangles& result) {
  require_in_edges(graph, "triangles");
  const ForwardRows rows(graph, false);
  std::vector<ThreadCount> sums(static_cast<std::size_t>(graph.num_threads()));
  const VertexId first = graph.first(), size = graph.num_owned();
  const auto sum_of = [&] {
    std::uint64_t sum = 0;
    for (const ThreadCount& part : sums) sum += part.value;
    return sum;
  };
  const auto sum_of_vertices = [&] {
    return std::accumulate(result.of_vertex.data(), result.of_vertex.data() + size,
                           std::uint64_t{0});
  };
  if (rules.per_vertex) {
    VertexArray<std::uint64_t> of_vertex(graph, 0);
    if (options.resume_step > 0) std::copy_n(result.of_vertex.data(), size, &of_vertex[first]);
    const auto keep = [&] {
      add_all_to_owners(graph, of_vertex);
      std::copy_n(&of_vertex[first], size, result.of_vertex.data());
    };
    result.num_steps = rows.for_triangles(
        "triangles", options, result.searched,
        [&](int, VertexId v, std::uint64_t amount) { atomic_add(of_vertex[v], amount); }, keep);
    keep();
  } else {
    if (options.resume_step > 0) sums[0].value = sum_of_vertices();
    std::fill_n(result.of_vertex.data(), size, 0);
    result.num_steps =
        rows.for_triangles("triangles", options, result.searched, AddToCounts{sums}, [&] {
          // A rank without vertices finds none.
          if (size > 0) result.of_vertex[first] = sum_of();
        });
  }
  std::uint64_t sum = rules.per_vertex ? sum_of_vertices() : sum_of();
  throw_if(graph.job().all_reduce(sum, std::plus<>()));
  result.total = sum / 3;  // each was added at its three vertices
}

}  // namespace weft::graph
