// Core numbers, by removing vertices (Matula, Beck: Smallest-last ordering and clustering and graph
// coloring algorithms, J. ACM 1983). In a step k is the least number of neighbors that a vertex has
// left; those that have no more are removed and have core number k, and their neighbors lose one,
// until all have more than k.
//
// A thread goes on at once with a vertex of its rank that falls to k. What vertices of other ranks
// lose is added up, and sent when no thread has anything left; a step ends when that removes none.
// The order of removal does not matter for core numbers.
#include "graph/common/agree.hpp"
#include "graph/programs/add_to_owners.hpp"
#include "graph/programs/require.hpp"
#include "graph/programs/simple_row.hpp"
#include "weft/graph/algorithms.hpp"

namespace weft::graph {
namespace {

class Peeling {
 public:
  Peeling(const Graph& graph, KCore& result)
      : graph_(graph),
        result_(result),
        left_(nullptr, graph.num_owned()),
        lost_(graph, 0),
        touched_(graph),
        workers_(static_cast<std::size_t>(graph.num_threads())) {}

  void run(const RunOptions& options) {
    begin(options.resume_step);
    for (result_.num_steps = options.resume_step;;) {
      VertexId k = kNoVertex;
      for (const VertexId v : alive_) k = std::min(k, left(v));
      throw_if(graph_.job().all_reduce(k, transport::Min()));
      if (k == kNoVertex) break;
      ++result_.num_steps;
      if (options.progress) options.progress("kcore", result_.num_steps);
      going_.clear();
      for (const VertexId v : alive_)
        if (left(v) <= k) mark(v, k, going_);
      remove(k);
      std::erase_if(alive_, [&](VertexId v) { return result_.core[v] != kNoCore; });
      if (options.saves_after(result_.num_steps)) options.save(result_.num_steps);
    }
  }

 private:
  struct alignas(64) Worker {
    SimpleRow row;
    std::vector<VertexId> stack;
  };

  VertexId& left(VertexId v) { return left_[v - graph_.first()]; }
  void mark(VertexId v, VertexId k, std::vector<VertexId>& going) {
    result_.core[v] = static_cast<std::uint32_t>(k);
    going.push_back(v);
  }

  // Counts neighbors. What a checkpoint has removed is removed again, after which all others have
  // more left than the largest core number so far, as a step had ended.
  void begin(std::uint32_t resume_step) {
    for_each(graph_.num_owned(), [&](Worker& worker, std::uint64_t i) {
      const auto v = static_cast<VertexId>(graph_.first() + i);
      worker.row.fill(graph_, v);
      left_[i] = static_cast<VertexId>(worker.row.vertices().size());
      if (resume_step == 0) result_.core[v] = kNoCore;
    });
    std::uint32_t reached = 0;
    for (VertexId v = graph_.first(); v < graph_.last(); ++v) {
      const std::uint32_t core = result_.core[v];
      (core == kNoCore ? alive_ : going_).push_back(v);
      if (core != kNoCore) reached = std::max(reached, core);
    }
    if (resume_step == 0) return;
    throw_if(graph_.job().all_reduce(reached, transport::Max()));
    remove(reached);
    std::erase_if(alive_, [&](VertexId v) { return result_.core[v] != kNoCore; });
  }

  // visit(worker, i) for i from 0, on all threads.
  template <class Visit>
  void for_each(std::uint64_t size, Visit&& visit) {
    detail::WorkCounter work(size, {.grain = 16}, graph_.num_threads());
    graph_.team().run([&](int thread) {
      Worker& worker = workers_[static_cast<std::size_t>(thread)];
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i) visit(worker, i);
      });
    });
  }

  // Removes what is going, on all ranks, and what falls to k by that.
  void remove(VertexId k) {
    for (;;) {
      for_each(going_.size(), [&](Worker& worker, std::uint64_t i) {
        worker.stack.push_back(going_[i]);
        while (!worker.stack.empty()) {
          const VertexId v = worker.stack.back();
          worker.stack.pop_back();
          worker.row.fill(graph_, v);
          for (const VertexId u : worker.row.vertices()) take_one(u, k, worker.stack);
        }
      });
      going_.clear();
      if (graph_.job().size() == 1) return;
      add_to_owners(graph_, lost_, touched_);
      touched_.for_each(graph_.first(), graph_.last(), [&](VertexId v) {
        const VertexId before = left(v);
        left(v) -= lost_[v];
        lost_[v] = 0;
        if (before > k && left(v) <= k && result_.core[v] == kNoCore) mark(v, k, going_);
      });
      touched_.clear();
      std::uint64_t num_going = going_.size();
      throw_if(graph_.job().all_reduce(num_going, std::plus<>()));
      if (num_going == 0) return;
    }
  }

  void take_one(VertexId u, VertexId k, std::vector<VertexId>& stack) {
    if (!graph_.owns(u)) {
      atomic_add(lost_[u], VertexId{1});
      touched_.insert(u);
      return;
    }
    // One thread alone sees it fall to k; of those that a checkpoint has removed none is counted.
    const VertexId before = std::atomic_ref(left(u)).fetch_sub(1, std::memory_order_relaxed);
    if (std::uint64_t{before} == std::uint64_t{k} + 1 && result_.core[u] == kNoCore)
      mark(u, k, stack);
  }

  const Graph& graph_;
  KCore& result_;
  Buffer<VertexId> left_;        // neighbors of each own vertex that are not removed
  VertexArray<VertexId> lost_;   // neighbors that vertices of other ranks have lost
  VertexSet touched_;            // those with some
  std::vector<VertexId> alive_;  // own vertices
  std::vector<VertexId>
      going_;  // own vertices that are removed, whose neighbors have not lost them
  std::vector<Worker> workers_;  // by thread
};

}  // namespace

void kcore(const Graph& graph, const RunOptions& options, KCore& result) {
  require_in_edges(graph, "kcore");
  Peeling(graph, result).run(options);
}

}  // namespace weft::graph
