#include "serial.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

namespace weft::graph::serial {

std::vector<std::uint32_t> bfs_depths(const Graph& graph, VertexId source) {
  std::vector<std::uint32_t> depths(graph.num_vertices(), kUnreached);
  std::queue<VertexId> queue;
  depths[source] = 0;
  for (queue.push(source); !queue.empty(); queue.pop()) {
    const VertexId v = queue.front();
    for (const auto& [to, weight] : graph.out_edges(v)) {
      if (depths[to] != kUnreached) continue;
      depths[to] = depths[v] + 1;
      queue.push(to);
    }
  }
  return depths;
}

// Dijkstra's, with a heap.
std::vector<std::uint64_t> sssp_distances(const Graph& graph, VertexId source) {
  std::vector<std::uint64_t> distances(graph.num_vertices(), kFar);
  using Entry = std::pair<std::uint64_t, VertexId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
  distances[source] = 0;
  heap.emplace(0, source);
  while (!heap.empty()) {
    const auto [distance, v] = heap.top();
    heap.pop();
    if (distance != distances[v]) continue;
    for (const auto& [to, weight] : graph.out_edges(v)) {
      const std::uint64_t sum =
          graph.has_real_weights()
              ? std::bit_cast<std::uint64_t>(real_distance(distance) + real_weight(weight))
              : distance + weight;
      if (sum >= distances[to]) continue;
      distances[to] = sum;
      heap.emplace(distances[to], to);
    }
  }
  return distances;
}

// Breadth-first from each vertex that has no name yet, over edges in both directions.
std::vector<VertexId> components(const Graph& graph) {
  const VertexId num_vertices = graph.num_vertices();
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(num_vertices) + 1);
  for (VertexId v = 0; v < num_vertices; ++v)
    for (const auto& [to, weight] : graph.out_edges(v)) ++offsets[static_cast<std::size_t>(to) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<VertexId> sources(offsets.back());
  std::vector<std::uint64_t> next(offsets.begin(), offsets.end() - 1);
  for (VertexId v = 0; v < num_vertices; ++v)
    for (const auto& [to, weight] : graph.out_edges(v)) sources[next[to]++] = v;

  std::vector<VertexId> names(num_vertices, kNoVertex);
  std::vector<VertexId> stack;
  for (VertexId name = 0; name < num_vertices; ++name) {
    if (names[name] != kNoVertex) continue;
    names[name] = name;
    stack.push_back(name);
    const auto reach = [&](VertexId v) {
      if (names[v] != kNoVertex) return;
      names[v] = name;
      stack.push_back(v);
    };
    while (!stack.empty()) {
      const VertexId v = stack.back();
      stack.pop_back();
      for (const auto& [to, weight] : graph.out_edges(v)) reach(to);
      for (std::uint64_t i = offsets[v]; i < offsets[static_cast<std::size_t>(v) + 1]; ++i)
        reach(sources[i]);
    }
  }
  return names;
}

std::vector<double> pagerank(const Graph& graph, const PageRankOptions& rules) {
  const double num_vertices = static_cast<double>(graph.num_vertices());
  std::vector<double> units(graph.num_vertices(), rules.normalized ? 1 / num_vertices : 1);
  if (!rules.sources.empty()) std::fill(units.begin(), units.end(), 0);
  for (const VertexId source : rules.sources)
    units[source] += 1 / static_cast<double>(rules.sources.size());
  std::vector<double> ranks = units, sums(graph.num_vertices());
  double change = std::numeric_limits<double>::infinity();
  for (std::uint32_t i = 0; i < rules.iterations && change >= rules.tolerance; ++i) {
    std::fill(sums.begin(), sums.end(), 0);
    double dangling = 0;
    for (VertexId v = 0; v < graph.num_vertices(); ++v) {
      for (const auto& [to, weight] : graph.out_edges(v))
        sums[to] += ranks[v] / static_cast<double>(graph.out_degree(v));
      if (rules.is_normalized() && graph.out_degree(v) == 0) dangling += ranks[v];
    }
    change = 0;
    for (VertexId v = 0; v < graph.num_vertices(); ++v) {
      const double now =
          (1 - rules.damping + rules.damping * dangling) * units[v] + rules.damping * sums[v];
      change += std::abs(now - ranks[v]);
      ranks[v] = now;
    }
  }
  return ranks;
}

// By a sorted list of the votes for each vertex.
std::vector<VertexId> labels(const Graph& graph, std::uint32_t iterations) {
  std::vector<VertexId> labels(graph.num_vertices());
  std::iota(labels.begin(), labels.end(), VertexId{0});
  std::vector<std::vector<VertexId>> votes(labels.size());
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (VertexId v = 0; v < graph.num_vertices(); ++v)
      for (const auto& [to, weight] : graph.out_edges(v)) {
        votes[v].push_back(labels[to]);
        if (!graph.undirected()) votes[to].push_back(labels[v]);
      }
    for (VertexId v = 0; v < graph.num_vertices(); ++v) {
      std::vector<VertexId>& mine = votes[v];
      std::sort(mine.begin(), mine.end());
      std::size_t most = 0;
      for (std::size_t begin = 0, end = 0; begin < mine.size(); begin = end) {
        while (end < mine.size() && mine[end] == mine[begin]) ++end;
        if (end - begin <= most) continue;
        most = end - begin;
        labels[v] = mine[begin];
      }
      mine.clear();
    }
  }
  return labels;
}

