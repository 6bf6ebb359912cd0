// Blocks of vertices that ranks take over from each other: each is visited once, with the owner's
// rows, and the algorithms that share their work so are right.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <thread>
#include <vector>

#include "graph/common/shared_rows.hpp"
#include "graph/common/vertex_blocks.hpp"
#include "graph/programs/serial.hpp"
#include "tests/graph/ranks.hpp"
#include "weft/graph/algorithms.hpp"

using namespace weft;         // NOLINT(google-build-using-namespace)
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint32_t kNumVertices = 20011;

// What all ranks of a test have seen.
struct Seen {
  std::vector<std::atomic<int>> visits = std::vector<std::atomic<int>>(kNumVertices);
  std::atomic<int> wrong_rows{0}, failures{0}, left_by_others{0};
};

LoadOptions with_threads(int threads, bool remote_rows = false) {
  return {.in_edges = true, .remote_rows = remote_rows, .threads = threads, .bind_threads = false};
}

}  // namespace

TEST_CASE("blocks are visited once, and those of a rank that does nothing by the others") {
  const TemporaryFile file(".bin");
  const std::vector<Edge> edges = some_edges(kNumVertices, 60000);
  write_binary(file.path(), edges);
  std::vector<std::uint64_t> sums(kNumVertices, 0);  // of the ends of a vertex's edges
  for (const Edge& edge : edges) sums[edge.source] += edge.destination + 1;
  const int num_ranks = GENERATE(2, 3, 5);
  const int num_threads = GENERATE(1, 2);
  const bool remote_rows = GENERATE(false, true);
  constexpr int kPhases = 6;
  std::vector<Seen> phases(kPhases);
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), with_threads(num_threads, remote_rows));
    const SharedRows rows(graph, graph.out());
    VertexBlocks blocks(graph);
    for (int phase = 0; phase < kPhases; ++phase) {
      Seen& seen = phases[static_cast<std::size_t>(phase)];
      const int idle = phase % num_ranks;
      blocks.open();
      if (!job.barrier().ok()) ++seen.failures;
      if (job.rank() == idle && !job.barrier().ok()) ++seen.failures;
      graph.team().run([&](int thread) {
        SharedRows::Copy copy;
        const Code code = blocks.work(thread, [&](const VertexBlock& block) {
          RowRange range = rows.own(graph.first());
          if (block.owner == job.rank()) {
            range = rows.own(block.first);
            seen.left_by_others += job.rank() == idle ? 1 : 0;
          } else if (const Code read =
                         rows.read(thread, block.owner, block.first, block.last, copy, range);
                     read != Code::ok) {
            return read;
          }
          for (VertexId v = block.first; v < block.last; ++v) {
            ++seen.visits[v];
            std::uint64_t sum = 0;
            const std::size_t row = v - block.first;
            for (std::uint64_t e = range.offsets[row]; e < range.offsets[row + 1]; ++e)
              sum += range.vertices[e] + 1;
            seen.wrong_rows += sum == sums[v] && graph.owner(v) == block.owner ? 0 : 1;
          }
          return Code::ok;
        });
        if (code != Code::ok) ++seen.failures;
      });
      if (job.rank() != idle && !job.barrier().ok()) ++seen.failures;
    }
    if (!job.barrier().ok()) ++phases[0].failures;
  });
  for (const Seen& seen : phases) {
    int wrong = 0;
    for (const std::atomic<int>& visits : seen.visits) wrong += visits == 1 ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(seen.wrong_rows == 0);
    CHECK(seen.failures == 0);
    CHECK(seen.left_by_others <= 1);
  }
}

