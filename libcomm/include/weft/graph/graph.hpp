#pragma once
// Graph: this process's part of a graph that is spread over the ranks of a job, and how it is
// loaded.
//
// Vertices are 0 ... num_vertices() - 1. Rank r owns the vertices cut()[r] ... cut()[r + 1] - 1 and
// all edges that leave them, in compressed rows (CSR). Vertices of others are known here as
// mirrors. After loadGraph a Graph is constant; any thread may read it.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/buffer.hpp"
#include "weft/graph/names.hpp"
#include "weft/graph/reach.hpp"
#include "weft/graph/row_cache.hpp"
#include "weft/graph/team.hpp"
#include "weft/graph/types.hpp"
#include "weft/job.hpp"

namespace weft::graph {

enum class FileFormat {
  automatic,        // of a file that is read, by its content; of one that is written, by its name
  paper_binary,     // u32 source, u32 destination, u32 value
  gemini_binary,    // u32 source, u32 destination
  gemini_weighted,  // u32 source, u32 destination, f32 weight
  edge_list,        // lines "source destination [weight] [ignored]"; # and % begin comments
  weighted_edge_list,  // lines "source destination weight"
  matrix_market,       // coordinate, any field, square, general, symmetric or hermitian
  dimacs,              // of the shortest paths challenge: lines "a source destination weight"
  metis,               // and DIMACS 10: for each vertex a line of its neighbours, from 1
};

enum class Weights {
  none,  // every edge weighs 1 and no memory is spent on it
  file,  // the weights of the file, whole numbers; 1 if its format has none
  hash,  // 1 to 255 by a hash of the two end points, the same in both directions
  real,  // those of the file, with fractions, as floats: real_weight()
};

// The weight by hash, as in docs/use/graph.md.
constexpr Weight hash_weight(std::uint64_t u, std::uint64_t v) noexcept {
  const std::uint64_t a = u < v ? u : v;
  const std::uint64_t b = u < v ? v : u;
  std::uint64_t z = a * 0x9E3779B97F4A7C15ull + b * 0xD1342543DE82EF95ull + 0x2545F4914F6CDD1Dull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<Weight>(1 + z % 255);
}

struct LoadOptions {
  FileFormat format = FileFormat::automatic;
  Weights weights = Weights::none;
  bool undirected = false;  // every edge also leads back; a self-loop stays one edge
  bool in_edges = false;    // a second copy of the edges, by destination, for pulling
  // Other ranks can read this one's rows of edges, which migration needs. Memory that hosts share
  // is in small pages, so rows are found faster without.
  bool remote_rows = true;
  double alpha = 1;          // of the partition's F: a vertex's weight; 0: max(1, |E| / |V|)
  int threads = 0;           // of this process; 0: its share of the host's cores
  bool bind_threads = true;  // to cores of their own, if there are as many
  bool equal_cut = false;    // as many vertices for every rank, whatever their edges
  // Edges of each rank against the others', for ranks of different speed; one number a rank, all
  // above 0. Empty: the partition's cut.
  std::vector<double> shares = {};
  // Rows are read from GRAPH.weft-cache, if that is of the present file and has all that is wanted;
  // otherwise it is written.
  bool cache = false;
  // For graphs that memory does not hold: rows stay in GRAPH.weft-cache, as with `cache`, and the
  // kernel reads them as they are used. Where the cache is missing it is written in parts. Other
  // ranks cannot read rows for migration.
  bool stream = false;
  // Memory, in each rank, for the part of the rows that is made at a time for such a cache; 0: half
  // of what is left.
  std::uint64_t part_bytes = 0;
  // What the program's arrays take: bytes for each vertex that a rank owns, and for each vertex of
  // the graph in every rank. Whether memory suffices is checked with them before rows are made.
  std::uint32_t bytes_per_owned = 0, bytes_per_vertex = 0;
  // More files of edges of the same graph.
  std::vector<std::string> more_files = {};
  // Of a table: "source,destination[,weight]", by name or by number from 1. Empty: by names that
  // are known, or the first two.
  std::string columns = {};
  // With Weights::file: they are multiplied by it and rounded to the nearest whole number; with 1
  // what is no whole number is refused.
  double weight_scale = 1;
  // The vertices of an edge list or a table are any words, and get numbers in their order;
  // Graph::names() has them.
  bool named = false;
  // The file of names that "weft-graph convert --names" wrote beside the graph. Empty: none.
  std::string names = {};
  // Called about once a second, by rank 0, with a share between 0 and 1. May be empty.
  std::function<void(const char* what, double share)> progress = nullptr;
  // Called by rank 0 with what the user should know of how the file is read, and with `stream` of
  // the memory it takes. May be empty.
  std::function<void(const std::string& text)> note = nullptr;
};

// A vertex's edges out, for loops: `for (const auto& [vertex, weight] : edges)`.
class Neighbors {
 public:
  struct Edge {
    VertexId vertex;
    Weight weight;
  };
  class Iterator {
   public:
    Iterator(const VertexId* vertex, const Weight* weight) : vertex_(vertex), weight_(weight) {}
    Edge operator*() const noexcept { return {*vertex_, weight_ == nullptr ? 1 : *weight_}; }
    Iterator& operator++() noexcept {
      ++vertex_;
      if (weight_ != nullptr) ++weight_;
      return *this;
    }
    bool operator!=(const Iterator& other) const noexcept { return vertex_ != other.vertex_; }

