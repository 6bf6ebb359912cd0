#pragma once
// Delta-stepping (Meyer, Sanders: Delta-stepping, a parallelizable shortest path algorithm, J.
// Algorithms 2003) over several ranks, for shortest paths and for the long tail of breadth-first
// searches.
//
// Vertices wait in buckets by distance / delta; the lowest bucket is taken next, and a vertex comes
// back whenever its distance falls, so the order matters for speed alone. Each thread has buckets
// of its own. Few vertices are done by one thread, which also goes on while a bucket refills.
//
// Between ranks: a rank takes its buckets up to a window's end, lowers its mirrors of other ranks'
// vertices on the way, and then sends the distance of each mirror that it lowered. All ranks then
// agree on the lowest bucket left, where the next window begins. A window is one bucket wide while
// there is much work in it. With little work, as on road networks, it doubles: distances that a
// rank must correct later cost less than frequent agreement.
//
// An array has how far a distance is below infinity, so that memory which nobody has touched is
// right, and a rank has some for the vertices alone that its paths lead to.
#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <vector>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"
#include "lengths.hpp"
#include "weft/graph.hpp"

namespace weft::graph {

template <class Lengths>
class DeltaStepping {
 public:
  using D = typename Lengths::Word;
  using Width = typename Lengths::Width;
  static constexpr D kInfinite = std::numeric_limits<D>::max();

  // Collective.
  DeltaStepping(const Graph& graph, const RunOptions& options, Width delta)
      : graph_(graph),
        options_(options),
        delta_(delta),
        alone_(graph.job().size() == 1),
        shared_(graph.num_threads() > 1),
        nearness_(graph, 0),
        changed_(graph),
        workers_(static_cast<std::size_t>(graph.num_threads())) {
    if (!alone_) nearness_.exchange();
  }

  D distance(VertexId v) const { return kInfinite - nearness_[v]; }
  void set_distance(VertexId v, D distance) { nearness_[v] = kInfinite - distance; }
  std::uint32_t num_steps() const { return num_steps_; }

  // Adds an owned vertex to begin with, at this distance.
  void add(VertexId v, D distance) {
    set_distance(v, distance);
    workers_[0].put(v, index_of(distance));
  }

  // Collective. Returns when all distances are final. Steps are counted from `first_step`; after
  // each, all distances are as they are agreed on, and `after_step` is called, if there is one.
  void run(const char* name, std::uint32_t first_step = 0,
           const std::function<void(std::uint32_t)>& after_step = {}) {
    num_steps_ = first_step;
    std::uint64_t window = 1;
    Agreed agreed{lowest(), 0};
    if (!alone_) agree_on(agreed);
    while (agreed.next != kNoBucket) {
      ++num_steps_;
      if (options_.progress) options_.progress(name, num_steps_);
      num_relaxed_.store(0, std::memory_order_relaxed);
      work_until(alone_ && !after_step ? kNoBucket : agreed.next + window);
      if (!alone_) exchange();
      agreed = {lowest(), num_relaxed_.load(std::memory_order_relaxed)};
      if (!alone_) agree_on(agreed);
      if (after_step && agreed.next != kNoBucket) after_step(num_steps_);
      const auto ranks = static_cast<std::uint64_t>(graph_.job().size());
      if (agreed.num_relaxed < kFewEdges * ranks)
        window = std::min(window * 2, kMaxWindow);
      else if (agreed.num_relaxed > kManyEdges * ranks)
        window = std::max<std::uint64_t>(window / 2, 1);
    }
  }

 private:
  using Message = typename VertexArray<D>::Message;
  static constexpr std::uint64_t kNoBucket = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kFewEdges = 8192, kManyEdges = 65536;  // of a rank in a window
  static constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kNumBuckets = std::uint64_t{1} << 14;
  static constexpr std::size_t kFewVertices = 512;  // not worth waking the other threads

