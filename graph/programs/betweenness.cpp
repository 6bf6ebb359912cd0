// Betweenness by Brandes' algorithm (A faster algorithm for betweenness centrality, J. Mathematical
// Sociology 2001), from some vertices, as in GAPBS.
//
// From a source, the vertices of one depth after the other give their numbers of shortest paths
// along their edges out; what is first reached by that is the next depth. Then, from the last depth
// to the first, each vertex gives the paths to it and beyond, by its number of paths, along its
// edges in. Only the owner knows the depth of a vertex: it takes what vertices next to it give, and
// drops the rest. An edge to a vertex of depth d begins at depth d - 1 or behind, so those that are
// at d - 1 get from depth d what is for them alone. In a job of one, where all depths are known,
// the vertices at d - 1 look for it along their edges out instead, which needs no atomic sums. So
// do, of an undirected graph, those that are not reached yet, where they have fewer edges than
// those that give.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <utility>

#include "graph/common/agree.hpp"
#include "graph/programs/add_to_owners.hpp"
#include "graph/programs/require.hpp"
#include "weft/graph/algorithms.hpp"

namespace weft::graph {
namespace {

// The rank's rows with each edge once, without self-loops.
class SimpleRows {
 public:
  SimpleRows(const Graph& graph, const Rows& rows)
      : first_(graph.first()),
        begins_(rows.offsets),
        ends_(nullptr, graph.num_owned()),
        vertices_(nullptr, rows.vertices.size()) {
    detail::WorkCounter work(graph.num_owned(), {.grain = 64}, graph.num_threads());
    graph.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t first, std::uint64_t last) {
        for (std::uint64_t i = first; i < last; ++i) {
          VertexId* const begin = vertices_.data() + begins_[i];
          VertexId* end = std::remove_copy(rows.vertices.data() + begins_[i],
                                           rows.vertices.data() + begins_[i + 1], begin,
                                           static_cast<VertexId>(first_ + i));
          if (!std::is_sorted(begin, end)) std::sort(begin, end);
          end = std::unique(begin, end);
          ends_[i] = static_cast<std::uint64_t>(end - vertices_.data());
        }
      });
    });
    for (VertexId v = first_; v < graph.last(); ++v) num_edges_ += row(v).size();
  }
  std::uint64_t num_edges() const { return num_edges_; }
  std::span<const VertexId> row(VertexId v) const {
    const std::uint64_t begin = begins_[v - first_];
    return {vertices_.data() + begin, ends_[v - first_] - begin};
  }

 private:
  VertexId first_;
  std::uint64_t num_edges_ = 0;
  const Buffer<std::uint64_t>& begins_;  // the graph's
  Buffer<std::uint64_t> ends_;
  Buffer<VertexId> vertices_;
};

class Brandes {
 public:
  Brandes(const Graph& graph, Betweenness& result)
      : graph_(graph),
        result_(result),
        out_(graph, graph.out()),
        sums_(graph, 0),
        touched_(graph),
        depth_(nullptr, graph.num_owned()),
        num_paths_(nullptr, graph.num_owned()),
        beyond_(nullptr, graph.num_owned()),
        given_(nullptr, graph.num_owned()),
        finds_(static_cast<std::size_t>(graph.num_threads())) {
    if (!alone_ && !graph.undirected()) in_.emplace(graph, graph.in());
  }

  void add(VertexId source, bool counts_itself) {
    search(source);
    for (std::size_t depth = begins_.size() - 1; depth-- > 1;) {
      for_depth(depth,
                [&](int, VertexId v) { given_[at(v)] = (1 + beyond_[at(v)]) / num_paths_[at(v)]; });
      const auto before = static_cast<std::uint32_t>(depth - 1);
      if (alone_) {
        collect(before);
        continue;
      }
      spread(
          depth, in_ ? *in_ : out_, given_, [&](VertexId v) { return depth_[at(v)] == before; },
          [&](int, VertexId v, double sum) { beyond_[at(v)] = num_paths_[at(v)] * sum; });
    }
    for (const VertexId v : order_)
      if (v != source || counts_itself) result_.score[v] += beyond_[at(v)];
  }

