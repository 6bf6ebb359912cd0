#pragma once
// Migration: a rank that has done its own tasks of a step takes some of another rank's, with
// one-sided operations alone (section 5.2.1 of the RGraph paper, algorithm 3).
//
// A rank's active vertices of a step are a worklist in memory that the others can reach: each with
// the value that compute reads of it. task_range.hpp explains how owner and thieves share it. A
// thief reads the word, claims a block with a fetch_add, reads the tasks, and the rows of their
// edges, which RowCache keeps. No code of the graph runs at the owner for that (over libfabric, and
// for atomics over most RDMA devices, its transport serves them). The thief's results go into its
// own mirrors.
//
// A thief cannot meet the worklist of another step: a rank opens its next one after the end of the
// step, which no rank passes before it has ended its own work and its thefts. Before a rank has
// opened its worklist, its word is that of the step before, in which nothing is left.
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/row_cache.hpp"
#include "weft/graph/task_range.hpp"

namespace weft::graph {

// The settings of the migration of a step's tasks.
struct MigrationOptions {
  bool enabled = false;         // of a graph with remote rows; of others none migrate
  unsigned block = 8;           // tasks for each thread in a claim
  unsigned threshold = 64;      // of a rank that has no more tasks left, none are taken
  std::size_t cached_rows = 0;  // rows of other ranks that are kept from step to step; 0: none
};

// The tasks of a rank in a step. S: the value that compute reads of a vertex.
template <class S>
class Worklist {
 public:
  struct Task {
    VertexId vertex;
    S value;
  };

  // Collective; throws weft::Error (no_memory, peer_lost).
  explicit Worklist(const Graph& graph)
      : job_(graph.job()), word_(&graph.job(), 8), tasks_(&graph.job(), graph.num_owned()) {
    Status status = job_.all_gather(word_.remote(), words_);
    if (status.ok()) status = job_.all_gather(tasks_.remote(), remotes_);
    if (!status.ok()) throw Error(status);
  }

  Task* tasks() noexcept { return tasks_.data(); }
  // Lets owner and thieves take the first `size` tasks. Called when all are there.
  void open(std::uint32_t size) noexcept {
    word().store(TaskRange::open(size), std::memory_order_seq_cst);  // pairs with all claims
  }
  TaskClaim claim(std::uint32_t count) noexcept {
    return TaskRange::took_front(
        word().fetch_add(TaskRange::from_front(count), std::memory_order_seq_cst), count);
  }

  // Claims from another rank. A failure, such as the rank's death, is an empty claim: the step's
  // end reports it.
  TaskClaim claim_from(int rank, int thread, std::uint32_t count, std::uint32_t threshold) {
    const transport::RemoteMemory& there = words_[static_cast<std::size_t>(rank)];
    std::uint64_t found = 0;
    if (job_.rdma_read(thread, there, &found, sizeof found) != Code::ok ||
        TaskRange::num_left(found) <= threshold)
      return {};
    const transport::Fetched fetched =
        job_.fetch_add(thread, there.word(0), TaskRange::from_back(count));
    if (fetched.code != Code::ok) return {};
    return TaskRange::took_back(fetched.value, count);
  }
  Code read(int rank, int thread, TaskClaim claim, std::vector<Task>& tasks) {
    tasks.resize(claim.end - claim.begin);
    const std::size_t bytes = tasks.size() * sizeof(Task);
    return job_.rdma_read(thread,
                          remotes_[static_cast<std::size_t>(rank)].part(
                              std::uint64_t{claim.begin} * sizeof(Task), bytes),
                          tasks.data(), bytes);
  }

 private:
  std::atomic_ref<std::uint64_t> word() noexcept { return std::atomic_ref(word_[0]); }

  transport::Job& job_;
  Buffer<std::uint64_t> word_;  // TaskRange's; a cache line of its own
  Buffer<Task> tasks_;
  std::vector<transport::RemoteMemory> words_, remotes_;
};

// The tasks that this rank's threads have taken from others and share: blocks of the last claim.
template <class S>
class Thefts {
 public:
  struct Block {
    int victim = -1;  // none is left anywhere
    TaskClaim tasks;
  };

  Thefts(const Graph& graph, Worklist<S>& worklist, const MigrationOptions& options)
      : graph_(graph), worklist_(worklist), options_(options) {}

  // Victims are tried in the order of a ring, each until it has no more than the threshold.
  Block take(int thread) {
    const std::lock_guard lock(mutex_);
    const int size = graph_.job().size(), rank = graph_.job().rank();
    while (claimed_.begin == claimed_.end) {
      if (offset_ >= size) return {};
      victim_ = (rank + offset_) % size;
      claimed_ = worklist_.claim_from(victim_, thread,
                                      options_.block * static_cast<unsigned>(graph_.num_threads()),
                                      options_.threshold);
      if (claimed_.begin == claimed_.end) ++offset_;
    }
    const TaskClaim part{claimed_.begin, std::min(claimed_.end, claimed_.begin + options_.block)};
    claimed_.begin = part.end;
    return {victim_, part};
  }

  // visit(vertex, value, edges) for the block's tasks. False if the victim cannot be read any more.
  template <class Visit>
  bool perform(int thread, const Block& block, Visit&& visit) {
    std::vector<typename Worklist<S>::Task> tasks;
    if (worklist_.read(block.victim, thread, block.tasks, tasks) != Code::ok) return false;
    MigrationCounts& counts = graph_.migration_counts();
    counts.tasks.fetch_add(tasks.size(), std::memory_order_relaxed);
    RowCache* const cache = options_.cached_rows > 0 ? &graph_.row_cache() : nullptr;
    for (const auto& task : tasks) {
      if (graph_.owner(task.vertex) != block.victim) return false;
      const RowCache::Row* row = cache != nullptr ? cache->find(task.vertex) : nullptr;
      RowCache::Row read;
      if (row == nullptr) {
        if (graph_.read_row(block.victim, thread, task.vertex, read) != Code::ok) return false;
        counts.rows_read.fetch_add(1, std::memory_order_relaxed);
        row = cache != nullptr ? cache->insert(task.vertex, std::move(read)) : &read;
      }
      visit(task.vertex, task.value,
            Neighbors(row->vertices.data(), row->weights.empty() ? nullptr : row->weights.data(),
                      row->vertices.size()));
    }
    return true;
  }

 private:
  const Graph& graph_;
  Worklist<S>& worklist_;
  const MigrationOptions& options_;
  std::mutex mutex_;  // a claim waits for the network, and then serves all threads
  int offset_ = 1, victim_ = -1;
  TaskClaim claimed_;
};

}  // namespace weft::graph