TEST_CASE("algorithms whose vertices are taken over find what a serial computation finds") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), some_edges(kNumVertices, 400000));
  const VertexId source = 3;
  std::vector<std::uint32_t> depths;
  std::vector<double> ranks;
  std::vector<VertexId> labels;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), with_threads(1));
    depths = serial::bfs_depths(graph, source);
    ranks = serial::pagerank(graph, {.iterations = 10});
    Cdlp result(graph);
    cdlp(graph, {.iterations = 5}, {}, result);
    labels.assign(result.label.data(), result.label.data() + graph.num_owned());
  });
  const int num_ranks = GENERATE(2, 3);
  const int num_threads = GENERATE(1, 2);
  const int slow = GENERATE(0, 1);  // does nothing for a while in each step
  std::atomic<std::uint64_t> wrong{0};
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), with_threads(num_threads));
    RunOptions options;
    options.progress = [&](const char*, std::uint64_t) {
      if (job.rank() == slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    Bfs search(graph);
    bfs(graph, source, options, search);
    PageRank pages(graph);
    pagerank(graph, {.iterations = 10}, options, pages);
    PageRank settled(graph);
    pagerank(graph, {.iterations = 10, .tolerance = 1e-9}, options, settled);
    Cdlp communities(graph);
    cdlp(graph, {.iterations = 5}, options, communities);
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      wrong += search.depth[v] == depths[v] ? 0 : 1;
      wrong += std::abs(pages.rank[v] - ranks[v]) < 1e-9 * ranks[v] ? 0 : 1;
      wrong += std::abs(settled.rank[v] - ranks[v]) < 1e-9 * ranks[v] ? 0 : 1;
      wrong += communities.label[v] == labels[v] ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a state is not changed by ranks that are further while one still saves it") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), some_edges(kNumVertices, 400000));
  const VertexId source = 3;
  const int num_ranks = GENERATE(2, 3);
  const int slow = GENERATE(0, 1);
  std::atomic<std::uint64_t> num_states{0}, wrong{0};
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), with_threads(1));
    RunOptions options;
    options.wants_save = [](std::uint32_t) { return true; };
    // Not collective: each rank looks at its own part.
    const auto wait = [&] {
      if (job.rank() == slow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    Bfs search(graph);
    options.save = [&](std::uint32_t step) {
      wait();
      ++num_states;
      for (VertexId v = graph.first(); v < graph.last(); ++v)
        wrong += search.parent[v] == kNoVertex || search.depth[v] <= step ? 0 : 1;
    };
    bfs(graph, source, options, search);
    PageRank pages(graph);
    std::vector<double> before(graph.num_owned());
    options.save = [&](std::uint32_t) {
      std::copy_n(pages.rank.data(), before.size(), before.data());
      wait();
      ++num_states;
      wrong += std::equal(before.begin(), before.end(), pages.rank.data()) ? 0 : 1;
    };
    pagerank(graph, {.iterations = 4}, options, pages);
  });
  CHECK(num_states > 0);
  CHECK(wrong == 0);
}

TEST_CASE("rows that cannot be shared, at one rank, leave nothing shared") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), some_edges(kNumVertices, 60000));
  std::atomic<int> num_refused{0}, failures{0};
  on_ranks(2, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), with_threads(1));
    std::vector<transport::RemoteMemory> shared;
    std::uint64_t word = 0;
    // All that a rank may share, but one.
    for (transport::RemoteMemory memory; job.rank() == 1 && job.share(&word, 8, memory).ok();)
      shared.push_back(memory);
    const auto free_one = [&] {
      if (shared.empty()) return;
      if (!job.unshare(shared.back()).ok()) ++failures;
      shared.pop_back();
    };
    free_one();
    try {
      const SharedRows rows(graph, graph.out());
    } catch (const Error& error) {
      num_refused += error.status() == Code::no_memory ? 1 : 0;
    }
    free_one();
    // Now there is room for both of its memories.
    const SharedRows rows(graph, graph.out());
    if (!job.barrier().ok()) ++failures;
    for (const transport::RemoteMemory& memory : shared)
      if (!job.unshare(memory).ok()) ++failures;
  });
  CHECK(num_refused == 2);
  CHECK(failures == 0);
}
