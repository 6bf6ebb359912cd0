// Breadth-first search that changes direction (Beamer, Asanovic, Patterson: Direction-Optimizing
// Breadth-First Search, SC 2012), over several ranks.
//
// A step goes top-down or bottom-up. Top-down, the vertices of the frontier claim their neighbors:
// one of another rank is remembered as seen, and sent to its owner once in the whole search.
// Bottom-up, every vertex without a parent searches its edges in for one in the frontier; for that
// each rank reads the other ranks' parts of the frontier's bits. Bottom-up is faster while the
// frontier has many edges compared with the unvisited rest. Without edges in, all steps are
// top-down. In a bottom-up step a rank that is done takes over blocks of vertices of others
// (vertex_blocks.hpp).
//
// The two bitmaps of the frontier alternate: the sum at a step's end guarantees that the bits of
// all ranks are complete, and that no rank still reads those of the step before.
//
// On graphs with long paths a step's synchronization costs more than its work. After kMaxSteps the
// search continues as shortest paths with weights of 1, in which a rank proceeds with tentative
// depths and corrects them later; one more pass over all edges then finds the parents. Of a state
// saved meanwhile depths without a parent are tentative: lengths of paths, which may not be the
// shortest.
#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "algorithms.hpp"
#include "delta_stepping.hpp"
#include "graph/common/agree.hpp"
#include "graph/common/shared_rows.hpp"
#include "graph/common/vertex_blocks.hpp"

namespace weft::graph {
namespace {

constexpr std::uint64_t kAlpha = 15, kBeta = 18;  // as in that paper
constexpr std::uint32_t kMaxSteps = 24;           // twice what small-world graphs need

struct Found {
  VertexId vertex, parent;
};

template <bool kAlone>
class Search {
 public:
  Search(const Graph& graph, const RunOptions& options, Bfs& result)
      : graph_(graph),
        options_(options),
        result_(result),
        first_(graph.first()),
        num_owned_(graph.num_owned()),
        shared_(graph.num_threads() > 1),
        queue_(std::make_unique_for_overwrite<VertexId[]>(num_owned_)),
        next_queue_(std::make_unique_for_overwrite<VertexId[]>(num_owned_)),
        bits_{FrontierBits(graph), FrontierBits(graph)},
        seen_(graph),
        ended_(static_cast<std::size_t>(graph.num_threads())) {
    if constexpr (!kAlone)
      exchange_ = std::make_unique<transport::Exchange<Found>>(graph.job(), graph.num_threads());
    if (!goes_bottom_up()) return;
    in_rows_.emplace(graph, graph.in());
    blocks_.emplace(graph);
  }

  void run(VertexId source) {
    if (options_.resume_step == 0) {
      start(source);
    } else {
      const std::uint32_t final_depth = last_final_depth(graph_, result_);
      resume(final_depth);
      if (final_depth < options_.resume_step) {
        finish_by_paths(final_depth);
        return;
      }
    }
    for (bool bottom_up = false;;) {
      ++result_.num_steps;
      if (options_.progress) options_.progress("bfs", result_.num_steps);
      const std::uint64_t before = total_.vertices;
      if (bottom_up)
        step_bottom_up();
      else
        step_top_down();
      finish_step(bottom_up);
      if (total_.vertices == 0) return;
      if (options_.saves_after(result_.num_steps)) {
        options_.save(result_.num_steps);
        // In a bottom-up step others write into the result, which this rank may still be saving.
        if constexpr (!kAlone) throw_if(graph_.job().barrier());
      }
      edges_left_ -= std::min(edges_left_, total_.edges);
      const bool was = bottom_up;
      if (bottom_up)
        bottom_up = total_.vertices >= before || total_.vertices > graph_.num_vertices() / kBeta;
      else
        bottom_up = goes_bottom_up() && total_.edges > edges_left_ / kAlpha;
      if (was && !bottom_up) queue_from_bits();
      if (!was && bottom_up) bits_from_queue();
      if constexpr (!kAlone) {
        if (!bottom_up && result_.num_steps >= kMaxSteps) {
          finish_by_paths(result_.num_steps);
          return;
        }
      }
    }
  }