  // By the largest score of all ranks.
  void normalize() {
    double largest = 0;
    for (VertexId v = graph_.first(); v < graph_.last(); ++v)
      largest = std::max(largest, result_.score[v]);
    throw_if(graph_.job().all_reduce(largest, transport::Max()));
    if (largest == 0) return;
    for (VertexId v = graph_.first(); v < graph_.last(); ++v) result_.score[v] /= largest;
  }

 private:
  std::size_t at(VertexId v) const { return v - graph_.first(); }

  // The rank's vertices in the order of their depths, with how many shortest paths lead to them.
  void search(VertexId source) {
    std::fill(depth_.begin(), depth_.end(), kUnreached);
    std::fill(beyond_.begin(), beyond_.end(), 0);
    order_.clear();
    begins_ = {0};
    std::uint64_t edges_given = 0, edges_left = out_.num_edges();
    if (graph_.owns(source)) {
      edges_given = out_.row(source).size();
      depth_[at(source)] = 0;
      num_paths_[at(source)] = 1;
      order_.push_back(source);
    }
    begins_.push_back(order_.size());
    for (std::uint32_t depth = 0;; ++depth) {
      const auto take = [&](int thread, VertexId v, double sum) {
        Finds& finds = finds_[static_cast<std::size_t>(thread)];
        // Others may look at it in pull().
        std::atomic_ref(depth_[at(v)]).store(depth + 1, std::memory_order_relaxed);
        num_paths_[at(v)] = sum;
        finds.vertices.push_back(v);
        finds.edges += out_.row(v).size();
        finds.too_many += std::isfinite(sum) ? 0 : 1;
      };
      edges_left -= edges_given;
      if (alone_ && graph_.undirected() && edges_given > edges_left)
        pull(depth, take);
      else
        spread(
            depth, out_, num_paths_, [&](VertexId v) { return depth_[at(v)] == kUnreached; }, take);
      std::uint64_t too_many = 0;
      edges_given = 0;
      for (Finds& finds : finds_) {
        order_.insert(order_.end(), finds.vertices.begin(), finds.vertices.end());
        finds.vertices.clear();
        too_many += finds.too_many;
        edges_given += std::exchange(finds.edges, 0);
      }
      std::uint64_t sums[] = {order_.size() - begins_.back(), too_many};
      throw_if(graph_.job().all_reduce(std::span(sums), std::plus<>()));
      if (sums[1] > 0)
        throw Error({Code::unsupported, "betweenness: more shortest paths lead from vertex " +
                                            std::to_string(source) +
                                            " to another than a double can count"});
      if (sums[0] == 0) return;
      begins_.push_back(order_.size());
    }
  }

