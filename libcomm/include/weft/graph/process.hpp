#pragma once
// processVertices and processEdges: one step of a vertex program on all ranks (section 2.3 of the
// RGraph paper). Both are collective: every rank calls them in the same order, from the thread that
// loaded the graph. The functions they are given run on all threads of the graph's team at once,
// are inlined, and must not throw. Both throw weft::Error (peer_lost, no_memory) after a step that
// cannot be completed, the same on all ranks that live.
//
// In a step of processEdges
//   1. each thread takes active vertices of its rank, a few at a time, and calls
//      compute(vertex, value read of it, its edges out, push);
//   2. push(destination, message) calls reduce(value, message) on the destination's value in this
//      rank: its master, or the mirror, in which messages are combined. If reduce returns true,
//      the destination is put into `out`;
//   3. every mirror that was changed is sent to its owner, which calls reduce for its master;
//   4. when all that was sent has been received, the step ends.
#include <algorithm>
#include <atomic>
#include <functional>
#include <type_traits>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/migration.hpp"
#include "weft/graph/vertex_array.hpp"
#include "weft/graph/vertex_set.hpp"

namespace weft::graph {

// The messages that are sent to the owner of a vertex.
enum class Combine {
  mirrors,  // one message for each mirror that changed, at the end of the step
  edges,    // one for each edge, at once
};

enum class Mirrors {
  keep,   // a mirror keeps what it has sent, and so skips values that need no sending (minima)
  clear,  // a mirror becomes T{} once it is sent (sums)
};

// The distribution of the active vertices to threads.
enum class Schedule {
  grab,   // a shared counter, `grain` vertices at a time
  steal,  // an equal share each, and then the unstarted ones of the others, `grain` at a time
  fixed,  // an equal share each
};

struct StepOptions {
  Combine combine = Combine::mirrors;
  Mirrors mirrors = Mirrors::keep;
  Schedule schedule = Schedule::grab;
  unsigned grain = 64;              // vertices that a thread takes at once
  unsigned receive_every = 100;     // vertices between polls for messages of others
  MigrationOptions migration = {};  // between ranks; none in a job of one
  // The transport of messages: the settings of the first step that writes an array hold for the
  // array.
  transport::ExchangeSettings exchange = {};
};

namespace detail {

// Hands out [0, size) in pieces: from one part for all threads, or from a part for each.
class WorkCounter {
 public:
  WorkCounter(std::uint64_t size, const StepOptions& options, int num_threads)
      : schedule_(options.schedule),
        grain_(std::max(1u, options.grain)),
        parts_(schedule_ == Schedule::grab ? 1 : static_cast<std::size_t>(num_threads)) {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      parts_[p].next.store(size * p / parts_.size(), std::memory_order_relaxed);
      parts_[p].end = size * (p + 1) / parts_.size();
    }
  }
  // Calls visit(begin, end) until nothing is left for this thread.
  template <class Visit>
  void work(int thread, Visit&& visit) {
    const auto own = schedule_ == Schedule::grab ? 0 : static_cast<std::size_t>(thread);
    const std::size_t num_parts = schedule_ == Schedule::steal ? parts_.size() : 1;
    for (std::size_t i = 0; i < num_parts; ++i) take(parts_[(own + i) % parts_.size()], visit);
  }

 private:
  struct alignas(64) Part {
    std::atomic<std::uint64_t> next{0};
    std::uint64_t end = 0;
  };
  template <class Visit>
  void take(Part& part, Visit& visit) {
    for (;;) {
      const std::uint64_t begin = part.next.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= part.end) return;
      visit(begin, std::min(begin + grain_, part.end));
    }
  }

  Schedule schedule_;
  std::uint64_t grain_;
  std::vector<Part> parts_;
};

// The active vertices of this rank: as a queue where they are few, else as their bits.
class Frontier {
 public:
  Frontier(const Graph& graph, const VertexSet& active) : graph_(graph), active_(active) {
    const VertexId first = graph.first(), last = graph.last();
    const std::uint64_t count = active.count(first, last);
    is_queue_ = count < graph.num_owned() / 32;
    if (!is_queue_) return;
    queue_.reserve(count);
    active.for_each(first, last, [&](VertexId vertex) { queue_.push_back(vertex); });
  }
  std::uint64_t size() const noexcept { return is_queue_ ? queue_.size() : graph_.num_owned(); }
  template <class Visit>
  void for_each(std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
    if (is_queue_) {
      for (std::uint64_t i = begin; i < end; ++i) visit(queue_[i]);
    } else {
      active_.for_each(static_cast<VertexId>(graph_.first() + begin),
                       static_cast<VertexId>(graph_.first() + end), visit);
    }
  }