   private:
    const VertexId* vertex_;
    const Weight* weight_;  // null: every edge weighs 1
  };

  Neighbors(const VertexId* vertices, const Weight* weights, std::uint64_t size) noexcept
      : vertices_(vertices), weights_(weights), size_(size) {}
  std::uint64_t size() const noexcept { return size_; }
  Iterator begin() const noexcept { return {vertices_, weights_}; }
  Iterator end() const noexcept { return {vertices_ + size_, weights_}; }
  const VertexId* vertices() const noexcept { return vertices_; }
  const Weight* weights() const noexcept { return weights_; }

 private:
  const VertexId* vertices_;
  const Weight* weights_;
  std::uint64_t size_;
};

// Edges in compressed rows, one for each of the rank's vertices.
struct Rows {
  Buffer<std::uint64_t> offsets;  // one more than rows
  Buffer<VertexId> vertices;      // the edges' other ends
  Buffer<Weight> weights;         // empty: every edge weighs 1
  // The vertices are those of all ranks' rows, in a file, and offsets count from its first edge.
  bool whole = false;

  std::uint64_t degree(VertexId row) const noexcept { return offsets[row + 1] - offsets[row]; }
  Neighbors row(VertexId row) const noexcept {
    const std::uint64_t begin = offsets[row];
    return {vertices.data() + begin, weights.empty() ? nullptr : weights.data() + begin,
            offsets[row + 1] - begin};
  }
};

// Facts on the edges of all ranks, by which programs choose their algorithm.
struct EdgeFacts {
  double largest_weight = 1;
  // Edges out of the vertex that an edge leaves, in the mean over all edges: 4 on a grid, hundreds
  // on graphs that have hubs.
  double mean_degree = 0;
};

// The migrations since the graph was loaded, in this rank; any thread adds.
struct MigrationCounts {
  std::atomic<std::uint64_t> tasks{0};      // of other ranks, done here
  std::atomic<std::uint64_t> rows_read{0};  // of edges, from their owners; the others were cached
};

class WEFT_API Graph {
 public:
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;

  transport::Job& job() const noexcept { return *job_; }
  Team& team() const noexcept { return *team_; }
  int num_threads() const noexcept { return team_->size(); }
  VertexId num_vertices() const noexcept { return num_vertices_; }
  std::uint64_t num_edges() const noexcept {
    return num_edges_;
  }  // of all ranks, with mirrored ones
  bool undirected() const noexcept { return undirected_; }
  bool has_real_weights() const noexcept { return has_real_weights_; }  // floats
  const EdgeFacts& edge_facts() const noexcept { return edge_facts_; }
  // In rank 0, the names of the vertices; null: they have none, and in other ranks.
  const VertexNames* names() const noexcept { return names_.get(); }

