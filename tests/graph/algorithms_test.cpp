// The algorithms of Graphalytics and GAPBS beyond the paper's, with ranks and threads in one
// process: each finds what a definition, written down without any cleverness, finds.
#include "weft/graph/algorithms.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>

#include "graph/programs/serial.hpp"
#include "tests/graph/ranks.hpp"
#include "weft/graph.hpp"

using namespace weft;         // NOLINT(google-build-using-namespace)
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

constexpr VertexId kVertices = 60;

// Self-loops, edges that are there twice and in both directions, vertices without any, and so many
// edges that there are triangles.
std::vector<Edge> dense_edges() {
  std::vector<Edge> edges = some_edges(kVertices, 500);
  for (std::size_t i = 0; i < edges.size(); i += 5)
    edges.push_back({edges[i].destination, edges[i].source, 1});
  for (std::uint32_t i = 20; i < 26; ++i)
    for (std::uint32_t j = 20; j < i; ++j) edges.push_back({i, j, 1});
  const auto is_alone = [](const Edge& edge) {
    return edge.source % 17 == 9 || edge.destination % 17 == 9;
  };
  edges.erase(std::remove_if(edges.begin(), edges.end(), is_alone), edges.end());
  edges.push_back({kVertices - 1, kVertices - 1, 1});
  return edges;
}

std::vector<VertexId> labels_by_definition(const std::vector<Edge>& edges, bool undirected,
                                           int iterations) {
  std::vector<VertexId> labels(kVertices);
  for (VertexId v = 0; v < kVertices; ++v) labels[v] = v;
  for (int i = 0; i < iterations; ++i) {
    std::vector<VertexId> next = labels;
    for (VertexId v = 0; v < kVertices; ++v) {
      std::map<VertexId, int> counts;
      for (const Edge& edge : edges) {
        if (edge.source == v) ++counts[labels[edge.destination]];
        // Undirected self-loops are one edge.
        if (edge.destination == v && !(undirected && edge.source == v))
          ++counts[labels[edge.source]];
      }
      int most = 0;
      for (const auto& [label, count] : counts) {
        if (count <= most) continue;
        most = count;
        next[v] = label;
      }
    }
    labels = next;
  }
  return labels;
}

// Which vertices have an edge: [source][destination], without self-loops.
using Matrix = std::vector<std::vector<bool>>;
Matrix matrix_of(const std::vector<Edge>& edges, bool undirected) {
  Matrix matrix(kVertices, std::vector<bool>(kVertices));
  for (const Edge& edge : edges) {
    if (edge.source == edge.destination) continue;
    matrix[edge.source][edge.destination] = true;
    if (undirected) matrix[edge.destination][edge.source] = true;
  }
  return matrix;
}

std::vector<double> clustering_by_definition(const Matrix& edges) {
  std::vector<double> coefficients(kVertices);
  for (VertexId v = 0; v < kVertices; ++v) {
    std::vector<VertexId> neighbors;
    for (VertexId u = 0; u < kVertices; ++u)
      if (edges[v][u] || edges[u][v]) neighbors.push_back(u);
    double pairs = 0, joined = 0;
    for (const VertexId u : neighbors)
      for (const VertexId w : neighbors) {
        pairs += u != w ? 1 : 0;
        joined += edges[u][w] ? 1 : 0;
      }
    if (pairs > 0) coefficients[v] = joined / pairs;
  }
  return coefficients;
}

std::vector<std::uint64_t> triangles_by_definition(const Matrix& edges) {
  std::vector<std::uint64_t> counts(kVertices);
  for (VertexId a = 0; a < kVertices; ++a)
    for (VertexId b = 0; b < a; ++b)
      for (VertexId c = 0; c < b; ++c)
        if (edges[a][b] && edges[b][c] && edges[a][c])
          for (const VertexId v : {a, b, c}) ++counts[v];
  return counts;
}

// For each k, what is left once no vertex has fewer than k neighbors.
std::vector<std::uint32_t> cores_by_definition(const Matrix& edges) {
  std::vector<std::uint32_t> cores(kVertices);
  for (std::uint32_t k = 1; k < kVertices; ++k) {
    std::vector<bool> is_left(kVertices, true);
    for (bool changed = true; changed;) {
      changed = false;
      for (VertexId v = 0; v < kVertices; ++v) {
        std::uint32_t count = 0;
        for (VertexId u = 0; u < kVertices; ++u) count += is_left[u] && edges[v][u] ? 1 : 0;
        if (!is_left[v] || count >= k) continue;
        is_left[v] = false;
        changed = true;
      }
    }
    for (VertexId v = 0; v < kVertices; ++v)
      if (is_left[v]) cores[v] = k;
  }
  return cores;
}