 private:
  const Graph& graph_;
  const VertexSet& active_;
  bool is_queue_ = false;
  std::vector<VertexId> queue_;
};

// The object by which compute pushes. kAlone: the job has one rank, so there are no messages.
template <class T, class Reduce, bool kAlone>
class Push {
 public:
  Push(const Graph& graph, VertexArray<T>& values, VertexSet& out, Reduce& reduce,
       const StepOptions& options, int thread)
      : graph_(graph),
        values_(values.data()),
        out_(out),
        reduce_(reduce),
        shared_(graph.num_threads() > 1),
        by_edge_(options.combine == Combine::edges),
        to_threads_(options.exchange.pairing == transport::Pairing::thread_to_thread),
        thread_(thread),
        exchange_(kAlone ? nullptr : &values.exchange()) {}

  void operator()(VertexId destination, const T& message) noexcept {
    if constexpr (!kAlone) {
      if (by_edge_ && !graph_.owns(destination)) {
        send(graph_.owner(destination), destination, message);
        return;
      }
    }
    apply(destination, message);
  }

  void apply(VertexId destination, const T& message) noexcept {
    if (!reduce_(values_[destination], message)) return;
    if (shared_)
      out_.insert(destination);
    else
      out_.insert_alone(destination);
  }

  void send(int owner, VertexId destination, const T& value) noexcept {
    const int place = to_threads_ ? exchange_->place(owner, thread_) : owner;
    const Code code = exchange_->send(place, thread_, {destination, value});
    if (code != Code::ok) failed_ = code;
  }

  // Takes a message from another rank; one that names a vertex of others is dropped.
  void take(const typename VertexArray<T>::Message& message) noexcept {
    if (graph_.owns(message.vertex)) apply(message.vertex, message.value);
  }
  void receive() noexcept {
    if constexpr (!kAlone)
      for (std::span<const typename VertexArray<T>::Message> messages;
           exchange_->receive(thread_, messages);)
        for (const auto& message : messages) take(message);
  }
  Code failed() const noexcept { return failed_; }

 private:
  const Graph& graph_;
  T* values_;
  VertexSet& out_;
  Reduce& reduce_;
  bool shared_, by_edge_, to_threads_;
  int thread_;
  transport::Exchange<typename VertexArray<T>::Message>* exchange_;
  Code failed_ = Code::ok;
};

// This thread's part of step 3: the mirrors that changed, in words of their bits.
template <class T, class Pusher>
void send_mirrors(const Graph& graph, VertexArray<T>& values, VertexSet& out, Mirrors mirrors,
                  Pusher& push, int thread) {
  const auto threads = static_cast<unsigned>(graph.num_threads());
  const auto t = static_cast<unsigned>(thread);
  const auto& cut = graph.cut();
  const int size = graph.job().size(), rank = graph.job().rank();
  for (int step = 1; step < size; ++step) {
    // Everybody begins with another owner.
    const int owner = (rank + step) % size;
    const VertexId first = cut[static_cast<std::size_t>(owner)];
    const VertexId last = cut[static_cast<std::size_t>(owner) + 1];
    // Threads share the range at words, so that none touches a word of another's.
    const auto boundary = [&](unsigned part) {
      if (part == 0) return first;
      if (part == threads) return last;
      const std::uint64_t at = first + std::uint64_t{last - first} * part / threads;
      return std::clamp(static_cast<VertexId>(at / 64 * 64), first, last);
    };
    unsigned since = 0;
    out.for_each(boundary(t), boundary(t + 1), [&](VertexId vertex) {
      push.send(owner, vertex, values[vertex]);
      if (mirrors == Mirrors::clear) values[vertex] = T{};
      if (++since % 1024 == 0) push.receive();
    });
  }
}

// The totals over ranks at a step's end.
struct StepTotal {
  std::uint64_t num_active = 0, num_failed = 0;
};

