#pragma once
// The algorithms of weft-graph. All are collective, called by the thread that loaded the graph, and
// throw weft::Error as processEdges does. Results are values of the rank's own vertices, the same
// with any number of ranks and threads (but for the last bits of PageRank and betweenness);
// summarize() adds up those of all ranks, and is collective.
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/owned_array.hpp"
#include "weft/graph/process.hpp"

namespace weft::graph {

enum class Mode {
  paper,  // vertex programs over processEdges, as in the RGraph paper
  push,   // the fastest algorithm that needs no edges by destination
  pull,   // the algorithm that reads edges by destination, if there is one
  automatic,
};

inline constexpr std::uint32_t kUnreached = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();

struct RunOptions {
  Mode mode = Mode::automatic;
  StepOptions step;
  double delta = 0;  // width of a bucket of sssp; 0: by the graph
  // Edges of other ranks that lcc and triangles have in memory at once; of one vertex all.
  std::size_t edges_at_once = std::size_t{1} << 22;
  // Rank 0 calls it during long runs, once a second.
  std::function<void(const char* what, std::uint64_t step)> progress = {};

  // Checkpoints. After each step except the last all ranks call wants_save(step), which returns the
  // same to all; if it is true, the result holds the present state, and all ranks call save(step).
  // Both may be collective, and may throw. Either both are given or none.
  std::function<bool(std::uint32_t step)> wants_save = {};
  std::function<void(std::uint32_t step)> save = {};
  // Goes on from the state in the result, which was saved after this step, by any number of ranks
  // and threads and in any mode. 0: from the beginning.
  std::uint32_t resume_step = 0;
  bool saves_after(std::uint32_t step) const { return wants_save && wants_save(step); }
};

// Breadth-first search along edges out.
struct Bfs {
  explicit Bfs(const Graph& graph) : depth(graph), parent(graph) {}
  OwnedArray<std::uint32_t> depth;  // kUnreached: not reached
  // Of the source: itself; kNoVertex: not reached, or in a saved state of a depth that is not
  // final.
  OwnedArray<VertexId> parent;
  std::uint32_t num_steps = 0;
};
struct BfsSummary {
  std::uint64_t reached = 0, sum_depth = 0, max_depth = 0, reached_edges = 0;
};
WEFT_API BfsSummary summarize(const Graph& graph, const Bfs& result);

// A distance over real weights, which is reached: its bits are kept, whose order is the same.
constexpr double real_distance(std::uint64_t bits) noexcept { return std::bit_cast<double>(bits); }

// Shortest paths from one source. Over real weights a path's length is the sum from the source on,
// each addition rounded to a double, and the least of those is the same in every run.
struct Sssp {
  explicit Sssp(const Graph& graph) : distance(graph) {}
  // kFar: not reached. Over real weights see real_distance().
  OwnedArray<std::uint64_t> distance;
  std::uint32_t num_steps = 0;
};
struct SsspSummary {
  std::uint64_t reached = 0;
  std::uint64_t sum_distance = 0, max_distance = 0;  // over whole weights
  double sum_real = 0, max_real = 0;                 // over real ones
  VertexId farthest = kNoVertex;                     // a vertex at the largest distance
};
WEFT_API SsspSummary summarize(const Graph& graph, const Sssp& result);

// Weakly connected components, each named by its smallest vertex.
struct Wcc {
  explicit Wcc(const Graph& graph) : component(graph) {}
  OwnedArray<VertexId> component;
  std::uint32_t num_steps = 0;
};
struct WccSummary {
  std::uint64_t components = 0, largest = 0, singletons = 0, sum_min_labels = 0;
};
WEFT_API WccSummary summarize(const Graph& graph, const Wcc& result);

// PageRank. In an iteration a vertex gives its value, divided by its edges out, along each of them,
// and becomes (1 - damping) * unit + damping * what it gets. Gemini's, which is the default: every
// vertex begins with 1, its unit, and what a vertex without edges out has is lost. Normalized, as
// Graphalytics, NetworkX and igraph have it: the unit is 1 / |V|, and what vertices without edges
// out have is given to all in proportion to their units, so that the sum remains 1. Personalised:
// normalized, but units are 1 / sources of each source and 0 of other vertices.
struct PageRank {
  explicit PageRank(const Graph& graph) : rank(graph) {}
  OwnedArray<double> rank;
  std::uint32_t num_steps = 0;
};
struct PageRankSummary {
  double sum = 0;
  std::vector<std::pair<VertexId, double>> top;  // the ten largest
};
WEFT_API PageRankSummary summarize(const Graph& graph, const PageRank& result);
inline constexpr double kDamping = 0.85;
struct PageRankOptions {
  std::uint32_t iterations = 20;
  double tolerance = 0;  // ends when all vertices together change by less; 0: after `iterations`
  double damping = kDamping;  // from 0 to 1
  bool normalized = false;
  // What goes along edges has 4 bytes, as in GAPBS: about six digits of a rank, in less time. For
  // Mode::pull and Mode::automatic, and a graph with edges in; bad_argument otherwise.
  bool single = false;
  // Personalised, and so normalized, if there are some; one that is there twice counts twice. The
  // same on all ranks.
  std::vector<VertexId> sources = {};