  const std::vector<VertexId>& cut() const noexcept { return cut_; }  // one more than ranks
  VertexId first() const noexcept { return first_; }
  VertexId last() const noexcept { return last_; }  // one behind this rank's vertices
  VertexId num_owned() const noexcept { return last_ - first_; }
  bool owns(VertexId vertex) const noexcept { return vertex - first_ < last_ - first_; }
  int owner(VertexId vertex) const noexcept;
  // Where its own vertices are, and the other ends of its edges out and in.
  const Reach& reach() const noexcept { return reach_; }

  // Of the rank's own vertices; rows are counted from first().
  const Rows& out() const noexcept { return out_; }
  bool has_in_edges() const noexcept { return undirected_ || !in_.offsets.empty(); }
  const Rows& in() const noexcept { return undirected_ ? out_ : in_; }
  std::uint64_t out_degree(VertexId vertex) const noexcept { return out_.degree(vertex - first_); }
  Neighbors out_edges(VertexId vertex) const noexcept { return out_.row(vertex - first_); }

  bool has_remote_rows() const noexcept { return !remote_out_.empty(); }
  // Reads the edges out of another rank's vertex from its memory, if it has remote rows. Any
  // thread, with its own number; as Job::rdma_read.
  Code read_row(int owner, int thread, VertexId vertex, RowCache::Row& row) const;
  RowCache& row_cache() const noexcept { return *row_cache_; }
  MigrationCounts& migration_counts() const noexcept { return *migration_counts_; }

 private:
  friend class Loader;
  Graph() = default;

  // The location of a rank's rows.
  struct RemoteRows {
    transport::RemoteMemory offsets, vertices, weights;
  };

  transport::Job* job_ = nullptr;
  std::unique_ptr<Team> team_;
  VertexId num_vertices_ = 0;
  std::uint64_t num_edges_ = 0;
  bool undirected_ = false, has_real_weights_ = false;
  EdgeFacts edge_facts_;
  std::shared_ptr<VertexNames> names_;
  std::vector<VertexId> cut_;
  VertexId first_ = 0, last_ = 0;
  Reach reach_;
  Rows out_, in_;
  std::vector<RemoteRows> remote_out_;  // of all ranks; empty in a job of one and if not wanted
  std::unique_ptr<RowCache> row_cache_ = std::make_unique<RowCache>();
  std::unique_ptr<MigrationCounts> migration_counts_ = std::make_unique<MigrationCounts>();
};

// Loads the graph of a file that every rank can read, of the files of a folder, of Graphalytics'
// pair (.v, .e), or of rank 0's standard input ("-"). Collective, with the same arguments but for
// `threads`; blocks until all have their parts. Throws weft::Error, the same on all ranks:
// not_found (no such file, or not readable), corrupt (with the reason, and the line or byte),
// no_memory (with the size needed), peer_lost.
WEFT_API Graph loadGraph(transport::Job& job, const std::string& path,  // NOLINT: the paper's name
                         const LoadOptions& options = {});

// The partition's cut (section 3 of the RGraph paper) for `num_parts` parts of vertices with these
// degrees: from `cut` (num_parts + 1 boundaries), boundaries move while that lowers the sum over
// parts of alpha * |vertices - average| + |edges - average|, which is returned.
WEFT_API double refine_cut(std::span<const std::uint32_t> degrees, double alpha,
                           std::vector<VertexId>& cut);
// The same sum, of a cut as it is.
WEFT_API double cut_imbalance(std::span<const std::uint32_t> degrees, double alpha,
                              const std::vector<VertexId>& cut);
// Parts with edges in proportion to `shares`, as near as whole vertices allow; none is empty.
WEFT_API std::vector<VertexId> shared_cut(std::span<const std::uint32_t> degrees,
                                          std::span<const double> shares);
// Gemini's: parts are filled one after the other with their share of alpha * vertices + edges.
WEFT_API std::vector<VertexId> greedy_cut(std::span<const std::uint32_t> degrees, double alpha,
                                          int num_parts);

}  // namespace weft::graph