template <class S, class T, class Compute, class Reduce>
std::uint64_t process_edges_alone(const Graph& graph, const VertexArray<S>& reads,
                                  VertexArray<T>& writes, const VertexSet& in, VertexSet& out,
                                  Compute& compute, Reduce& reduce, const StepOptions& options) {
  const Frontier frontier(graph, in);
  WorkCounter work(frontier.size(), options, graph.num_threads());
  graph.team().run([&](int thread) {
    Push<T, Reduce, true> push(graph, writes, out, reduce, options, thread);
    work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
      frontier.for_each(begin, end, [&](VertexId vertex) {
        const Neighbors edges = graph.out_edges(vertex);
        if (edges.size() > 0) compute(vertex, atomic_read(reads[vertex]), edges, push);
      });
    });
  });
  return out.count(0, graph.num_vertices());
}

// This rank's tasks of a step, where others may take some: fills its worklist and opens it.
template <class S>
void open_worklist(const Graph& graph, VertexArray<S>& reads, const VertexSet& in) {
  Worklist<S>& worklist = reads.worklist();
  std::uint32_t size = 0;
  in.for_each(graph.first(), graph.last(), [&](VertexId vertex) {
    if (graph.out_degree(vertex) > 0)
      worklist.tasks()[size++] = {vertex, atomic_read(reads[vertex])};
  });
  worklist.open(size);
}

template <class S, class T, class Compute, class Reduce>
std::uint64_t process_edges(const Graph& graph, VertexArray<S>& reads, VertexArray<T>& writes,
                            const VertexSet& in, VertexSet& out, Compute& compute, Reduce& reduce,
                            const StepOptions& options) {
  using Pusher = Push<T, Reduce, false>;
  const bool migrates = options.migration.enabled && graph.has_remote_rows() &&
                        graph.num_vertices() <= TaskRange::kMaxTasks;
  const unsigned grain = std::max(1u, options.grain);
  const unsigned receive_every = std::max(1u, options.receive_every);
  std::vector<Status> results(static_cast<std::size_t>(graph.num_threads()));
  std::atomic<bool> failed{false};
  writes.exchange(options.exchange);
  const auto end_of = [&](int thread, const Pusher& push) {
    if (push.failed() != Code::ok) results[static_cast<std::size_t>(thread)] = push.failed();
  };
  const auto quiesce = [&](int thread, Pusher& push) {
    const Status status = writes.exchange().quiesce(
        thread, [&](const typename VertexArray<T>::Message& message) { push.take(message); });
    end_of(thread, push);
    // This status is the same on all ranks; one that a thread saw while sending is not.
    if (!status.ok()) results[static_cast<std::size_t>(thread)] = status;
  };
  // A thread that waits for others of its team receives nothing, and those may be sending to a rank
  // in the same state. So where messages are sent at once, each goes from its last task to the end
  // of the phase, in which it receives.
  const bool sends_at_once = options.combine == Combine::edges;
  const auto end_tasks = [&](int thread, Pusher& push) {
    if (sends_at_once)
      quiesce(thread, push);
    else
      end_of(thread, push);
  };
  if (migrates) {
    open_worklist(graph, reads, in);
    Worklist<S>& worklist = reads.worklist();
    Thefts<S> thefts(graph, worklist, options.migration);
    graph.team().run([&](int thread) {
      Pusher push(graph, writes, out, reduce, options, thread);
      unsigned since = 0;
      const auto perform = [&](VertexId vertex, const S& value, const Neighbors& edges) {
        compute(vertex, value, edges, push);
        if (++since % receive_every == 0) push.receive();
      };
      for (;;) {
        const TaskClaim claim = worklist.claim(grain);
        if (claim.begin == claim.end) break;
        for (std::uint32_t i = claim.begin; i < claim.end; ++i) {
          const VertexId vertex = worklist.tasks()[i].vertex;
          perform(vertex, atomic_read(reads[vertex]), graph.out_edges(vertex));
        }
      }
      for (;;) {
        const auto block = thefts.take(thread);
        if (block.victim < 0) break;
        if (!thefts.perform(thread, block, perform)) {
          failed.store(true, std::memory_order_relaxed);
          break;
        }
      }
      end_tasks(thread, push);
    });
    if (options.migration.cached_rows > 0)
      graph.row_cache().end_round(options.migration.cached_rows);
  } else {
    const Frontier frontier(graph, in);
    WorkCounter work(frontier.size(), options, graph.num_threads());
    graph.team().run([&](int thread) {
      Pusher push(graph, writes, out, reduce, options, thread);
      unsigned since = 0;
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        frontier.for_each(begin, end, [&](VertexId vertex) {
          const Neighbors edges = graph.out_edges(vertex);
          if (edges.size() == 0) return;
          compute(vertex, atomic_read(reads[vertex]), edges, push);
          if (++since % receive_every == 0) push.receive();
        });
      });
      end_tasks(thread, push);
    });
  }
  if (!sends_at_once)
    graph.team().run([&](int thread) {
      Pusher push(graph, writes, out, reduce, options, thread);
      send_mirrors(graph, writes, out, options.mirrors, push, thread);
      quiesce(thread, push);
    });
  StepTotal total{out.count(graph.first(), graph.last()), failed.load() ? 1u : 0u};
  Status ended;
  for (const Status& status : results)
    if (!status.ok()) ended = status;
  if (ended == Code::peer_lost) throw Error(ended);
  if (!ended.ok()) ++total.num_failed;
  const Status status = graph.job().all_reduce(total, [](const StepTotal& a, const StepTotal& b) {
    return StepTotal{a.num_active + b.num_active, a.num_failed + b.num_failed};
  });
  if (!status.ok()) throw Error(status);
  if (total.num_failed > 0)
    throw Error(ended.ok() ? Status(Code::internal, "a step of the graph failed in another process")
                           : ended);
  return total.num_active;
}

}  // namespace detail

