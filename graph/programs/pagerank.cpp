// PageRank by pull: an owner adds up, over a vertex's edges in, the shares of their sources. The
// shares of a rank's own vertices are in memory that the others can read; in an iteration each rank
// reads those of its edges once (neighbor_values.hpp). Two such arrays alternate, so that one
// barrier an iteration is enough: a slow rank still reads one while a fast rank writes the other.
// In single precision they have half the size, which is most of what an iteration reads.
//
// A rank that is done takes over blocks of vertices of others (vertex_blocks.hpp), and writes the
// new values into their owners' arrays.
#include <cmath>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"
#include "graph/common/neighbor_values.hpp"
#include "graph/common/shared_rows.hpp"
#include "graph/common/vertex_blocks.hpp"
#include "restart.hpp"

namespace weft::graph {
namespace {

// Value: of what goes along edges; sums are doubles in any case.
template <class Value>
class Puller {
 public:
  Puller(const Graph& graph, const PageRankOptions& rules, PageRank& result)
      : graph_(graph),
        result_(result),
        restart_(graph, rules),
        given_{OwnedArray<Value>(graph), OwnedArray<Value>(graph)},
        neighbors_(graph),
        scale_(graph),
        workers_(static_cast<std::size_t>(graph.num_threads())),
        rows_(graph, graph.in()),
        blocks_(graph) {}

  void run(const PageRankOptions& rules, const RunOptions& options) {
    for_owned([&](VertexId v) {
      const std::uint64_t degree = graph_.out_degree(v);
      scale_[v] = static_cast<Value>(degree > 0 ? 1 / static_cast<double>(degree) : 0);
      if (options.resume_step == 0) result_.rank[v] = restart_.begin(v);
      given_[options.resume_step % 2][v] = static_cast<Value>(result_.rank[v] * scale_[v]);
    });
    double change = std::numeric_limits<double>::infinity();
    for (result_.num_steps = options.resume_step;
         result_.num_steps < rules.iterations && change >= rules.tolerance;) {
      const int now = static_cast<int>(result_.num_steps % 2);
      ++result_.num_steps;
      if (options.progress) options.progress("pagerank", result_.num_steps);
      if (several_) {
        blocks_.open();
        throw_if(graph_.job().barrier());
      }
      neighbors_.gather(given_[now]);
      const bool spreads = restart_.spreads();
      if (spreads) restart_.set_dangling(dangling());
      const bool saves = options.saves_after(result_.num_steps);
      // A vertex without incoming edges is the same in all iterations, and in both arrays after
      // two, if it gets nothing from those without outgoing ones.
      const bool all = spreads || result_.num_steps <= options.resume_step + 2;
      const bool keeps = spreads || saves || result_.num_steps == rules.iterations;
      change = rules.tolerance > 0 ? iterate<true, true>(now, true)
               : keeps             ? iterate<false, true>(now, true)
                                   : iterate<false, false>(now, all);
      // Going on from the last iteration would add one.
      if (!saves || change < rules.tolerance) continue;
      // Others may still be writing ranks of vertices that they took over.
      if (several_) throw_if(graph_.job().barrier());
      options.save(result_.num_steps);
    }
    // The arrays stay until all ranks have read and written them.
    if (several_) throw_if(graph_.job().barrier());
  }

