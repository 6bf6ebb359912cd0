// Community detection by label propagation, as Graphalytics defines it (after Raghavan, Albert,
// Kumara: Near linear time algorithm to detect community structures in large-scale networks, Phys.
// Rev. E 2007, made synchronous and deterministic).
//
// A rank's labels are in memory that the others can read; in an iteration each rank reads those
// of its neighbors once, as in pagerank.cpp. Two such arrays alternate: the sum over ranks of
// changes that ends an iteration is also the barrier between those who read one and those who write
// it next.
#include <bit>
#include <optional>

#include "graph/common/agree.hpp"
#include "graph/common/neighbor_values.hpp"
#include "graph/common/shared_rows.hpp"
#include "graph/common/vertex_blocks.hpp"
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
        neighbors_(graph),
        workers_(static_cast<std::size_t>(graph.num_threads())),
        out_rows_(graph, graph.out()),
        blocks_(graph) {
    if (!graph.undirected()) in_rows_.emplace(graph, graph.in());
  }

  void run(const CdlpOptions& rules, const RunOptions& options) {
    const VertexId first = graph_.first(), last = graph_.last();
    int now = 0;
    for (VertexId v = first; v < last; ++v)
      labels_[now][v] = options.resume_step == 0 ? v : result_.label[v];
    blocks_.open();
    if (graph_.job().size() > 1) throw_if(graph_.job().barrier());
    std::uint64_t num_changed = 1;
    for (result_.num_steps = options.resume_step;
         result_.num_steps < rules.iterations && num_changed > 0;) {
      ++result_.num_steps;
      if (options.progress) options.progress("cdlp", result_.num_steps);
      num_changed = iterate(labels_[now], labels_[1 - now]);
      now = 1 - now;
      // Going on from the last iteration would add one.
      if (!options.saves_after(result_.num_steps) || num_changed == 0) continue;
      std::copy_n(labels_[now].data(), graph_.num_owned(), result_.label.data());
      options.save(result_.num_steps);
    }
    std::copy_n(labels_[now].data(), graph_.num_owned(), result_.label.data());
  }

 private:
  // Returns how many vertices of all ranks have another label.
  std::uint64_t iterate(OwnedArray<VertexId>& from, OwnedArray<VertexId>& to) {
    neighbors_.gather(from);
    const VertexId* const labels = neighbors_.data();
    graph_.team().run([&](int thread) {
      Worker& worker = workers_[static_cast<std::size_t>(thread)];
      worker.num_changed = 0;
      worker.code = blocks_.work(thread, [&](const VertexBlock& block) {
        if (block.owner != graph_.job().rank())
          return vote_for_other(thread, block, labels, to, worker);
        const RowRange in = in_rows_ ? in_rows_->own(block.first) : RowRange{};
        vote(block, out_rows_.own(block.first), in, labels, &to[block.first], worker);
        return Code::ok;
      });
    });
    Total total;
    for (const Worker& worker : workers_) {
      total.num_changed += worker.num_changed;
      if (worker.code != Code::ok) total.num_failed = 1;
    }
    // For the next iteration, if there is one.
    blocks_.open();
    throw_if(graph_.job().all_reduce(total, [](const Total& a, const Total& b) {
      return Total{a.num_changed + b.num_changed, a.num_failed + b.num_failed};
    }));
    if (total.num_failed > 0) {
      Status status;
      for (const Worker& worker : workers_)
        if (worker.code != Code::ok) status = worker.code;
      throw_together(graph_.job(), status);
    }
    return total.num_changed;
  }

  struct alignas(64) Worker {
    Votes votes;
    std::uint64_t num_changed = 0;
    Code code = Code::ok;
    SharedRows::Copy out, in;  // of another rank's block
  };
  // The totals over ranks at an iteration's end.
  struct Total {
    std::uint64_t num_changed = 0, num_failed = 0;
  };

  // The labels of a block's vertices, from those of all vertices. Of an undirected graph the rows
  // in have no edges: those out are all.
  static void vote(const VertexBlock& block, const RowRange& out, const RowRange& in,
                   const VertexId* labels, VertexId* to, Worker& worker) {
    const auto size_of = [](const RowRange& rows, std::size_t i) {
      return rows.offsets == nullptr ? 0 : rows.offsets[i + 1] - rows.offsets[i];
    };
    for (std::size_t i = 0; i < block.size(); ++i) {
      const VertexId old = labels[block.first + i];
      const std::uint64_t num_out = size_of(out, i), num_in = size_of(in, i);
      to[i] = old;
      if (num_out + num_in == 0) continue;
      worker.votes.begin(num_out + num_in);
      for (std::uint64_t e = 0; e < num_out; ++e)
        worker.votes.add(labels[out.vertices[out.offsets[i] + e]]);
      for (std::uint64_t e = 0; e < num_in; ++e)
        worker.votes.add(labels[in.vertices[in.offsets[i] + e]]);
      to[i] = worker.votes.winner();
      worker.num_changed += to[i] != old ? 1 : 0;
    }
  }

  // The same of another rank's vertices.
  Code vote_for_other(int thread, const VertexBlock& block, const VertexId* labels,
                      const OwnedArray<VertexId>& to, Worker& worker) {
    RowRange out, in;
    Code code = out_rows_.read(thread, block.owner, block.first, block.last, worker.out, out);
    if (code == Code::ok && in_rows_)
      code = in_rows_->read(thread, block.owner, block.first, block.last, worker.in, in);
    if (code == Code::ok) code = neighbors_.fetch(thread, block);
    for (const RowRange& rows : {out, in})
      if (code == Code::ok && rows.offsets != nullptr)
        code = neighbors_.fetch(thread, rows.vertices + rows.offsets[0],
                                rows.vertices + rows.offsets[block.size()]);
    if (code != Code::ok) return code;
    VertexId result[VertexBlocks::kSize];
    vote(block, out, in, labels, result, worker);
    return graph_.job().rdma_write(thread, part_of(graph_, to, block), result,
                                   block.size() * sizeof(VertexId));
  }

  const Graph& graph_;
  Cdlp& result_;
  OwnedArray<VertexId> labels_[2];      // before an iteration, and after it
  NeighborValues<VertexId> neighbors_;  // before it
  std::vector<Worker> workers_;         // by thread
  SharedRows out_rows_;
  std::optional<SharedRows> in_rows_;  // where they are others
  VertexBlocks blocks_;
};

}  // namespace

void cdlp(const Graph& graph, const CdlpOptions& rules, const RunOptions& options, Cdlp& result) {
  require_in_edges(graph, "cdlp");
  Propagation(graph, result).run(rules, options);
}

}  // namespace weft::graph