 private:
  // The frontier as bits, which other ranks can read.
  struct FrontierBits {
    explicit FrontierBits(const Graph& graph)
        : words(&graph.job(), static_cast<std::size_t>(graph.num_vertices()) / 64 + 1) {
      if constexpr (!kAlone) throw_if(graph.job().all_gather(words.remote(), remotes));
    }
    bool contains(VertexId v) const { return (words[v / 64] >> v % 64 & 1) != 0; }
    Buffer<std::uint64_t> words;
    std::vector<transport::RemoteMemory> remotes;
  };
  bool goes_bottom_up() const { return graph_.has_in_edges() && options_.mode != Mode::push; }

  // The vertices found in a step, and, top-down, the edges out of them.
  struct Total {
    std::uint64_t vertices = 0, edges = 0, failures = 0;
  };

  void start(VertexId source) {
    result_.num_steps = 0;
    edges_left_ = graph_.num_edges();
    const auto threads = static_cast<std::uint64_t>(graph_.num_threads());
    graph_.team().run([&](int t) {
      const std::uint64_t begin = num_owned_ * static_cast<std::uint64_t>(t) / threads;
      const std::uint64_t end = num_owned_ * (static_cast<std::uint64_t>(t) + 1) / threads;
      std::fill(result_.parent.data() + begin, result_.parent.data() + end, kNoVertex);
      std::fill(result_.depth.data() + begin, result_.depth.data() + end, kUnreached);
    });
    queue_size_ = 0;
    seen_.clear();
    if (!graph_.owns(source)) return;
    result_.parent[source] = source;
    result_.depth[source] = 0;
    queue_[0] = source;
    queue_size_ = 1;
  }

  // Resumes from the depths and parents of an earlier run. Its messages are sent again, and the
  // owners ignore them.
  void resume(std::uint32_t final_depth) {
    result_.num_steps = options_.resume_step;
    queue_size_ = 0;
    seen_.clear();
    std::uint64_t edges = 0;
    for (VertexId v = first_; v < graph_.last(); ++v) {
      if (result_.depth[v] == kUnreached) continue;
      edges += graph_.out_degree(v);
      if (result_.depth[v] >= final_depth) queue_[queue_size_++] = v;
    }
    throw_if(graph_.job().all_reduce(edges, std::plus<>()));
    edges_left_ = graph_.num_edges() - edges;
    // The first step is top-down, which needs no totals of a step before.
    total_ = {};
  }

  // The vertices that a thread has found, appended to the next queue in blocks.
  class Finds {
   public:
    explicit Finds(Search& search) : search_(search) {}
    void add(VertexId v, std::uint64_t degree) {
      buffer_[size_++] = v;
      edges_ += degree;
      if (size_ == kSize) flush();
    }
    void flush() {
      const std::uint64_t at = search_.next_size_.fetch_add(size_, std::memory_order_relaxed);
      std::copy_n(buffer_, size_, search_.next_queue_.get() + at);
      size_ = 0;
    }
    ~Finds() {
      flush();
      search_.next_edges_.fetch_add(edges_, std::memory_order_relaxed);
    }
    Finds(const Finds&) = delete;
    Finds& operator=(const Finds&) = delete;

   private:
    static constexpr std::size_t kSize = 512;
    Search& search_;
    std::size_t size_ = 0;
    std::uint64_t edges_ = 0;
    VertexId buffer_[kSize];
  };

  // kShared: other threads claim at the same time.
  template <bool kShared>
  void claim(VertexId v, VertexId parent, Finds& finds) {
    VertexId& mine = result_.parent[v];
    if constexpr (kShared) {
      if (!atomic_claim(mine, kNoVertex, parent)) return;
    } else {
      if (mine != kNoVertex) return;
      mine = parent;
    }
    result_.depth[v] = result_.num_steps;
    finds.add(v, graph_.out_degree(v));
  }