  // A thread's buckets. The lowest that may hold something, and so many behind it, are kept apart;
  // what lies beyond waits in `far` until they are empty.
  struct alignas(64) Worker {
    std::vector<std::vector<VertexId>> buckets{kNumBuckets};
    std::vector<VertexId> far;
    std::uint64_t base = 0;              // index of buckets[0]
    std::uint64_t lowest = kNumBuckets;  // none below has a vertex, counted from base
    std::vector<VertexId> taken;         // the thread's part of the bucket that is worked on
    bool has_lower = false;              // some of `taken` may belong into buckets below the base
    std::vector<VertexId> dirty;         // mirrors to be sent
    Status status;

    void put(VertexId v, std::uint64_t index) {
      // Vertices below the base are simply done next.
      const std::uint64_t at = index > base ? index - base : 0;
      if (at >= kNumBuckets) {
        far.push_back(v);
        return;
      }
      buckets[at].push_back(v);
      lowest = std::min(lowest, at);
    }
  };

  struct Agreed {
    std::uint64_t next;         // the lowest bucket that has vertices
    std::uint64_t num_relaxed;  // edges in the last window
  };
  void agree_on(Agreed& agreed) {
    throw_if(graph_.job().all_reduce(agreed, [](const Agreed& a, const Agreed& b) {
      return Agreed{std::min(a.next, b.next), a.num_relaxed + b.num_relaxed};
    }));
  }

  std::uint64_t index_of(D distance) const { return Lengths::bucket(distance, delta_); }

  // The worker's lowest bucket with vertices.
  std::uint64_t lowest(Worker& worker) {
    for (;;) {
      while (worker.lowest < kNumBuckets && worker.buckets[worker.lowest].empty()) ++worker.lowest;
      if (worker.lowest < kNumBuckets) return worker.base + worker.lowest;
      if (worker.far.empty()) return kNoBucket;
      std::vector<VertexId> far;
      far.swap(worker.far);
      worker.base = kNoBucket;
      for (const VertexId v : far) worker.base = std::min(worker.base, index_of(distance(v)));
      for (const VertexId v : far) worker.put(v, index_of(distance(v)));
    }
  }
  std::uint64_t lowest() {
    std::uint64_t least = kNoBucket;
    for (Worker& worker : workers_) least = std::min(least, lowest(worker));
    return least;
  }

  // Works on this rank's buckets below `end` until they are empty.
  void work_until(std::uint64_t end) {
    for (std::uint64_t index; (index = lowest()) < end;) {
      std::size_t size = 0;
      for (Worker& worker : workers_) {
        worker.taken.clear();
        if (lowest(worker) != index) continue;
        worker.taken.swap(worker.buckets[worker.lowest]);
        worker.has_lower = worker.lowest == 0;
        size += worker.taken.size();
      }
      if (!shared_ || size < kFewVertices) {
        std::uint64_t num_relaxed = 0;
        for (Worker& worker : workers_)
          for (const VertexId v : worker.taken)
            num_relaxed += expand<false>(0, v, index, worker.has_lower);
        num_relaxed_.fetch_add(num_relaxed, std::memory_order_relaxed);
        continue;
      }
      std::atomic<std::size_t> next{0};
      graph_.team().run([&](int thread) {
        std::uint64_t num_relaxed = 0;
        constexpr std::size_t kGrain = 64;
        for (std::size_t begin; (begin = next.fetch_add(kGrain, std::memory_order_relaxed)) < size;)
          for_range(begin, std::min(begin + kGrain, size), [&](VertexId v, bool has_lower) {
            num_relaxed += expand<true>(thread, v, index, has_lower);
          });
        // The vertices that have come back into the bucket meanwhile, while they are few.
        Worker& worker = workers_[static_cast<std::size_t>(thread)];
        std::vector<VertexId> again;
        while (worker.base + worker.lowest == index && !worker.buckets[worker.lowest].empty() &&
               worker.buckets[worker.lowest].size() < kFewVertices) {
          again.clear();
          again.swap(worker.buckets[worker.lowest]);
          const bool has_lower = worker.lowest == 0;
          for (const VertexId v : again) num_relaxed += expand<true>(thread, v, index, has_lower);
        }
        num_relaxed_.fetch_add(num_relaxed, std::memory_order_relaxed);
      });
    }
  }

