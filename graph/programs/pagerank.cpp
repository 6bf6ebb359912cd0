// PageRank by pull: an owner adds up, over a vertex's edges in, the shares of their sources. The
// shares of a rank's own vertices are in memory that the others can read; in an iteration each rank
// reads all of them once. Two such arrays alternate, so that one barrier an iteration is enough: a
// slow rank still reads one while a fast rank writes the other.
#include <cmath>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"
#include "graph/common/gather.hpp"

namespace weft::graph {
namespace {

class Puller {
 public:
  Puller(const Graph& graph, PageRank& result)
      : graph_(graph),
        result_(result),
        given_{OwnedArray<double>(graph), OwnedArray<double>(graph)},
        all_(nullptr, graph.job().size() > 1 ? graph.num_vertices() : 0),
        scale_(nullptr, graph.num_owned()),
        changes_(static_cast<std::size_t>(graph.num_threads())) {}

  void run(const PageRankOptions& rules, const RunOptions& options) {
    const VertexId first = graph_.first();
    for_owned([&](VertexId v, std::size_t) {
      const std::uint64_t degree = graph_.out_degree(v);
      scale_[v - first] = degree > 0 ? 1 / static_cast<double>(degree) : 0;
      if (options.resume_step == 0) result_.rank[v] = 1;
      given_[options.resume_step % 2][v] = result_.rank[v] * scale_[v - first];
    });
    double change = std::numeric_limits<double>::infinity();
    for (result_.num_steps = options.resume_step;
         result_.num_steps < rules.iterations && change >= rules.tolerance;) {
      const int now = static_cast<int>(result_.num_steps % 2);
      ++result_.num_steps;
      if (options.progress) options.progress("pagerank", result_.num_steps);
      if (graph_.job().size() > 1) {
        throw_if(graph_.job().barrier());
        gather_all(graph_, given_[now], all_);
      }
      const bool saves = options.saves_after(result_.num_steps);
      // A vertex without incoming edges is the same in all iterations, and in both arrays after
      // two.
      const bool all = result_.num_steps <= options.resume_step + 2;
      change = rules.tolerance > 0                              ? iterate<true, true>(now, true)
               : saves || result_.num_steps == rules.iterations ? iterate<false, true>(now, true)
                                                                : iterate<false, false>(now, all);
      if (saves) options.save(result_.num_steps);
    }
    // The arrays stay until all ranks have read them.
    if (graph_.job().size() > 1) throw_if(graph_.job().barrier());
  }

 private:
  template <class Visit>
  void for_owned(Visit&& visit) {
    // Each thread keeps its vertices where possible, as their values are in its caches.
    detail::WorkCounter work(graph_.num_owned(), {.schedule = Schedule::steal, .grain = 512},
                             graph_.num_threads());
    graph_.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i)
          visit(static_cast<VertexId>(graph_.first() + i), static_cast<std::size_t>(thread));
      });
    });
  }

  // Four sums at a time, as an addition waits for the one before it longer than for its value.
  static double sum_of(const double* given, const VertexId* from, const VertexId* end) {
    double sums[4] = {};
    for (; end - from >= 4; from += 4)
      for (int i = 0; i < 4; ++i) sums[i] += given[from[i]];
    for (; from != end; ++from) sums[0] += given[*from];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  // kChange: how much all changed is asked for; kKeep: the ranks are. Without `all`, what has no
  // edges in is left as it is.
  template <bool kChange, bool kKeep>
  double iterate(int now, bool all) {
    const VertexId first = graph_.first();
    const Rows& in = graph_.in();
    const double* const given = all_.empty() ? given_[now].data() : all_.data();
    double* const next = given_[1 - now].data();
    for (Change& change : changes_) change.sum = 0;
    for_owned([&](VertexId v, std::size_t thread) {
      const std::uint64_t begin = in.offsets[v - first], end = in.offsets[v - first + 1];
      if (begin == end && !all) return;
      const double sum = sum_of(given, in.vertices.data() + begin, in.vertices.data() + end);
      const double value = 1 - kDamping + kDamping * sum;
      if constexpr (kChange) changes_[thread].sum += std::abs(value - result_.rank[v]);
      if constexpr (kKeep) result_.rank[v] = value;
      next[v - first] = value * scale_[v - first];
    });
    if constexpr (!kChange) return std::numeric_limits<double>::infinity();
    double sum = 0;
    for (const Change& change : changes_) sum += change.sum;
    throw_if(graph_.job().all_reduce(sum, std::plus<>()));
    return sum;
  }

  struct alignas(64) Change {
    double sum = 0;
  };
  const Graph& graph_;
  PageRank& result_;
  // The share that a vertex gives along each edge, in this iteration and the next.
  OwnedArray<double> given_[2];
  Buffer<double> all_;           // what all vertices give in this iteration; empty in a job of one
  Buffer<double> scale_;         // 1 / edges out
  std::vector<Change> changes_;  // by thread
};

}  // namespace

void pagerank(const Graph& graph, const PageRankOptions& rules, const RunOptions& options,
              PageRank& result) {
  if (graph.has_in_edges() && (options.mode == Mode::pull || options.mode == Mode::automatic))
    Puller(graph, result).run(rules, options);
  else
    paper_pagerank(graph, rules, options, result);
}

}  // namespace weft::graph
