// Weakly connected components by union-find, after Afforest (Sutton, Ben-Nun, Barak: Optimizing
// Parallel Graph Connectivity Computation via Subgraph Sampling, IPDPS 2018).
//
// Every rank keeps a parent for each vertex of the graph; parents are never larger than their
// children, so a root is the smallest vertex of its tree. First the first edges of each vertex are
// linked. Then the component that most vertices are in is guessed from a sample, by rank 0 for all,
// and only vertices outside of it link their other edges, out and in. An edge is skipped only if
// both its ends are connected to the same vertex, as all ranks use the same guess. Without edges
// in, all edges out are linked.
//
// Last, the ranks' trees are merged in pairs: a rank reads its partner's parents and links each
// vertex to its parent there; after log2(ranks) rounds rank 0 has them all, and every rank reads
// its own part.
#include <optional>
#include <unordered_map>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

constexpr std::uint64_t kFirstEdges = 2;
constexpr std::size_t kSample = 1024;
constexpr std::size_t kParentsAtOnce = std::size_t{1} << 16;  // parents read at once

class Forest {
 public:
  Forest(const Graph& graph, const RunOptions& options, Wcc& result)
      : graph_(graph),
        options_(options),
        result_(result),
        alone_(graph.job().size() == 1),
        shared_(graph.num_threads() > 1) {
    if (alone_) {
      parents_ = result.component.data();
    } else {
      all_parents_.emplace(graph, 0);
      all_parents_->remotes();
      parents_ = all_parents_->data();
    }
  }

  std::uint32_t run() {
    const VertexId first = graph_.first(), last = graph_.last();
    // What a state has joined needs to be found no more: alone it is where the trees are.
    if (!alone_ || options_.resume_step == 0)
      for_vertices(0, graph_.num_vertices(), [&](VertexId v) { parents_[v] = v; });
    if (!alone_ && options_.resume_step > 0)
      for_vertices(first, last, [&](VertexId v) { link(v, result_.component[v]); });
    const bool sampled = graph_.has_in_edges() && options_.mode != Mode::push;
    if (sampled) {
      for (std::uint64_t edge = 0; edge < kFirstEdges; ++edge) {
        link_first(edge, edge + 1);
        compress(first, last);
      }
    } else {
      link_first(0, ~std::uint64_t{0});
      compress(first, last);
    }
    std::uint32_t num_steps = 1;
    if (sampled) {
      ++num_steps;
      // Trees are flat, and one that is joined by another meanwhile is only looked at once more.
      const VertexId common = root(guess());
      for_vertices(first, last, [&](VertexId v) {
        if (parent(v) == common) return;
        link_row(graph_.out().row(v - first), v, kFirstEdges, ~std::uint64_t{0});
        if (!graph_.undirected()) link_row(graph_.in().row(v - first), v, 0, ~std::uint64_t{0});
      });
    }
    if (alone_) {
      compress(first, last);
    } else {
      num_steps += merge();
      for_vertices(first, last, [&](VertexId v) { result_.component[v] = root(v); });
    }
    return num_steps;
  }