namespace {

using Rows = std::vector<std::vector<VertexId>>;

void sort_rows(Rows& rows) {
  for (std::vector<VertexId>& row : rows) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
}

// Edges out, each once, without self-loops; with `both` also those in.
Rows simple_rows(const Graph& graph, bool both) {
  Rows rows(graph.num_vertices());
  for (VertexId v = 0; v < graph.num_vertices(); ++v)
    for (const auto& [to, weight] : graph.out_edges(v)) {
      if (to == v) continue;
      rows[v].push_back(to);
      if (both) rows[to].push_back(v);
    }
  sort_rows(rows);
  return rows;
}

// For each vertex, the edges of `edges` from one of its neighbors to another: all neighbors'
// edges are looked at.
std::vector<std::uint64_t> edges_between_neighbors(const Rows& neighbors, const Rows& edges) {
  std::vector<std::uint64_t> counts(neighbors.size());
  std::vector<VertexId> neighbor_of(neighbors.size(), kNoVertex);
  for (std::size_t v = 0; v < neighbors.size(); ++v) {
    for (const VertexId u : neighbors[v]) neighbor_of[u] = static_cast<VertexId>(v);
    for (const VertexId u : neighbors[v])
      for (const VertexId w : edges[u]) counts[v] += neighbor_of[w] == v ? 1 : 0;
  }
  return counts;
}

}  // namespace

std::vector<double> clustering(const Graph& graph) {
  const Rows neighbors = simple_rows(graph, true);
  const std::vector<std::uint64_t> counts =
      edges_between_neighbors(neighbors, simple_rows(graph, false));
  std::vector<double> coefficients(counts.size());
  for (std::size_t v = 0; v < counts.size(); ++v) {
    const std::uint64_t degree = neighbors[v].size();
    if (degree >= 2)
      coefficients[v] = static_cast<double>(counts[v]) / static_cast<double>(degree * (degree - 1));
  }
  return coefficients;
}

std::vector<std::uint64_t> triangles(const Graph& graph) {
  const Rows rows = simple_rows(graph, true);
  std::vector<std::uint64_t> counts = edges_between_neighbors(rows, rows);
  for (std::uint64_t& count : counts) count /= 2;
  return counts;
}

// By a queue of vertices in the order of the neighbors they have left.
std::vector<std::uint32_t> core_numbers(const Graph& graph) {
  const Rows rows = simple_rows(graph, true);
  std::vector<std::size_t> left(rows.size());
  std::vector<std::uint32_t> cores(rows.size());
  std::vector<bool> gone(rows.size());
  using Entry = std::pair<std::size_t, VertexId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (VertexId v = 0; v < graph.num_vertices(); ++v) queue.emplace(left[v] = rows[v].size(), v);
  std::size_t core = 0;
  while (!queue.empty()) {
    const auto [count, v] = queue.top();
    queue.pop();
    if (gone[v] || count != left[v]) continue;
    gone[v] = true;
    core = std::max(core, count);
    cores[v] = static_cast<std::uint32_t>(core);
    for (const VertexId u : rows[v])
      if (!gone[u]) queue.emplace(--left[u], u);
  }
  return cores;
}

// From each source numbers of paths forwards, and dependencies back.
std::vector<double> betweenness(const Graph& graph, const std::vector<VertexId>& sources,
                                const BetweennessOptions& rules) {
  const Rows rows = simple_rows(graph, false);
  std::vector<double> scores(rows.size());
  for (const VertexId source : sources) {
    const std::vector<std::uint32_t> depths = bfs_depths(graph, source);
    std::vector<VertexId> order;
    for (VertexId v = 0; v < graph.num_vertices(); ++v)
      if (depths[v] != kUnreached) order.push_back(v);
    std::stable_sort(order.begin(), order.end(),
                     [&](VertexId a, VertexId b) { return depths[a] < depths[b]; });
    std::vector<double> num_paths(rows.size()), dependencies(rows.size());
    num_paths[source] = 1;
    for (const VertexId v : order)
      for (const VertexId to : rows[v])
        if (depths[to] == depths[v] + 1) num_paths[to] += num_paths[v];
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      for (const VertexId to : rows[*at])
        if (depths[to] == depths[*at] + 1)
          dependencies[*at] += num_paths[*at] / num_paths[to] * (1 + dependencies[to]);
      if (*at != source || rules.scaled) scores[*at] += dependencies[*at];
    }
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  if (rules.scaled && largest > 0)
    for (double& score : scores) score /= largest;
  return scores;
}

}  // namespace weft::graph::serial