// By all pairs: on how many of the shortest paths from a source to another vertex each vertex is,
// but for the last and, unless scaled, the first.
std::vector<double> betweenness_by_definition(const Matrix& edges,
                                              const std::vector<VertexId>& sources, bool scaled) {
  constexpr int kInfinite = 1000;
  std::vector<std::vector<int>> far(kVertices, std::vector<int>(kVertices, kInfinite));
  std::vector<std::vector<double>> paths(kVertices, std::vector<double>(kVertices));
  for (VertexId a = 0; a < kVertices; ++a)
    for (VertexId b = 0; b < kVertices; ++b) far[a][b] = a == b ? 0 : edges[a][b] ? 1 : kInfinite;
  for (VertexId c = 0; c < kVertices; ++c)
    for (VertexId a = 0; a < kVertices; ++a)
      for (VertexId b = 0; b < kVertices; ++b)
        far[a][b] = std::min(far[a][b], far[a][c] + far[c][b]);
  for (VertexId a = 0; a < kVertices; ++a) paths[a][a] = 1;
  for (int distance = 1; distance < static_cast<int>(kVertices); ++distance)
    for (VertexId a = 0; a < kVertices; ++a)
      for (VertexId b = 0; b < kVertices; ++b)
        for (VertexId c = 0; c < kVertices && far[a][b] == distance; ++c)
          if (edges[c][b] && far[a][c] == distance - 1) paths[a][b] += paths[a][c];
  std::vector<double> scores(kVertices);
  for (const VertexId s : sources)
    for (VertexId t = 0; t < kVertices; ++t)
      for (VertexId v = 0; v < kVertices; ++v)
        if (v != t && (v != s || scaled) && far[s][t] < kInfinite &&
            far[s][v] + far[v][t] == far[s][t])
          scores[v] += paths[s][v] * paths[v][t] / paths[s][t];
  const double largest = *std::max_element(scores.begin(), scores.end());
  if (!scaled) return scores;
  for (double& score : scores) score /= largest;
  return scores;
}

std::vector<double> ranks_by_definition(const std::vector<Edge>& edges, bool undirected,
                                        const PageRankOptions& rules) {
  // Shares of what a vertex has that go to each other one.
  std::vector<std::vector<double>> shares(kVertices, std::vector<double>(kVertices));
  std::vector<double> num_out(kVertices), units(kVertices, 1.0 / kVertices);
  for (const Edge& edge : edges) {
    for (const bool back : {false, true}) {
      if (back && (!undirected || edge.source == edge.destination)) continue;
      const VertexId from = back ? edge.destination : edge.source;
      ++shares[from][back ? edge.source : edge.destination];
      ++num_out[from];
    }
  }
  if (!rules.sources.empty()) std::fill(units.begin(), units.end(), 0);
  for (const VertexId source : rules.sources)
    units[source] += 1.0 / static_cast<double>(rules.sources.size());
  for (VertexId v = 0; v < kVertices; ++v)
    for (VertexId to = 0; to < kVertices; ++to)
      shares[v][to] = num_out[v] > 0 ? shares[v][to] / num_out[v] : units[to];
  std::vector<double> ranks = units;
  for (std::uint32_t i = 0; i < rules.iterations; ++i) {
    std::vector<double> next(kVertices);
    for (VertexId to = 0; to < kVertices; ++to) {
      for (VertexId v = 0; v < kVertices; ++v) next[to] += rules.damping * ranks[v] * shares[v][to];
      next[to] += (1 - rules.damping) * units[to];
    }
    ranks = next;
  }
  return ranks;
}

// body(graph) for 1 to 3 ranks of 1 and 2 threads.
template <class Body>
void on_graphs(const std::string& path, bool undirected, Body&& body) {
  for (const int num_ranks : {1, 2, 3})
    for (const int num_threads : {1, 2}) {
      INFO(num_ranks << " ranks, " << num_threads << " threads");
      on_ranks(num_ranks, [&](transport::Job& job) {
        const Graph graph = loadGraph(job, path,
                                      {.undirected = undirected,
                                       .in_edges = true,
                                       .remote_rows = false,
                                       .threads = num_threads,
                                       .bind_threads = false});
        body(graph);
      });
    }
}

}  // namespace