  bool is_normalized() const { return normalized || !sources.empty(); }
};

// Community detection by label propagation, as in Graphalytics: every vertex begins with its own id
// as its label; in an iteration all take, at once, the most frequent label of their neighbors, of
// several the smallest. The other ends of all edges out and in are neighbors, so an edge in both
// directions counts twice; a vertex without edges keeps its label.
struct Cdlp {
  explicit Cdlp(const Graph& graph) : label(graph) {}
  OwnedArray<VertexId> label;
  std::uint32_t num_steps = 0;  // fewer than iterations if an iteration changed nothing
};
struct CdlpSummary {
  std::uint64_t communities = 0, largest = 0, sum_labels = 0;
};
WEFT_API CdlpSummary summarize(const Graph& graph, const Cdlp& result);
struct CdlpOptions {
  std::uint32_t iterations = 10;
};

// Local clustering coefficients, as in Graphalytics: of the pairs of different neighbors of a
// vertex, in both orders, the share between which an edge leads from the first to the second; 0
// with fewer than two. Neighbors are the other ends of edges out and in, without the vertex itself;
// edges that are there twice count once.
struct Lcc {
  explicit Lcc(const Graph& graph) : coefficient(graph), searched(graph) {}
  OwnedArray<double> coefficient;     // in a saved state the edges between neighbors, so far
  OwnedArray<std::uint8_t> searched;  // of states: 1 where a vertex's row has been searched
  std::uint32_t num_steps = 1;
};
struct LccSummary {
  double average = 0, largest = 0;
  std::uint64_t clustered = 0;  // vertices that have more than 0
};
WEFT_API LccSummary summarize(const Graph& graph, const Lcc& result);

// Triangles of the simple undirected graph below the graph, as GAPBS counts them: each once.
// Directions, self-loops and edges that are there twice do not matter.
struct Triangles {
  explicit Triangles(const Graph& graph) : of_vertex(graph), searched(graph) {}
  // In how many a vertex is, if asked for; if not, in a saved state three times what a rank has
  // found, at one of its vertices.
  OwnedArray<std::uint64_t> of_vertex;
  OwnedArray<std::uint8_t> searched;  // as Lcc's
  std::uint64_t total = 0;
  std::uint32_t num_steps = 1;
};
struct TriangleOptions {
  bool per_vertex = true;  // takes longer
};

// Core numbers: the largest k such that the vertex is in a part of the graph where each vertex has
// k neighbors, in the same simple undirected graph.
struct KCore {
  explicit KCore(const Graph& graph) : core(graph) {}
  OwnedArray<std::uint32_t> core;
  std::uint32_t num_steps = 0;  // different core numbers
};
inline constexpr std::uint32_t kNoCore = std::numeric_limits<std::uint32_t>::max();  // not yet
struct KCoreSummary {
  std::uint64_t largest = 0, innermost = 0, sum_core = 0;  // innermost: vertices with the largest
};
WEFT_API KCoreSummary summarize(const Graph& graph, const KCore& result);

// Betweenness as GAPBS computes it: for each of some sources, Brandes' dependency of the source on
// every vertex, that is the sum over all other vertices of the share of the shortest paths to them
// that lead over it (all that lead on from a source count for the source as well). These are added
// up and divided by the largest sum, unless BetweennessOptions ask for the sums themselves. Edges
// that are there twice count once, self-loops never.
struct Betweenness {
  explicit Betweenness(const Graph& graph) : score(graph) {}
  OwnedArray<double> score;
  std::uint32_t num_steps = 0;  // sources
};
struct BetweennessSummary {
  std::uint64_t scored = 0;                      // vertices that have more than 0
  std::vector<std::pair<VertexId, double>> top;  // the ten largest
};
WEFT_API BetweennessSummary summarize(const Graph& graph, const Betweenness& result);
struct BetweennessOptions {
  // false: not divided, and a source is on none of the paths from itself, as Brandes and NetworkX
  // define it.
  bool scaled = true;
};

// The algorithms, in options.mode; without edges in, pull is push. wcc saves steps only in mode
// paper: the others are one pass over the edges.
WEFT_API void bfs(const Graph& graph, VertexId source, const RunOptions& options, Bfs& result);
WEFT_API void sssp(const Graph& graph, VertexId source, const RunOptions& options, Sssp& result);
// Throws bad_argument for a damping factor or sources that there are not.
WEFT_API void pagerank(const Graph& graph, const PageRankOptions& rules, const RunOptions& options,
                       PageRank& result);
WEFT_API void wcc(const Graph& graph, const RunOptions& options, Wcc& result);

// These have one way, whatever options.mode is, and throw bad_argument without edges in. Steps of
// lcc and triangles are rounds in which each rank's next rows are searched, as small as they are
// because of saving; those of betweenness are sources.
WEFT_API void cdlp(const Graph& graph, const CdlpOptions& rules, const RunOptions& options,
                   Cdlp& result);
WEFT_API void lcc(const Graph& graph, const RunOptions& options, Lcc& result);
WEFT_API void triangles(const Graph& graph, const TriangleOptions& rules, const RunOptions& options,
                        Triangles& result);
// Also throws unsupported if there are more shortest paths to a vertex than a double can count.
WEFT_API void betweenness(const Graph& graph, std::span<const VertexId> sources,
                          const BetweennessOptions& rules, const RunOptions& options,
                          Betweenness& result);
WEFT_API void kcore(const Graph& graph, const RunOptions& options, KCore& result);

}  // namespace weft::graph