  // visit(thread, v) for the rank's vertices of a depth.
  template <class Visit>
  void for_depth(std::size_t depth, Visit&& visit) {
    const std::size_t begin = begins_[depth];
    detail::WorkCounter work(begins_[depth + 1] - begin, {.grain = 16}, graph_.num_threads());
    graph_.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t first, std::uint64_t last) {
        for (std::uint64_t i = first; i < last; ++i) visit(thread, order_[begin + i]);
      });
    });
  }

  // Vertices of a depth give given[v] along the rows; take(thread, v, sum) is called for the rank's
  // vertices that get something and of which takes(v) is true.
  template <class Takes, class Take>
  void spread(std::size_t depth, const SimpleRows& rows, const Buffer<double>& given, Takes&& takes,
              Take&& take) {
    for_depth(depth, [&](int, VertexId v) {
      const double mine = given[at(v)];
      for (const VertexId to : rows.row(v)) {
        if (graph_.owns(to) && !takes(to)) continue;
        atomic_add(sums_[to], mine);
        touched_.insert(to);
      }
    });
    add_to_owners(graph_, sums_, touched_);
    // Threads' parts begin with words of the set.
    const std::uint64_t first_word = graph_.first() / 64,
                        end_word = (std::uint64_t{graph_.last()} + 63) / 64;
    detail::WorkCounter work(end_word - first_word, {.grain = 64}, graph_.num_threads());
    graph_.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        const std::uint64_t first = (first_word + begin) * 64, last = (first_word + end) * 64;
        touched_.for_each(std::max(graph_.first(), static_cast<VertexId>(first)),
                          static_cast<VertexId>(std::min<std::uint64_t>(graph_.last(), last)),
                          [&](VertexId v) {
                            if (takes(v)) take(thread, v, sums_[v]);
                            sums_[v] = 0;
                          });
      });
    });
    touched_.clear();
  }

  // In a job of one: take(thread, v, sum) for vertices that are not reached yet and have neighbors
  // of this depth, with their numbers of paths.
  template <class Take>
  void pull(std::uint32_t depth, Take&& take) {
    detail::WorkCounter work(graph_.num_owned(), {.grain = 256}, graph_.num_threads());
    graph_.team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t first, std::uint64_t last) {
        for (std::uint64_t i = first; i < last; ++i) {
          if (depth_[i] != kUnreached) continue;
          const auto v = static_cast<VertexId>(graph_.first() + i);
          double sum = 0;
          for (const VertexId from : out_.row(v))
            if (std::atomic_ref(depth_[at(from)]).load(std::memory_order_relaxed) == depth)
              sum += num_paths_[at(from)];
          if (sum > 0) take(thread, v, sum);
        }
      });
    });
  }

  // In a job of one: what vertices of a depth get from those of the next.
  void collect(std::uint32_t depth) {
    for_depth(depth, [&](int, VertexId v) {
      double sum = 0;
      for (const VertexId to : out_.row(v))
        if (depth_[at(to)] == depth + 1) sum += given_[at(to)];
      beyond_[at(v)] = num_paths_[at(v)] * sum;
    });
  }

  struct alignas(64) Finds {
    std::vector<VertexId> vertices;  // of the next depth
    std::uint64_t edges = 0;         // of these
    std::uint64_t too_many = 0;      // of them, to which more paths lead than a double can count
  };
  const Graph& graph_;
  Betweenness& result_;
  const bool alone_ = graph_.job().size() == 1;
  SimpleRows out_;
  std::optional<SimpleRows> in_;     // of a directed graph in a job of several
  VertexArray<double> sums_;         // what vertices get
  VertexSet touched_;                // those that get something
  Buffer<std::uint32_t> depth_;      // of own vertices, as the next two
  Buffer<double> num_paths_;         // from the source
  Buffer<double> beyond_;            // of all that is reached over a vertex, its share
  Buffer<double> given_;             // along each edge that leads to a vertex
  std::vector<Finds> finds_;         // by thread
  std::vector<VertexId> order_;      // own vertices that were reached, by their depth
  std::vector<std::size_t> begins_;  // of each depth in it
};

}  // namespace

void betweenness(const Graph& graph, std::span<const VertexId> sources,
                 const BetweennessOptions& rules, const RunOptions& options, Betweenness& result) {
  require_in_edges(graph, "betweenness");
  if (options.resume_step == 0) std::fill_n(result.score.data(), graph.num_owned(), 0);
  Brandes brandes(graph, result);
  for (result.num_steps = options.resume_step; result.num_steps < sources.size();) {
    const VertexId source = sources[result.num_steps++];
    if (options.progress) options.progress("betweenness", result.num_steps);
    brandes.add(source, rules.scaled);
    if (result.num_steps < sources.size() && options.saves_after(result.num_steps))
      options.save(result.num_steps);
  }
  if (rules.scaled) brandes.normalize();
}

}  // namespace weft::graph
