// Weakly connected components by union-find, after Afforest (Sutton, Ben-Nun, Barak: Optimizing
// Parallel Graph Connectivity Computation via Subgraph Sampling, IPDPS 2018).
//
// Every rank keeps parents for the vertices that it has edges of; parents are never larger than
// their children, so a root is the smallest vertex of its tree. First the first edges of each
// vertex are linked. Then the component that most vertices are in is guessed from a sample, by rank
// 0 for all, and only vertices outside of it link their other edges, out and in. An edge is skipped
// only if both its ends are connected to the same vertex, as all ranks use the same guess. Without
// edges in, all edges out are linked.
//
// Last, the ranks' trees are merged in pairs. A vertex of one rank's reach alone can be connected
// with others only over its root there, so ranks tell each other the roots of the vertices that
// several have: a rank reads its partner's parents of these, and of the roots that the partner has
// been told, and links each vertex to its parent; after log2(ranks) rounds rank 0 knows how all
// trees are connected, and every rank looks for its roots there. That goes by blocks of vertices,
// of which the pages are touched.
//
// With several ranks an array has how far a parent is below its child, so that memory which nobody
// has touched is right.
#include <unordered_map>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

constexpr std::uint64_t kFirstEdges = 2;
constexpr std::size_t kSample = 1024;
constexpr std::size_t kParentsAtOnce = std::size_t{1} << 16;

template <bool kAlone>
class Forest {
 public:
  Forest(const Graph& graph, const RunOptions& options, Wcc& result)
      : graph_(graph),
        options_(options),
        result_(result),
        shared_(graph.num_threads() > 1),
        several_(&graph.job(), kAlone ? 0 : graph.num_vertices()),
        parents_(kAlone ? result.component.data() : several_.data()),
        reach_(graph.reach()) {
    if constexpr (!kAlone) throw_if(graph.job().all_gather(several_.remote(), remotes_));
  }

