// The parts of arrays that a rank touches: blocks in which it has vertices or neighbors. Algorithms
// are right where these are few, and their memory is that of these blocks.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "graph/common/agree.hpp"
#include "graph/common/neighbor_values.hpp"
#include "graph/programs/algorithms.hpp"
#include "graph/programs/serial.hpp"
#include "tests/graph/ranks.hpp"
#include "weft/graph.hpp"

using namespace weft;         // NOLINT(google-build-using-namespace)
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint32_t kSide = 300;
constexpr VertexId kVertices = kSide * kSide;

// Both directions of the edges of a grid, of every 100 so many; with 50, thousands of components.
std::vector<Edge> grid_edges(std::uint32_t of_100) {
  std::vector<Edge> edges;
  std::uint64_t state = 88172645463325252ull;
  const auto add = [&](std::uint32_t u, std::uint32_t v) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    if ((state >> 33) % 100 >= of_100) return;
    const auto weight = static_cast<std::uint32_t>(1 + (state >> 40) % 100);
    edges.push_back({u, v, weight});
    edges.push_back({v, u, weight});
  };
  for (std::uint32_t y = 0; y < kSide; ++y)
    for (std::uint32_t x = 0; x < kSide; ++x) {
      const std::uint32_t v = y * kSide + x;
      if (x + 1 < kSide) add(v, v + 1);
      if (y + 1 < kSide) add(v, v + kSide);
    }
  edges.push_back({kVertices - 1, kVertices - 1, 1});
  return edges;
}

// Bytes of an array's pages that are in memory.
template <class T>
std::size_t resident_bytes(const T* values, std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size * sizeof(T) + page - 1) / page);
  REQUIRE(mincore(const_cast<T*>(values), size * sizeof(T), pages.data()) == 0);
  std::size_t sum = 0;
  for (const unsigned char resident : pages) sum += (resident & 1) != 0 ? page : 0;
  return sum;
}

LoadOptions with_threads(int threads) {
  return {.weights = Weights::file,
          .in_edges = true,
          .remote_rows = false,
          .threads = threads,
          .bind_threads = false};
}

// Of the whole graph, by one thread.
struct Answers {
  std::vector<std::uint32_t> depths;
  std::vector<std::uint64_t> distances;
  std::vector<VertexId> components, labels;
  std::vector<double> ranks;
};

Answers answers_of(const std::string& path, VertexId source) {
  Answers answers;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, path, with_threads(1));
    answers = {serial::bfs_depths(graph, source), serial::sssp_distances(graph, source),
               serial::components(graph), serial::labels(graph, 5),
               serial::pagerank(graph, {.iterations = 5})};
  });
  return answers;
}

}  // namespace

TEST_CASE("ranges are the blocks that have a vertex") {
  const VertexId size = 100 * Reach::kBlock + 7;
  const int percent = GENERATE(0, 2, 50, 98, 100);
  Reach reach(size);
  std::vector<bool> has(reach.num_blocks());
  std::uint64_t state = 1;
  for (std::size_t b = 0; b < has.size(); ++b) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    if ((state >> 33) % 100 >= static_cast<unsigned>(percent)) continue;
    has[b] = true;
    reach.add(std::min<VertexId>(size - 1, static_cast<VertexId>(b * Reach::kBlock + b % 512)));
  }
  CHECK(reach.count() == static_cast<std::size_t>(std::count(has.begin(), has.end(), true)));
  for (const auto& [first, last] : {std::pair<VertexId, VertexId>{0, size},
                                    {5, 700},
                                    {1024, 1024},
                                    {1023, 64 * 512 + 1},
                                    {size - 1, size}}) {
    std::vector<bool> visited(size);
    VertexId before = 0;
    bool is_apart = true;
    reach.for_each(first, last, [&](VertexId begin, VertexId end) {
      is_apart = is_apart && begin < end && (before == 0 || begin > before);
      before = end;
      for (VertexId v = begin; v < end; ++v) visited[v] = true;
    });
    CHECK(is_apart);
    int wrong = 0;
    for (VertexId v = 0; v < size; ++v)
      wrong += visited[v] == (v >= first && v < last && has[v / 512]) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("the memory of values falls with the number of ranks") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), grid_edges(100));
  const auto measure = [&](int num_ranks) {
    std::atomic<std::size_t> most{0};
    on_ranks(num_ranks, [&](transport::Job& job) {
      const Graph graph = loadGraph(job, file.path(), with_threads(1));
      const VertexArray<double> mirrors(graph, 1);
      OwnedArray<double> own(graph);
      std::fill_n(own.data(), graph.num_owned(), 1);
      NeighborValues<double> neighbors(graph);
      throw_if(job.barrier());
      neighbors.gather(own);
      const std::size_t sum =
          resident_bytes(mirrors.data(), kVertices) + resident_bytes(neighbors.data(), kVertices);
      std::size_t seen = most;
      while (seen < sum && !most.compare_exchange_weak(seen, sum)) continue;
      throw_if(job.barrier());
    });
    return static_cast<double>(most);
  };
  const double alone = measure(1);
  CHECK(measure(2) <= 0.6 * alone);
  CHECK(measure(4) <= 0.35 * alone);
  CHECK(measure(8) <= 0.25 * alone);
}