TEST_CASE("labels propagate as they are defined") {
  const TemporaryFile file(".bin");
  const std::vector<Edge> edges = dense_edges();
  write_binary(file.path(), edges);
  const bool undirected = GENERATE(false, true);
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0};
  for (const std::uint32_t iterations : {1u, 2u, 3u, 10u}) {
    const std::vector<VertexId> right =
        labels_by_definition(edges, undirected, static_cast<int>(iterations));
    on_graphs(file.path(), undirected, [&](const Graph& graph) {
      Cdlp found(graph);
      for (int again = 0; again < 2; ++again) cdlp(graph, {iterations}, {}, found);
      for (VertexId v = graph.first(); v < graph.last(); ++v)
        if (found.label[v] != right[v]) ++num_wrong;
      num_seen += graph.num_owned();
      const CdlpSummary sum = summarize(graph, found);
      std::map<VertexId, std::uint64_t> sizes;
      for (const VertexId label : right) ++sizes[label];
      if (sum.communities != sizes.size()) ++num_wrong;
      if (graph.job().size() == 1 && serial::labels(graph, iterations) != right) ++num_wrong;
    });
  }
  CHECK(num_wrong == 0);
  CHECK(num_seen == 4 * 6 * kVertices);
}

TEST_CASE("ranks that sum to one, from all vertices or some, are as they are defined") {
  const TemporaryFile file(".bin");
  const std::vector<Edge> edges = dense_edges();
  write_binary(file.path(), edges);
  const bool undirected = GENERATE(false, true);
  PageRankOptions rules;
  rules.iterations = GENERATE(1, 2, 30);
  rules.damping = GENERATE(0.85, 0.3);
  rules.sources = GENERATE(std::vector<VertexId>{}, std::vector<VertexId>{4},
                           std::vector<VertexId>{9, 33, 4, 33, 59});
  rules.normalized = rules.sources.empty();
  const std::vector<double> right = ranks_by_definition(edges, undirected, rules);
  const auto is_close = [&](VertexId v, double value, double most = 1e-12) {
    return std::abs(value - right[v]) <= most * right[v];
  };
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0}, num_rounded{0};
  on_graphs(file.path(), undirected, [&](const Graph& graph) {
    PageRankOptions single = rules;
    single.single = true;
    PageRank rounded(graph);
    pagerank(graph, single, {}, rounded);
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      if (!is_close(v, rounded.rank[v], 1e-6)) ++num_wrong;
      if (!is_close(v, rounded.rank[v])) ++num_rounded;
    }
    for (const Mode mode : {Mode::automatic, Mode::paper}) {
      PageRank found(graph);
      RunOptions options;
      options.mode = mode;
      for (int again = 0; again < 2; ++again) pagerank(graph, rules, options, found);
      for (VertexId v = graph.first(); v < graph.last(); ++v)
        if (!is_close(v, found.rank[v])) ++num_wrong;
      if (std::abs(summarize(graph, found).sum - 1) > 1e-12) ++num_wrong;
      num_seen += graph.num_owned();
    }
    if (graph.job().size() > 1) return;
    const std::vector<double> serial = serial::pagerank(graph, rules);
    for (VertexId v = 0; v < kVertices; ++v)
      if (!is_close(v, serial[v])) ++num_wrong;
  });
  CHECK(num_wrong == 0);
  CHECK(num_rounded > 0);
  CHECK(num_seen == 2 * 6 * kVertices);
}

TEST_CASE("rules of ranks that there are not are refused by all ranks") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), dense_edges());
  PageRankOptions wrong_damping, wrong_source;
  wrong_damping.damping = 1.5;
  wrong_source.sources = {0, kVertices};
  std::atomic<int> num_refused{0};
  on_graphs(file.path(), false, [&](const Graph& graph) {
    for (const PageRankOptions& rules : {wrong_damping, wrong_source})
      for (const Mode mode : {Mode::automatic, Mode::paper}) {
        PageRank found(graph);
        RunOptions options;
        options.mode = mode;
        try {
          pagerank(graph, rules, options, found);
        } catch (const Error& error) {
          if (error.status() == Code::bad_argument) ++num_refused;
        }
      }
  });
  CHECK(num_refused == 4 * (1 + 2 + 3) * 2);
  PageRankOptions single;
  single.single = true;
  num_refused = 0;
  on_graphs(file.path(), false, [&](const Graph& graph) {
    PageRank found(graph);
    RunOptions options;
    options.mode = Mode::paper;
    try {
      pagerank(graph, single, options, found);
    } catch (const Error& error) {
      if (error.status() == Code::bad_argument) ++num_refused;
    }
  });
  CHECK(num_refused == (1 + 2 + 3) * 2);
}