  std::uint32_t run() {
    const VertexId first = graph_.first(), last = graph_.last();
    // What a state has joined needs to be found no more: alone it is where the trees are.
    if (kAlone && options_.resume_step == 0)
      for_vertices(first, last, [&](VertexId v) { parents_[v] = v; });
    if (!kAlone && options_.resume_step > 0)
      for_vertices(first, last, [&](VertexId v) {
        link(v, result_.component[v]);
        reach_.add(result_.component[v]);
      });
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
    if constexpr (kAlone)
      compress(first, last);
    else
      num_steps += merge();
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

  // A parent as it stands in the array, and the other way round.
  static VertexId coded(VertexId v, VertexId parent) { return kAlone ? parent : v - parent; }
  VertexId parent(VertexId v) const { return coded(v, atomic_read(parents_[v])); }
  VertexId root(VertexId v) const {
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
          parents_[high] = coded(high, low);
          return;
        }
        if (atomic_claim(parents_[high], coded(high, high), coded(high, low))) return;
      }
      a = parent(parent(high));
      b = parent(low);
    }
  }

  void compress(VertexId v) {
    const VertexId top = root(v);
    // Most stay as they are, and their cache lines clean.
    if (parent(v) != top)
      std::atomic_ref(parents_[v]).store(coded(v, top), std::memory_order_relaxed);
  }
  void compress(VertexId first, VertexId last) {
    for_vertices(first, last, [&](VertexId v) { compress(v); });
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
    if constexpr (kAlone) return common;
    std::vector<VertexId> all;
    throw_if(graph_.job().all_gather(common, all));
    return all[0];
  }

  // Blocks of which at least two ranks have some vertex.
  Reach common_blocks() const {
    struct Having {
      std::uint64_t one = 0, several = 0;
    };
    const std::vector<std::uint64_t>& mine = reach_.words();
    std::vector<Having> all(mine.size());
    for (std::size_t w = 0; w < mine.size(); ++w) all[w].one = mine[w];
    throw_if(graph_.job().all_reduce(std::span(all), [](const Having& a, const Having& b) {
      return Having{a.one | b.one, a.several | b.several | (a.one & b.one)};
    }));
    Reach blocks(graph_.num_vertices());
    for (std::size_t w = 0; w < mine.size(); ++w) blocks.words()[w] = all[w].several;
    return blocks;
  }

  // Reads the owner's coded parents of the blocks, a piece at a time: visit(first, its parents).
  template <class Visit>
  Code read(std::size_t owner, const Reach& blocks, Visit&& visit) {
    Code failed = Code::ok;
    std::vector<VertexId> piece;
    blocks.for_each(0, graph_.num_vertices(), [&](VertexId first, VertexId last) {
      for (VertexId at = first; at < last && failed == Code::ok;) {
        piece.resize(std::min<std::size_t>(kParentsAtOnce, last - at));
        const std::size_t bytes = piece.size() * sizeof(VertexId);
        failed = graph_.job().rdma_read(
            0, remotes_[owner].part(std::uint64_t{at} * sizeof(VertexId), bytes), piece.data(),
            bytes);
        if (failed == Code::ok) visit(at, piece);
        at += static_cast<VertexId>(piece.size());
      }
    });
    return failed;
  }

  std::uint32_t merge() {
    transport::Job& job = graph_.job();
    const auto rank = static_cast<std::size_t>(job.rank());
    const auto size = static_cast<std::size_t>(job.size());
    // What this rank tells of: of what it has itself, and of what others have told it.
    Reach told = common_blocks();
    for (std::size_t w = 0; w < told.words().size(); ++w) told.words()[w] &= reach_.words()[w];
    Buffer<std::uint64_t> published(&job, told.words().size());
    std::vector<transport::RemoteMemory> theirs;
    throw_if(job.all_gather(published.remote(), theirs));
    Reach others(graph_.num_vertices());
    const auto read_blocks = [&](std::size_t owner) {
      return job.rdma_read(0, theirs[owner], others.words().data(), others.words().size() * 8);
    };
    std::uint32_t num_rounds = 0;
    Code failed = Code::ok;
    for (std::size_t step = 1; step < size; step *= 2, ++num_rounds) {
      if (rank % (2 * step) == step) publish(told, published);
      throw_if(job.barrier());
      if (rank % (2 * step) != 0 || rank + step >= size || failed != Code::ok) continue;
      failed = read_blocks(rank + step);
      if (failed != Code::ok) continue;
      failed = read(rank + step, others, [&](VertexId first, const std::vector<VertexId>& parents) {
        for (std::size_t i = 0; i < parents.size(); ++i) {
          const auto v = static_cast<VertexId>(first + i);
          if (parents[i] == 0 || parents[i] > v) continue;
          link(v, v - parents[i]);
          told.add(v);
          told.add(v - parents[i]);
        }
      });
    }
    if (rank == 0) publish(told, published);
    throw_if(job.barrier());
    for_vertices(graph_.first(), graph_.last(),
                 [&](VertexId v) { result_.component[v] = root(v); });
    if (rank != 0 && failed == Code::ok) failed = read_blocks(0);
    if (rank != 0 && failed == Code::ok) failed = look_up(others);
    throw_together(job, failed);
    return num_rounds + 1;
  }

  void publish(const Reach& told, Buffer<std::uint64_t>& published) {
    for_vertices(0, static_cast<VertexId>(told.num_blocks()), [&](VertexId block) {
      if (!told.has_block(block)) return;
      const std::size_t first = std::size_t{block} * Reach::kBlock;
      const std::size_t last = std::min<std::size_t>(first + Reach::kBlock, graph_.num_vertices());
      for (std::size_t v = first; v < last; ++v) compress(static_cast<VertexId>(v));
    });
    std::copy(told.words().begin(), told.words().end(), published.begin());
  }

  // Replaces the roots that this rank has found by theirs in rank 0, which knows these blocks.
  Code look_up(Reach& known) {
    Reach wanted(graph_.num_vertices());
    for_vertices(graph_.first(), graph_.last(),
                 [&](VertexId v) { wanted.add(result_.component[v]); });
    for (std::size_t w = 0; w < wanted.words().size(); ++w) wanted.words()[w] &= known.words()[w];
    // The trees here have served.
    const Code code = read(0, wanted, [&](VertexId first, const std::vector<VertexId>& parents) {
      for (std::size_t i = 0; i < parents.size(); ++i)
        parents_[first + i] = parents[i] <= first + i ? parents[i] : 0;
    });
    if (code != Code::ok) return code;
    for_vertices(graph_.first(), graph_.last(), [&](VertexId v) {
      const VertexId found = result_.component[v];
      if (wanted.has(found)) result_.component[v] = parent(found);
    });
    return Code::ok;
  }

  const Graph& graph_;
  const RunOptions& options_;
  Wcc& result_;
  bool shared_;
  Buffer<VertexId> several_;  // of all vertices, in a job of several ranks
  std::vector<transport::RemoteMemory> remotes_;
  VertexId* parents_;  // those, or the result's memory
  Reach reach_;        // the blocks of all that is linked
};

}  // namespace

void wcc(const Graph& graph, const RunOptions& options, Wcc& result) {
  if (options.mode == Mode::paper)
    paper_wcc(graph, options, result);
  else
    result.num_steps = graph.job().size() == 1 ? Forest<true>(graph, options, result).run()
                                               : Forest<false>(graph, options, result).run();
}

}  // namespace weft::graph