TEST_CASE("algorithms are right where ranks have few vertices of others") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), grid_edges(GENERATE(52, 100)));
  const VertexId source = kVertices / 2;
  const auto [depths, distances, components, labels, ranks] = answers_of(file.path(), source);
  const int num_ranks = GENERATE(2, 5);
  const int num_threads = GENERATE(1, 2);
  std::atomic<std::uint64_t> wrong_depths{0}, wrong_distances{0}, wrong_components{0};
  std::atomic<std::uint64_t> wrong_ranks{0}, wrong_labels{0}, num_taken{0};
  on_ranks(num_ranks, [&](transport::Job& job) {
    LoadOptions load = with_threads(num_threads);
    // The first has most vertices, and is slow: others take some over, far from their own.
    load.shares.assign(static_cast<std::size_t>(num_ranks), 1);
    load.shares[0] = 20;
    const Graph graph = loadGraph(job, file.path(), load);
    RunOptions slow;
    slow.progress = [&](const char*, std::uint64_t) {
      if (job.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    Bfs search(graph);
    bfs(graph, source, {}, search);
    Sssp paths(graph);
    sssp(graph, source, {}, paths);
    Wcc whole(graph);
    wcc(graph, {}, whole);
    PageRank pages(graph);
    pagerank(graph, {.iterations = 5}, slow, pages);
    Cdlp communities(graph);
    cdlp(graph, {.iterations = 5}, slow, communities);
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      wrong_depths += search.depth[v] == depths[v] ? 0 : 1;
      wrong_distances += paths.distance[v] == distances[v] ? 0 : 1;
      wrong_components += whole.component[v] == components[v] ? 0 : 1;
      wrong_ranks += std::abs(pages.rank[v] - ranks[v]) < 1e-9 * ranks[v] ? 0 : 1;
      wrong_labels += communities.label[v] == labels[v] ? 0 : 1;
    }
    num_taken += graph.migration_counts().tasks;
  });
  CHECK(wrong_depths == 0);
  CHECK(wrong_distances == 0);
  CHECK(wrong_components == 0);
  CHECK(wrong_ranks == 0);
  CHECK(wrong_labels == 0);
  CHECK(num_taken > 0);
}

TEST_CASE("vertex programs, and what goes on from their states, where ranks have few of others") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), grid_edges(52));
  const VertexId source = kVertices / 2;
  const auto [depths, distances, components, labels, ranks] = answers_of(file.path(), source);
  const int num_ranks = GENERATE(2, 3, 6);
  const bool migrates = GENERATE(false, true);
  std::atomic<std::uint64_t> wrong{0}, wrong_resumed{0};
  on_ranks(num_ranks, [&](transport::Job& job) {
    LoadOptions load = with_threads(1);
    load.undirected = true;
    load.remote_rows = migrates;
    load.equal_cut = true;
    const Graph graph = loadGraph(job, file.path(), load);
    RunOptions options;
    options.mode = Mode::paper;
    options.step.migration = {.enabled = migrates, .block = 2, .threshold = 0};
    Bfs search(graph);
    bfs(graph, source, options, search);
    Sssp paths(graph);
    sssp(graph, source, options, paths);
    Wcc whole(graph), state(graph);
    options.wants_save = [](std::uint32_t step) { return step == 2; };
    options.save = [&](std::uint32_t) {
      std::copy_n(whole.component.data(), graph.num_owned(), state.component.data());
    };
    wcc(graph, options, whole);
    RunOptions rest;
    rest.resume_step = 2;
    wcc(graph, rest, state);
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      wrong += search.depth[v] == depths[v] ? 0 : 1;
      wrong += paths.distance[v] == distances[v] ? 0 : 1;
      wrong += whole.component[v] == components[v] ? 0 : 1;
      wrong_resumed += state.component[v] == components[v] ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
  CHECK(wrong_resumed == 0);
}