TEST_CASE("labels that swap for ever are those of the last iteration, and settled ones end it") {
  const TemporaryFile pair(".bin"), star(".bin");
  write_binary(pair.path(), {{0, 1, 1}});
  write_binary(star.path(), {{0, 1, 1}, {0, 2, 1}, {1, 2, 1}});
  std::atomic<std::uint64_t> num_wrong{0};
  on_graphs(pair.path(), true, [&](const Graph& graph) {
    for (const std::uint32_t iterations : {6u, 7u}) {
      Cdlp found(graph);
      cdlp(graph, {iterations}, {}, found);
      for (VertexId v = graph.first(); v < graph.last(); ++v)
        if (found.label[v] != (iterations + v) % 2) ++num_wrong;
      if (found.num_steps != iterations) ++num_wrong;
    }
  });
  on_graphs(star.path(), true, [&](const Graph& graph) {
    Cdlp found(graph);
    cdlp(graph, {1000000}, {}, found);
    if (found.num_steps > 10) ++num_wrong;
  });
  CHECK(num_wrong == 0);
}

TEST_CASE("clustering coefficients are what they are defined to be") {
  const TemporaryFile file(".bin");
  const std::vector<Edge> edges = dense_edges();
  write_binary(file.path(), edges);
  const bool undirected = GENERATE(false, true);
  const std::vector<double> right = clustering_by_definition(matrix_of(edges, undirected));
  const double largest = *std::max_element(right.begin(), right.end());
  CHECK(largest > 0.3);
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0};
  on_graphs(file.path(), undirected, [&](const Graph& graph) {
    // Rows of other ranks: one at a time, some, all.
    for (const std::size_t edges_at_once : {1, 30, 1 << 20}) {
      Lcc found(graph);
      RunOptions options;
      options.edges_at_once = edges_at_once;
      lcc(graph, options, found);
      for (VertexId v = graph.first(); v < graph.last(); ++v)
        if (found.coefficient[v] != right[v]) ++num_wrong;
      const LccSummary sum = summarize(graph, found);
      if (sum.largest != largest) ++num_wrong;
      num_seen += graph.num_owned();
    }
    if (graph.job().size() == 1 && serial::clustering(graph) != right) ++num_wrong;
  });
  CHECK(num_wrong == 0);
  CHECK(num_seen == 3 * 6 * kVertices);
}

TEST_CASE("triangles are counted once, and at each of their vertices") {
  const TemporaryFile file(".bin");
  const std::vector<Edge> edges = dense_edges();
  write_binary(file.path(), edges);
  const bool undirected = GENERATE(false, true);
  const std::vector<std::uint64_t> right = triangles_by_definition(matrix_of(edges, true));
  const std::uint64_t total = std::accumulate(right.begin(), right.end(), std::uint64_t{0}) / 3;
  CHECK(total > 100);
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0};
  on_graphs(file.path(), undirected, [&](const Graph& graph) {
    for (const std::size_t edges_at_once : {1, 30, 1 << 20}) {
      RunOptions options;
      options.edges_at_once = edges_at_once;
      Triangles found(graph), sum(graph);
      triangles(graph, {}, options, found);
      triangles(graph, {.per_vertex = false}, options, sum);
      if (found.total != total || sum.total != total) ++num_wrong;
      for (VertexId v = graph.first(); v < graph.last(); ++v)
        if (found.of_vertex[v] != right[v]) ++num_wrong;
      num_seen += graph.num_owned();
    }
    if (graph.job().size() == 1 && serial::triangles(graph) != right) ++num_wrong;
  });
  CHECK(num_wrong == 0);
  CHECK(num_seen == 3 * 6 * kVertices);
}

TEST_CASE("core numbers are those of what is left") {
  const TemporaryFile file(".bin");
  std::vector<Edge> edges = dense_edges();
  const bool undirected = GENERATE(false, true);
  const bool is_path = GENERATE(false, true);
  if (is_path) {  // falls from both ends, over all ranks in turn
    edges.clear();
    for (std::uint32_t i = 0; i + 1 < kVertices; ++i)
      edges.push_back({i * 7 % kVertices, (i + 1) * 7 % kVertices, 1});
  }
  write_binary(file.path(), edges);
  const std::vector<std::uint32_t> right = cores_by_definition(matrix_of(edges, true));
  const std::uint32_t largest = *std::max_element(right.begin(), right.end());
  CHECK(largest >= (is_path ? 1u : 5u));
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0};
  on_graphs(file.path(), undirected, [&](const Graph& graph) {
    KCore found(graph);
    for (int again = 0; again < 2; ++again) kcore(graph, {}, found);
    for (VertexId v = graph.first(); v < graph.last(); ++v)
      if (found.core[v] != right[v]) ++num_wrong;
    const KCoreSummary sum = summarize(graph, found);
    if (sum.largest != largest || sum.innermost != static_cast<std::uint64_t>(std::count(
                                                       right.begin(), right.end(), largest)))
      ++num_wrong;
    num_seen += graph.num_owned();
    if (graph.job().size() == 1 && serial::core_numbers(graph) != right) ++num_wrong;
  });
  CHECK(num_wrong == 0);
  CHECK(num_seen == 6 * kVertices);
}