// A step from the vertices of `in` of which compute reads `reads`, to those of `out`, whose
// `writes` are reduced. `out` gets the changed vertices; its bits of other ranks' vertices are
// undefined afterwards. Returns the number of vertices of all ranks in it.
template <class S, class T, class Compute, class Reduce>
std::uint64_t processEdges(const Graph& graph, VertexArray<S>& reads,  // NOLINT: the paper's name
                           VertexArray<T>& writes, const VertexSet& in, VertexSet& out,
                           Compute&& compute, Reduce&& reduce, const StepOptions& options = {}) {
  if (graph.job().size() == 1)
    return detail::process_edges_alone(graph, reads, writes, in, out, compute, reduce, options);
  return detail::process_edges(graph, reads, writes, in, out, compute, reduce, options);
}
// The same where compute reads the array that is reduced.
template <class T, class Compute, class Reduce>
std::uint64_t processEdges(const Graph& graph, VertexArray<T>& values,  // NOLINT: the paper's name
                           const VertexSet& in, VertexSet& out, Compute&& compute, Reduce&& reduce,
                           const StepOptions& options = {}) {
  return processEdges(graph, values, values, in, out, compute, reduce, options);
}

// The sum of work(vertex) over the active vertices of all ranks, each of which is called by its
// owner; 0 if none is active. `work` returns a number.
template <class Work>
auto processVertices(const Graph& graph, const VertexSet& active, Work&& work) {  // NOLINT
  using R = std::decay_t<std::invoke_result_t<Work&, VertexId>>;
  std::vector<R> sums(static_cast<std::size_t>(graph.num_threads()), R{});
  detail::WorkCounter counter(graph.num_owned(), {.grain = 4096}, graph.num_threads());
  graph.team().run([&](int thread) {
    R sum{};
    counter.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
      active.for_each(static_cast<VertexId>(graph.first() + begin),
                      static_cast<VertexId>(graph.first() + end),
                      [&](VertexId vertex) { sum += work(vertex); });
    });
    sums[static_cast<std::size_t>(thread)] = sum;
  });
  R sum{};
  for (const R& part : sums) sum += part;
  const Status status = graph.job().all_reduce(sum, std::plus<>());
  if (!status.ok()) throw Error(status);
  return sum;
}
// The same over all vertices.
template <class Work>
auto processVertices(const Graph& graph, Work&& work) {  // NOLINT: the paper's name
  using R = std::decay_t<std::invoke_result_t<Work&, VertexId>>;
  std::vector<R> sums(static_cast<std::size_t>(graph.num_threads()), R{});
  detail::WorkCounter counter(graph.num_owned(), {.grain = 4096}, graph.num_threads());
  graph.team().run([&](int thread) {
    R sum{};
    counter.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t i = begin; i < end; ++i)
        sum += work(static_cast<VertexId>(graph.first() + i));
    });
    sums[static_cast<std::size_t>(thread)] = sum;
  });
  R sum{};
  for (const R& part : sums) sum += part;
  const Status status = graph.job().all_reduce(sum, std::plus<>());
  if (!status.ok()) throw Error(status);
  return sum;
}

}  // namespace weft::graph