 private:
  template <class Visit>
  void for_vertices(VertexId first, VertexId last, Visit&& visit) {
    detail::WorkCounter work(last - first, {.schedule = Schedule::steal, .grain = 1024},
                             graph_.num_threads());
    graph_.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i) visit(static_cast<VertexId>(first + i));
      });
    });
  }

  VertexId parent(VertexId v) {
    return std::atomic_ref(parents_[v]).load(std::memory_order_relaxed);
  }
  VertexId root(VertexId v) {
    for (VertexId up; (up = parent(v)) != v;) v = up;
    return v;
  }

  void link_row(const Neighbors& edges, VertexId v, std::uint64_t begin, std::uint64_t end) {
    end = std::min(end, edges.size());
    for (std::uint64_t e = begin; e < end; ++e) link(v, edges.vertices()[e]);
  }

  // The first edges of each vertex. Few are taken of a row, so the time is that of its way to the
  // cache, and of the way of the first neighbor's parent.
  void link_first(std::uint64_t begin, std::uint64_t end) {
    constexpr VertexId kAhead = 16, kNext = 8;
    const VertexId first = graph_.first(), last = graph_.last();
    const Rows& rows = graph_.out();
    for_vertices(first, last, [&](VertexId v) {
      const VertexId row = v - first;
      if (last - v > kAhead) {
        __builtin_prefetch(rows.vertices.data() + rows.offsets[row + kAhead]);
        if (rows.degree(row + kNext) > begin)
          __builtin_prefetch(parents_ + rows.vertices[rows.offsets[row + kNext] + begin]);
      }
      const std::uint64_t row_end = rows.offsets[row] + std::min(end, rows.degree(row));
      for (std::uint64_t e = rows.offsets[row] + begin; e < row_end; ++e) link(v, rows.vertices[e]);
    });
  }

  // Links the larger of two roots below the smaller.
  void link(VertexId u, VertexId v) {
    VertexId a = parent(u), b = parent(v);
    while (a != b) {
      const VertexId high = std::max(a, b), low = std::min(a, b);
      const VertexId above = parent(high);
      if (above == low) return;
      if (above == high) {
        if (!shared_) {
          parents_[high] = low;
          return;
        }
        if (atomic_claim(parents_[high], high, low)) return;
      }
      a = parent(parent(high));
      b = parent(low);
    }
  }

  void compress(VertexId first, VertexId last) {
    for_vertices(first, last, [&](VertexId v) {
      const VertexId top = root(v);
      // Most stay as they are, and their cache lines clean.
      if (parent(v) != top) std::atomic_ref(parents_[v]).store(top, std::memory_order_relaxed);
    });
  }

  // A vertex that many of rank 0's are connected with.
  VertexId guess() {
    VertexId common = 0;
    if (graph_.job().rank() == 0) {
      std::unordered_map<VertexId, std::size_t> counts;
      std::uint64_t place = 0;
      for (std::size_t i = 0; i < kSample; ++i) {
        place = place * 6364136223846793005ull + 1442695040888963407ull;
        ++counts[root(static_cast<VertexId>(graph_.first() + (place >> 33) % graph_.num_owned()))];
      }
      std::size_t most = 0;
      for (const auto& [vertex, count] : counts)
        if (count > most) {
          most = count;
          common = vertex;
        }
    }
    if (graph_.job().size() == 1) return common;
    std::vector<VertexId> all;
    throw_if(graph_.job().all_gather(common, all));
    return all[0];
  }

  Code read_parents(std::size_t owner, VertexId first, std::vector<VertexId>& piece) {
    const std::size_t bytes = piece.size() * sizeof(VertexId);
    return graph_.job().rdma_read(
        0, all_parents_->remotes()[owner].part(std::uint64_t{first} * sizeof(VertexId), bytes),
        piece.data(), bytes);
  }

  std::uint32_t merge() {
    const auto rank = static_cast<std::size_t>(graph_.job().rank());
    const auto size = static_cast<std::size_t>(graph_.job().size());
    const VertexId num_vertices = graph_.num_vertices();
    std::vector<VertexId> piece;
    std::uint32_t num_rounds = 0;
    Code failed = Code::ok;
    const auto read = [&](std::size_t owner, VertexId first, VertexId last, auto&& visit) {
      for (VertexId at = first; at < last && failed == Code::ok;) {
        piece.resize(std::min<std::size_t>(kParentsAtOnce, last - at));
        failed = read_parents(owner, at, piece);
        for (std::size_t i = 0; i < piece.size() && failed == Code::ok; ++i, ++at)
          if (piece[i] < num_vertices) visit(at, piece[i]);
      }
    };
    for (std::size_t step = 1; step < size; step *= 2, ++num_rounds) {
      throw_if(graph_.job().barrier());
      if (rank % (2 * step) == 0 && rank + step < size)
        read(rank + step, 0, num_vertices, [&](VertexId v, VertexId above) {
          if (above != v) link(v, above);
        });
    }
    if (rank == 0) compress(0, num_vertices);
    throw_if(graph_.job().barrier());
    if (rank != 0)
      read(0, graph_.first(), graph_.last(), [&](VertexId v, VertexId above) {
        final_.push_back(above);
        (void)v;
      });
    throw_together(graph_.job(), failed);
    // Roots may be vertices of other ranks, whose parents here are not final.
    if (rank != 0)
      for (std::size_t i = 0; i < final_.size(); ++i) {
        parents_[static_cast<VertexId>(graph_.first() + i)] = final_[i];
        parents_[final_[i]] = final_[i];
      }
    return num_rounds + 1;
  }

  const Graph& graph_;
  const RunOptions& options_;
  Wcc& result_;
  bool alone_, shared_;
  std::optional<VertexArray<VertexId>> all_parents_;  // in a job of several ranks
  VertexId* parents_;            // of all vertices: those, or the result's memory
  std::vector<VertexId> final_;  // of this rank's vertices, from rank 0
};

}  // namespace

void wcc(const Graph& graph, const RunOptions& options, Wcc& result) {
  if (options.mode == Mode::paper)
    paper_wcc(graph, options, result);
  else
    result.num_steps = Forest(graph, options, result).run();
}

}  // namespace weft::graph