 private:
  template <class Visit>
  void for_owned(Visit&& visit) {
    for_ranges([&](VertexId first, VertexId last, int) {
      for (VertexId v = first; v < last; ++v) visit(v);
    });
  }
  // Each thread keeps its vertices where possible, as their values are in its caches.
  template <class Visit>
  void for_ranges(Visit&& visit) {
    detail::WorkCounter work(graph_.num_owned(),
                             {.schedule = Schedule::steal, .grain = VertexBlocks::kSize},
                             graph_.num_threads());
    graph_.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        visit(static_cast<VertexId>(graph_.first() + begin),
              static_cast<VertexId>(graph_.first() + end), thread);
      });
    });
  }

  // What vertices without outgoing edges have, in all ranks together. The ranks were kept; no rank
  // takes vertices over before all have come to the sum.
  double dangling() {
    for (Worker& worker : workers_) worker = {};
    for_ranges([&](VertexId first, VertexId last, int thread) {
      double sum = 0;
      for (VertexId v = first; v < last; ++v) sum += scale_[v] == 0 ? result_.rank[v] : 0;
      workers_[static_cast<std::size_t>(thread)].change += sum;
    });
    double sum = 0;
    for (const Worker& worker : workers_) sum += worker.change;
    throw_if(graph_.job().all_reduce(sum, std::plus<>()));
    return sum;
  }

  // Four sums at a time, as an addition waits for the one before it longer than for its value.
  static double sum_of(const Value* given, const VertexId* from, const VertexId* end) {
    double sums[4] = {};
    for (; end - from >= 4; from += 4)
      for (int i = 0; i < 4; ++i) sums[i] += given[from[i]];
    for (; from != end; ++from) sums[0] += given[*from];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  // The values of some vertices, or copies of another rank's.
  struct Values {
    const Value* scale;
    double* rank;
    Value* next;
  };

  // kChange: how much all changed is asked for; kKeep: the ranks are. Without `all`, what has no
  // edges in is left as it is.
  template <bool kChange, bool kKeep>
  double iterate(int now, bool all) {
    const Value* const given = neighbors_.data();
    OwnedArray<Value>& next = given_[1 - now];
    for (Worker& worker : workers_) worker = {};
    const auto update_own = [&](VertexId first, VertexId last, int thread) {
      const Values values{&scale_[first], &result_.rank[first], &next[first]};
      workers_[static_cast<std::size_t>(thread)].change +=
          update<kChange, kKeep>(rows_.own(first), first, last, given, values, all);
    };
    if (!several_) {
      for_ranges(update_own);
    } else {
      graph_.team().run([&](int thread) {
        SharedRows::Copy copy;
        Worker& worker = workers_[static_cast<std::size_t>(thread)];
        worker.code = blocks_.work(thread, [&](const VertexBlock& block) {
          if (block.owner == graph_.job().rank()) {
            update_own(block.first, block.last, thread);
            return Code::ok;
          }
          return update_other<kChange, kKeep>(thread, block, given, next, copy, worker.change);
        });
      });
      for (const Worker& worker : workers_)
        if (worker.code != Code::ok && worker.code != Code::peer_lost) throw Error(worker.code);
    }
    if constexpr (!kChange) return std::numeric_limits<double>::infinity();
    double sum = 0;
    for (const Worker& worker : workers_) sum += worker.change;
    throw_if(graph_.job().all_reduce(sum, std::plus<>()));
    return sum;
  }

  // Returns how much the vertices changed.
  template <bool kChange, bool kKeep>
  double update(const RowRange& rows, VertexId first, VertexId last, const Value* given,
                const Values& values, bool all) const {
    double change = 0;
    for (VertexId i = 0; i < last - first; ++i) {
      const std::uint64_t begin = rows.offsets[i], end = rows.offsets[i + 1];
      if (begin == end && !all) continue;
      const double value =
          restart_.of(first + i) +
          restart_.damping() * sum_of(given, rows.vertices + begin, rows.vertices + end);
      if constexpr (kChange) change += std::abs(value - values.rank[i]);
      if constexpr (kKeep) values.rank[i] = value;
      values.next[i] = static_cast<Value>(value * values.scale[i]);
    }
    return change;
  }

  // The same of another rank's vertices.
  template <bool kChange, bool kKeep>
  Code update_other(int thread, const VertexBlock& block, const Value* given,
                    const OwnedArray<Value>& next, SharedRows::Copy& copy, double& change) {
    RowRange rows;
    if (const Code code = rows_.read(thread, block.owner, block.first, block.last, copy, rows);
        code != Code::ok)
      return code;
    const VertexId* const from = rows.vertices;
    if (const Code code =
            neighbors_.fetch(thread, from + rows.offsets[0], from + rows.offsets[block.size()]);
        code != Code::ok)
      return code;
    const std::size_t bytes = block.size() * sizeof(Value);
    const std::size_t rank_bytes = block.size() * sizeof(double);
    Value scale[VertexBlocks::kSize], result[VertexBlocks::kSize];
    double rank[VertexBlocks::kSize];
    transport::Job& job = graph_.job();
    const auto rank_part = part_of(graph_, result_.rank, block);
    Code code = job.rdma_read(thread, part_of(graph_, scale_, block), scale, bytes);
    if (kChange && code == Code::ok) code = job.rdma_read(thread, rank_part, rank, rank_bytes);
    if (code != Code::ok) return code;
    change +=
        update<kChange, kKeep>(rows, block.first, block.last, given, {scale, rank, result}, true);
    code = job.rdma_write(thread, part_of(graph_, next, block), result, bytes);
    if (kKeep && code == Code::ok) code = job.rdma_write(thread, rank_part, rank, rank_bytes);
    return code;
  }

  struct alignas(64) Worker {
    double change = 0;  // of its vertices, or what those without outgoing edges have
    Code code = Code::ok;
  };
  const Graph& graph_;
  PageRank& result_;
  const bool several_ = graph_.job().size() > 1;
  Restart restart_;
  // The share that a vertex gives along each edge, in this iteration and the next.
  OwnedArray<Value> given_[2];
  NeighborValues<Value> neighbors_;  // of this iteration
  OwnedArray<Value> scale_;          // 1 / edges out
  std::vector<Worker> workers_;      // by thread
  SharedRows rows_;
  VertexBlocks blocks_;
};

}  // namespace

void pagerank(const Graph& graph, const PageRankOptions& rules, const RunOptions& options,
              PageRank& result) {
  const bool pulls =
      graph.has_in_edges() && (options.mode == Mode::pull || options.mode == Mode::automatic);
  if (pulls && rules.single)
    Puller<float>(graph, rules, result).run(rules, options);
  else if (pulls)
    Puller<double>(graph, rules, result).run(rules, options);
  else if (rules.single)
    throw Error({Code::bad_argument,
                 "pagerank: single precision is for graphs with edges in, and Mode::pull or "
                 "Mode::automatic"});
  else
    paper_pagerank(graph, rules, options, result);
}

}  // namespace weft::graph