TEST_CASE("betweenness is by the shortest paths that lead over a vertex") {
  const TemporaryFile file(".bin");
  std::vector<Edge> edges = dense_edges();
  // Fewer, so that paths are longer.
  edges.erase(std::remove_if(edges.begin(), edges.end(),
                             [](const Edge& edge) { return edge.weight % 4 != 1; }),
              edges.end());
  edges.push_back({kVertices - 1, kVertices - 1, 1});
  write_binary(file.path(), edges);
  const bool undirected = GENERATE(false, true);
  const std::vector<VertexId> sources =
      GENERATE(std::vector<VertexId>{3}, std::vector<VertexId>{5, 40, 22, 0});
  const BetweennessOptions rules{.scaled = GENERATE(true, false)};
  const std::vector<double> right =
      betweenness_by_definition(matrix_of(edges, undirected), sources, rules.scaled);
  CHECK(std::count(right.begin(), right.end(), 0) < 50);
  const auto is_close = [&](VertexId v, double value) {
    return std::abs(value - right[v]) <= 1e-12 * right[v];
  };
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0};
  on_graphs(file.path(), undirected, [&](const Graph& graph) {
    Betweenness found(graph);
    for (int again = 0; again < 2; ++again) betweenness(graph, sources, rules, {}, found);
    for (VertexId v = graph.first(); v < graph.last(); ++v)
      if (!is_close(v, found.score[v])) ++num_wrong;
    num_seen += graph.num_owned();
    if ((summarize(graph, found).top.at(0).second == 1) != rules.scaled) ++num_wrong;
    if (graph.job().size() > 1) return;
    const std::vector<double> serial = serial::betweenness(graph, sources, rules);
    for (VertexId v = 0; v < kVertices; ++v)
      if (!is_close(v, serial[v])) ++num_wrong;
  });
  CHECK(num_wrong == 0);
  CHECK(num_seen == 6 * kVertices);
}

TEST_CASE("more shortest paths than can be counted are an error of all ranks") {
  // Each diamond doubles their number.
  constexpr std::uint32_t kDiamonds = 1100;
  std::vector<Edge> edges;
  for (std::uint32_t i = 0; i < kDiamonds; ++i)
    for (const std::uint32_t side : {3 * i + 1, 3 * i + 2}) {
      edges.push_back({3 * i, side, 1});
      edges.push_back({side, 3 * i + 3, 1});
    }
  const TemporaryFile file(".bin");
  write_binary(file.path(), edges);
  std::atomic<int> num_told{0};
  on_ranks(2, [&](transport::Job& job) {
    const Graph graph =
        loadGraph(job, file.path(), {.undirected = true, .threads = 1, .bind_threads = false});
    Betweenness found(graph);
    const VertexId sources[] = {0};
    try {
      betweenness(graph, sources, {}, {}, found);
    } catch (const Error& error) {
      if (error.status() == Code::unsupported) ++num_told;
    }
  });
  CHECK(num_told == 2);
}

TEST_CASE("what needs edges in says so without them") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), dense_edges());
  std::atomic<int> num_told{0};
  on_ranks(2, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), {.threads = 1, .bind_threads = false});
    Cdlp labels(graph);
    const auto tells = [&](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        if (error.status() == Code::bad_argument) ++num_told;
      }
    };
    tells([&] { cdlp(graph, {}, {}, labels); });
    Lcc coefficients(graph);
    tells([&] { lcc(graph, {}, coefficients); });
    Triangles counts(graph);
    tells([&] { triangles(graph, {}, {}, counts); });
    KCore cores(graph);
    tells([&] { kcore(graph, {}, cores); });
    Betweenness scores(graph);
    tells([&] { betweenness(graph, {}, {}, {}, scores); });
  });
  CHECK(num_told == 2 * 5);
}