  void step_top_down() {
    const std::uint64_t size = queue_size_;
    // Few vertices are not worth waking the others.
    const bool by_one = !shared_ || (kAlone && size < 256);
    detail::WorkCounter work(size, options_.step, by_one ? 1 : graph_.num_threads());
    const auto expand = [&]<bool kShared>(int thread) {
      Finds finds(*this);
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i) {
          const VertexId v = queue_[i];
          const Neighbors edges = graph_.out_edges(v);
          const VertexId* const to = edges.vertices();
          for (std::uint64_t e = 0; e < edges.size(); ++e) {
            if constexpr (!kAlone) {
              if (!graph_.owns(to[e])) {
                if (kShared ? seen_.insert(to[e]) : seen_.insert_alone(to[e]))
                  send(thread, {to[e], v});
                continue;
              }
            }
            claim<kShared>(to[e], v, finds);
          }
          if constexpr (!kAlone)
            if (i % 64 == 0) receive(thread, finds);
        }
      });
      // No barrier of the threads before quiesce: a waiting thread would not receive, and the
      // others may be blocked on a rank that waits likewise.
      if constexpr (!kAlone)
        ended_[static_cast<std::size_t>(thread)] =
            exchange_->quiesce(thread, [&](const Found& found) { take(found, finds); });
    };
    if (by_one)
      expand.template operator()<false>(0);
    else
      graph_.team().run([&](int thread) { expand.template operator()<true>(thread); });
    if constexpr (!kAlone) {
      for (const Status& status : ended_) throw_if(status);
      throw_if(failed_.load(std::memory_order_relaxed));
    }
  }

  void send(int thread, const Found& found) {
    const Code code = exchange_->send(graph_.owner(found.vertex), thread, found);
    if (code != Code::ok) failed_.store(code, std::memory_order_relaxed);
  }
  void take(const Found& found, Finds& finds) {
    if (!graph_.owns(found.vertex)) return;
    if (shared_)
      claim<true>(found.vertex, found.parent, finds);
    else
      claim<false>(found.vertex, found.parent, finds);
  }
  void receive(int thread, Finds& finds) {
    for (std::span<const Found> messages; exchange_->receive(thread, messages);)
      for (const Found& found : messages) take(found, finds);
  }

  void step_bottom_up() {
    FrontierBits& front = bits_[current_];
    FrontierBits& next = bits_[1 - current_];
    if constexpr (!kAlone) fetch(front);
    graph_.team().run([&](int thread) {
      std::uint64_t num_found = 0;
      OtherBlock other;
      const Code code = blocks_->work(thread, [&](const VertexBlock& block) {
        if (block.owner != graph_.job().rank())
          return search_other(thread, block, front, next, other, num_found);
        search(block, in_rows_->own(block.first), front,
               {&result_.parent[block.first], &result_.depth[block.first],
                next.words.data() + block.first / 64},
               num_found);
        return Code::ok;
      });
      if (code != Code::ok) failed_.store(code, std::memory_order_relaxed);
      next_size_.fetch_add(num_found, std::memory_order_relaxed);
    });
  }

  // What a bottom-up step reads and writes of a block's vertices. The words of the next frontier's
  // bits are the block's alone.
  struct BlockState {
    VertexId* parent;
    std::uint32_t* depth;
    std::uint64_t* bits;
  };
  static constexpr std::size_t kBlockWords = VertexBlocks::kSize / 64;

  void search(const VertexBlock& block, const RowRange& in, const FrontierBits& front,
              const BlockState& state, std::uint64_t& num_found) const {
    const std::size_t size = block.size();
    const std::uint64_t first_word = block.first / 64;
    std::fill_n(state.bits, (block.last - 1) / 64 + 1 - first_word, 0);
    // Without branches, which nothing could predict.
    std::uint16_t open[VertexBlocks::kSize];
    std::size_t num_open = 0;
    for (std::size_t i = 0; i < size; ++i) {
      open[num_open] = static_cast<std::uint16_t>(i);
      num_open += static_cast<std::size_t>(state.parent[i] == kNoVertex);
    }
    // Most rows are left at their first edge, so the time is that of its way to the cache.
    constexpr std::size_t kAhead = 8;
    const std::uint64_t* const frontier = front.words.data();
    for (std::size_t k = 0; k < num_open; ++k) {
      if (k + kAhead < num_open) __builtin_prefetch(in.vertices + in.offsets[open[k + kAhead]]);
      const std::size_t i = open[k];
      const std::uint64_t end = in.offsets[i + 1];
      for (std::uint64_t e = in.offsets[i]; e < end; ++e) {
        const VertexId u = in.vertices[e];
        if ((frontier[u / 64] >> u % 64 & 1) == 0) continue;
        const std::uint64_t v = block.first + i;
        state.parent[i] = u;
        state.depth[i] = result_.num_steps;
        state.bits[v / 64 - first_word] |= std::uint64_t{1} << v % 64;
        ++num_found;
        break;
      }
    }
  }

  // Another rank's block as it was read.
  struct OtherBlock {
    SharedRows::Copy in;
    VertexId parent[VertexBlocks::kSize];
    std::uint32_t depth[VertexBlocks::kSize];
    std::uint64_t bits[kBlockWords];
  };
  Code search_other(int thread, const VertexBlock& block, const FrontierBits& front,
                    const FrontierBits& next, OtherBlock& other, std::uint64_t& num_found) {
    transport::Job& job = graph_.job();
    const std::size_t size = block.size();
    const auto parent = part_of(graph_, result_.parent, block);
    Code code = job.rdma_read(thread, parent, other.parent, size * sizeof(VertexId));
    if (code != Code::ok) return code;
    const std::uint64_t first_word = block.first / 64;
    const std::uint64_t num_words = (block.last - 1) / 64 + 1 - first_word;
    const auto bits =
        next.remotes[static_cast<std::size_t>(block.owner)].part(first_word * 8, num_words * 8);
    if (std::find(other.parent, other.parent + size, kNoVertex) == other.parent + size) {
      std::fill_n(other.bits, num_words, 0);
      return job.rdma_write(thread, bits, other.bits, num_words * 8);
    }
    const auto depth = part_of(graph_, result_.depth, block);
    RowRange in;
    code = job.rdma_read(thread, depth, other.depth, size * sizeof(std::uint32_t));
    if (code == Code::ok)
      code = in_rows_->read(thread, block.owner, block.first, block.last, other.in, in);
    if (code != Code::ok) return code;
    const std::uint64_t before = num_found;
    search(block, in, front, {other.parent, other.depth, other.bits}, num_found);
    code = job.rdma_write(thread, bits, other.bits, num_words * 8);
    if (code != Code::ok || num_found == before) return code;
    code = job.rdma_write(thread, parent, other.parent, size * sizeof(VertexId));
    if (code != Code::ok) return code;
    return job.rdma_write(thread, depth, other.depth, size * sizeof(std::uint32_t));
  }

  // Reads the others' bits of the frontier. Ranks' ranges may share a word.
  void fetch(FrontierBits& front) {
    const auto& cut = graph_.cut();
    const int size = graph_.job().size(), rank = graph_.job().rank();
    for (int step = 1; step < size; ++step) {
      const int owner = (rank + step) % size;
      const VertexId begin = cut[static_cast<std::size_t>(owner)];
      const VertexId end = cut[static_cast<std::size_t>(owner) + 1];
      if (begin == end) continue;
      const std::size_t first_word = begin / 64, num_words = (end - 1) / 64 + 1 - first_word;
      piece_.resize(num_words);
      const Code code = graph_.job().rdma_read(
          0, front.remotes[static_cast<std::size_t>(owner)].part(first_word * 8, num_words * 8),
          piece_.data(), num_words * 8);
      if (code != Code::ok) failed_.store(code, std::memory_order_relaxed);
      std::uint64_t first_mask = ~std::uint64_t{0} << begin % 64;
      const std::uint64_t last_mask = ~std::uint64_t{0} >> (63 - (end - 1) % 64);
      for (std::size_t w = 0; w < num_words; ++w) {
        const std::uint64_t mask =
            first_mask & (w + 1 == num_words ? last_mask : ~std::uint64_t{0});
        first_mask = ~std::uint64_t{0};
        std::uint64_t& word = front.words[first_word + w];
        // Keep the bits of other ranks in this word, which they read here or this rank has fetched.
        std::atomic_ref<std::uint64_t>(word).store((word & ~mask) | (piece_[w] & mask),
                                                   std::memory_order_relaxed);
      }
    }
  }

  void finish_step(bool bottom_up) {
    total_ = {next_size_.load(std::memory_order_relaxed),
              next_edges_.load(std::memory_order_relaxed),
              failed_.load(std::memory_order_relaxed) == Code::ok ? 0u : 1u};
    if (bottom_up) {
      current_ = 1 - current_;
    } else {
      queue_.swap(next_queue_);
      queue_size_ = total_.vertices;
    }
    next_size_.store(0, std::memory_order_relaxed);
    next_edges_.store(0, std::memory_order_relaxed);
    // For a bottom-up step, if one follows.
    if (blocks_) blocks_->open();
    if constexpr (!kAlone) {
      throw_if(graph_.job().all_reduce(total_, [](const Total& a, const Total& b) {
        return Total{a.vertices + b.vertices, a.edges + b.edges, a.failures + b.failures};
      }));
      if (total_.failures > 0)
        throw_together(graph_.job(), failed_.load(std::memory_order_relaxed));
    }
  }

  void bits_from_queue() {
    FrontierBits& front = bits_[current_];
    std::fill(front.words.begin() + first_ / 64,
              front.words.begin() + static_cast<std::ptrdiff_t>((graph_.last() - 1) / 64 + 1), 0);
    const std::uint64_t size = queue_size_;
    for (std::uint64_t i = 0; i < size; ++i)
      front.words[queue_[i] / 64] |= std::uint64_t{1} << queue_[i] % 64;
    // Other ranks read the bits only after all are set.
    if constexpr (!kAlone) throw_if(graph_.job().barrier());
  }
  void queue_from_bits() {
    const FrontierBits& front = bits_[current_];
    std::uint64_t size = 0;
    for (std::uint64_t w = first_ / 64; w <= (graph_.last() - 1) / 64; ++w)
      for (std::uint64_t bits = front.words[w]; bits != 0; bits &= bits - 1) {
        const auto v =
            static_cast<VertexId>(w * 64 + static_cast<unsigned>(std::countr_zero(bits)));
        if (graph_.owns(v)) queue_[size++] = v;
      }
    queue_size_ = size;
  }

  // From the queue; depths up to `known` are final.
  void finish_by_paths(std::uint32_t known) {
    DeltaStepping<HopLengths<std::uint32_t>> paths(graph_, options_, 1);
    for (VertexId v = first_; v < graph_.last(); ++v) paths.set_distance(v, result_.depth[v]);
    // A mirror at distance 0 is never lowered, so nothing is sent for vertices that were seen.
    seen_.for_each(0, graph_.num_vertices(), [&](VertexId v) { paths.set_distance(v, 0); });
    for (std::uint64_t i = 0; i < queue_size_; ++i) paths.add(queue_[i], result_.depth[queue_[i]]);
    std::function<void(std::uint32_t)> after_step;
    if (options_.wants_save)
      after_step = [&](std::uint32_t step) {
        if (!options_.saves_after(step)) return;
        for (VertexId v = first_; v < graph_.last(); ++v) result_.depth[v] = paths.distance(v);
        options_.save(step);
      };
    paths.run("bfs", result_.num_steps, after_step);
    result_.num_steps = paths.num_steps();

    // A parent has an edge to a vertex one step further. The mirror of another rank's vertex has
    // the smallest depth that this rank has sent for it; only the owner has the minimum of all
    // ranks.
    struct Parent {
      VertexId vertex, parent;
      std::uint32_t depth;
    };
    std::unique_ptr<transport::Exchange<Parent>> exchange;
    if constexpr (!kAlone)
      exchange = std::make_unique<transport::Exchange<Parent>>(graph_.job(), graph_.num_threads());
    std::vector<Status> results(static_cast<std::size_t>(graph_.num_threads()));
    graph_.team().run([&](int thread) {
      const auto threads = static_cast<std::uint64_t>(graph_.num_threads());
      const auto t = static_cast<std::uint64_t>(thread);
      Status status;
      const auto take = [&](const Parent& found) {
        if (graph_.owns(found.vertex) && paths.distance(found.vertex) == found.depth)
          (void)atomic_claim(result_.parent[found.vertex], kNoVertex, found.parent);
      };
      for (std::uint64_t i = num_owned_ * t / threads; i < num_owned_ * (t + 1) / threads; ++i) {
        const auto v = static_cast<VertexId>(first_ + i);
        const std::uint32_t depth = paths.distance(v);
        result_.depth[v] = depth;
        if (depth == kUnreached || depth < known) continue;
        for (const auto& [to, weight] : graph_.out_edges(v)) {
          if (paths.distance(to) != depth + 1) continue;
          if (kAlone || graph_.owns(to)) {
            (void)atomic_claim(result_.parent[to], kNoVertex, v);
          } else if (seen_.insert(to)) {
            const Code code = exchange->send(graph_.owner(to), thread, {to, v, depth + 1});
            if (code != Code::ok) status = code;
          }
        }
        if constexpr (!kAlone)
          if (i % 256 == 0)
            for (Parent found; exchange->receive(thread, found);) take(found);
      }
      Status ended;
      if constexpr (!kAlone) ended = exchange->quiesce(thread, take);
      results[static_cast<std::size_t>(thread)] = ended.ok() ? status : ended;
    });
    for (const Status& status : results) throw_if(status);
  }

  const Graph& graph_;
  const RunOptions& options_;
  Bfs& result_;
  VertexId first_;
  std::uint64_t num_owned_;
  bool shared_;
  // From malloc, which keeps their pages from one search to the next.
  std::unique_ptr<VertexId[]> queue_, next_queue_;
  std::uint64_t queue_size_ = 0;
  std::atomic<std::uint64_t> next_size_{0}, next_edges_{0};
  FrontierBits bits_[2];
  int current_ = 0;
  // Where steps go bottom-up.
  std::optional<SharedRows> in_rows_;
  std::optional<VertexBlocks> blocks_;
  VertexSet seen_;  // other ranks' vertices that were sent to them
  std::vector<std::uint64_t> piece_;
  std::unique_ptr<transport::Exchange<Found>> exchange_;
  std::vector<Status> ended_;  // by thread
  std::atomic<Code> failed_{Code::ok};
  Total total_;
  std::uint64_t edges_left_ = 0;
};

}  // namespace

std::uint32_t last_final_depth(const Graph& graph, const Bfs& state) {
  std::uint32_t depth = 0;
  for (VertexId v = graph.first(); v < graph.last(); ++v)
    if (state.parent[v] != kNoVertex) depth = std::max(depth, state.depth[v]);
  throw_if(graph.job().all_reduce(depth, transport::Max()));
  return depth;
}

void bfs(const Graph& graph, VertexId source, const RunOptions& options, Bfs& result) {
  if (options.mode == Mode::paper)
    paper_bfs(graph, source, options, result);
  else if (graph.job().size() == 1)
    Search<true>(graph, options, result).run(source);
  else
    Search<false>(graph, options, result).run(source);
}

}  // namespace weft::graph