  // visit(v, has_lower) for the vertices that were taken, numbered through all workers.
  template <class Visit>
  void for_range(std::size_t begin, std::size_t end, Visit&& visit) {
    std::size_t first = 0;
    for (const Worker& worker : workers_) {
      const std::size_t size = worker.taken.size();
      for (std::size_t i = std::max(begin, first); i < std::min(end, first + size); ++i)
        visit(worker.taken[i - first], worker.has_lower);
      first += size;
    }
  }

  // Returns the number of relaxed edges. kShared: other threads work concurrently. has_lower: that
  // of the worker whose bucket had v, which may be another thread's.
  template <bool kShared>
  std::uint64_t expand(int thread, VertexId v, std::uint64_t index, bool has_lower) {
    const D mine = kInfinite - (kShared ? atomic_read(nearness_[v]) : nearness_[v]);
    Worker& worker = workers_[static_cast<std::size_t>(thread)];
    // Its distance has fallen since: it was expanded from a lower bucket.
    if (index_of(mine) < index && !has_lower) return 0;
    const Neighbors edges = graph_.out_edges(v);
    const VertexId* const to = edges.vertices();
    const Weight* const weights = edges.weights();
    for (std::uint64_t e = 0; e < edges.size(); ++e) {
      const Weight weight = weights == nullptr ? Lengths::kUnit : weights[e];
      lower<kShared>(worker, to[e], Lengths::add(mine, weight));
    }
    return edges.size();
  }

  template <bool kShared>
  void lower(Worker& worker, VertexId v, D distance) {
    D& mine = nearness_[v];
    const D candidate = kInfinite - distance;
    if constexpr (kShared) {
      if (!atomic_max(mine, candidate)) return;
    } else {
      if (candidate <= mine) return;
      mine = candidate;
    }
    if (alone_ || graph_.owns(v)) {
      worker.put(v, index_of(distance));
    } else if (kShared ? changed_.insert(v) : changed_.insert_alone(v)) {
      worker.dirty.push_back(v);
    }
  }

  void exchange() {
    graph_.team().run([&](int thread) {
      Worker& worker = workers_[static_cast<std::size_t>(thread)];
      auto& lanes = nearness_.exchange();
      const auto take = [&](const Message& message) {
        if (!graph_.owns(message.vertex)) return;
        if (shared_)
          lower<true>(worker, message.vertex, message.value);
        else
          lower<false>(worker, message.vertex, message.value);
      };
      worker.status = Code::ok;
      unsigned since = 0;
      for (const VertexId v : worker.dirty) {
        const Code code = lanes.send(graph_.owner(v), thread, {v, distance(v)});
        if (code != Code::ok) worker.status = code;
        if (++since % 256 == 0)
          for (Message message; lanes.receive(thread, message);) take(message);
      }
      const Status ended = lanes.quiesce(thread, take);
      if (!ended.ok()) worker.status = ended;
    });
    for (Worker& worker : workers_) {
      throw_if(worker.status);
      for (const VertexId v : worker.dirty) changed_.erase(v);
      worker.dirty.clear();
    }
  }

  const Graph& graph_;
  const RunOptions& options_;
  Width delta_;
  bool alone_, shared_;
  VertexArray<D> nearness_;
  VertexSet changed_;  // mirrors that are in a thread's list
  std::vector<Worker> workers_;
  std::atomic<std::uint64_t> num_relaxed_{0};
  std::uint32_t num_steps_ = 0;
};

}  // namespace weft::graph
