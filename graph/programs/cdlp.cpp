// Community detection by label propagation, as Graphalytics defines it (after Raghavan, Albert,
// Kumara: Near linear time algorithm to detect community structures in large-scale networks, Phys.
// Rev. E 2007, made synchronous and deterministic).
//
// A rank's labels are in memory that the others can read; in an iteration each rank reads all of
// them once, as in pagerank.cpp. Two such arrays alternate: the sum over ranks of changes that ends
// an iteration is also the barrier between those who read one and those who write it next.
#include <bit>

#include "graph/common/agree.hpp"
#include "graph/common/gather.hpp"
#include "graph/programs/require.hpp"
#include "weft/graph/algorithms.hpp"

namespace weft::graph {
namespace {

// The most frequent of some labels; of several the smallest. A table with open addressing.
class Votes {
 public:
  // For up to so many labels.
  void begin(std::uint64_t num_labels) {
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(4, num_labels * 2));
    if (table_.size() < size) table_.resize(size);
    std::fill_n(table_.begin(), size, Entry{});
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
    mask_ = size - 1;
    best_ = {};
  }
  void add(VertexId label) {
    std::size_t at = (std::uint64_t{label} * 0x9E3779B97F4A7C15ull) >> shift_;
    while (table_[at].count != 0 && table_[at].label != label) at = (at + 1) & mask_;
    Entry& entry = table_[at];
    entry.label = label;
    ++entry.count;
    if (entry.count > best_.count || (entry.count == best_.count && label < best_.label))
      best_ = entry;
  }
  VertexId winner() const { return best_.label; }

 private:
  struct Entry {
    VertexId label = 0;
    std::uint64_t count = 0;
  };
  std::vector<Entry> table_;
  unsigned shift_ = 0;
  std::size_t mask_ = 0;
  Entry best_;
};

class Propagation {
 public:
  Propagation(const Graph& graph, Cdlp& result)
      : graph_(graph),
        result_(result),
        labels_{OwnedArray<VertexId>(graph), OwnedArray<VertexId>(graph)},
        all_(nullptr, graph.job().size() > 1 ? graph.num_vertices() : 0),
        workers_(static_cast<std::size_t>(graph.num_threads())) {}

  void run(const CdlpOptions& rules, const RunOptions& options) {
    const VertexId first = graph_.first(), last = graph_.last();
    int now = 0;
    for (VertexId v = first; v < last; ++v)
      labels_[now][v] = options.resume_step == 0 ? v : result_.label[v];
    if (graph_.job().size() > 1) throw_if(graph_.job().barrier());
    std::uint64_t num_changed = 1;
    for (result_.num_steps = options.resume_step;
         result_.num_steps < rules.iterations && num_changed > 0;) {
      ++result_.num_steps;
      if (options.progress) options.progress("cdlp", result_.num_steps);
      num_changed = iterate(labels_[now], labels_[1 - now]);
      now = 1 - now;
      if (!options.saves_after(result_.num_steps)) continue;
      std::copy_n(labels_[now].data(), graph_.num_owned(), result_.label.data());
      options.save(result_.num_steps);
    }
    std::copy_n(labels_[now].data(), graph_.num_owned(), result_.label.data());
  }

 private:
  // Returns how many vertices of all ranks have another label.
  std::uint64_t iterate(OwnedArray<VertexId>& from, OwnedArray<VertexId>& to) {
    if (!all_.empty()) gather_all(graph_, from, all_);
    const VertexId* const labels = all_.empty() ? from.data() : all_.data();
    const VertexId first = graph_.first();
    for (Worker& worker : workers_) worker.num_changed = 0;
    detail::WorkCounter work(graph_.num_owned(), {.schedule = Schedule::steal, .grain = 64},
                             graph_.num_threads());
    graph_.team().run([&](int thread) {
      Worker& worker = workers_[static_cast<std::size_t>(thread)];
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i) {
          const auto v = static_cast<VertexId>(first + i);
          const VertexId label = vote(v, labels, worker.votes);
          worker.num_changed += label != labels[v] ? 1 : 0;
          to[v] = label;
        }
      });
    });
    std::uint64_t sum = 0;
    for (const Worker& worker : workers_) sum += worker.num_changed;
    throw_if(graph_.job().all_reduce(sum, std::plus<>()));
    return sum;
  }

  // `labels` are those of all vertices: in a job of one the first vertex is 0.
  VertexId vote(VertexId v, const VertexId* labels, Votes& votes) const {
    const VertexId row = v - graph_.first();
    const Neighbors out = graph_.out().row(row);
    const bool both = !graph_.undirected();
    const Neighbors in = both ? graph_.in().row(row) : Neighbors(nullptr, nullptr, 0);
    if (out.size() + in.size() == 0) return labels[v];
    votes.begin(out.size() + in.size());
    for (const auto& edge : out) votes.add(labels[edge.vertex]);
    for (const auto& edge : in) votes.add(labels[edge.vertex]);
    return votes.winner();
  }

  struct alignas(64) Worker {
    Votes votes;
    std::uint64_t num_changed = 0;
  };
  const Graph& graph_;
  Cdlp& result_;
  OwnedArray<VertexId> labels_[2];  // before an iteration, and after it
  Buffer<VertexId> all_;            // of all vertices before it; empty in a job of one
  std::vector<Worker> workers_;     // by thread
};

}  // namespace

void cdlp(const Graph& graph, const CdlpOptions& rules, const RunOptions& options, Cdlp& result) {
  require_in_edges(graph, "cdlp");
  Propagation(graph, result).run(rules, options);
}

}  // namespace weft::graph
