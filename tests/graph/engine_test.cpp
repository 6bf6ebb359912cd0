// The engine with ranks and threads in one process: graphs are loaded by several ranks, and every
// algorithm finds what a serial computation finds.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "graph/programs/algorithms.hpp"
#include "graph/programs/serial.hpp"
#include "tests/graph/ranks.hpp"
#include "weft/graph.hpp"

using namespace weft;         // NOLINT(google-build-using-namespace)
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

struct Expected {
  std::vector<std::uint32_t> depths;
  std::vector<std::uint64_t> distances;
  std::vector<VertexId> components;
  std::vector<double> ranks;
};

}  // namespace

TEST_CASE(
    "rows that stay in a file are those of a graph in memory, however few are made at a time") {
  const TemporaryFile file(".bin");
  const std::string cache = file.path() + ".weft-cache";
  write_binary(file.path(), some_edges(400, 3000));
  const bool undirected = GENERATE(false, true);
  const Weights weights = GENERATE(Weights::none, Weights::file, Weights::hash);
  using Edges = std::vector<std::vector<std::pair<VertexId, Weight>>>;
  const auto edges_of = [](const Rows& rows, VertexId num_rows) {
    Edges edges;
    for (VertexId r = 0; r < num_rows; ++r) {
      edges.emplace_back();
      for (const auto& [to, weight] : rows.row(r)) edges.back().emplace_back(to, weight);
      std::sort(edges.back().begin(), edges.back().end());
    }
    return edges;
  };
  Edges out, in;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph =
        loadGraph(job, file.path(),
                  {.weights = weights, .undirected = undirected, .in_edges = true, .threads = 1});
    out = edges_of(graph.out(), graph.num_vertices());
    in = edges_of(graph.in(), graph.num_vertices());
  });
  const int num_ranks = GENERATE(1, 3);
  // A row at a time; rows of some; and all at once.
  const std::uint64_t part_bytes = GENERATE(1, 1200, 1 << 20);
  INFO(num_ranks << " ranks, " << part_bytes << " bytes at a time");
  std::mutex mutex;
  std::uint64_t num_wrong = 0, num_seen = 0;
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(),
                                  {.weights = weights,
                                   .undirected = undirected,
                                   .in_edges = true,
                                   .threads = 2 - job.rank() % 2,  // as on hosts of different cores
                                   .bind_threads = false,
                                   .stream = true,
                                   .part_bytes = part_bytes});
    const Edges my_out = edges_of(graph.out(), graph.num_owned());
    const Edges my_in = edges_of(graph.in(), graph.num_owned());
    const std::lock_guard lock(mutex);
    for (VertexId r = 0; r < graph.num_owned(); ++r) {
      num_wrong += my_out[r] != out[graph.first() + r] || my_in[r] != in[graph.first() + r] ? 1 : 0;
      ++num_seen;
    }
    if (graph.has_remote_rows()) ++num_wrong;
  });
  unlink(cache.c_str());
  CHECK(num_wrong == 0);
  CHECK(num_seen == out.size());
}

TEST_CASE("all algorithms find what a serial computation finds") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), some_edges(400, 3000));
  const VertexId source = 3;
  Expected expected;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), {.weights = Weights::file, .threads = 1});
    expected = {serial::bfs_depths(graph, source), serial::sssp_distances(graph, source),
                serial::components(graph), serial::pagerank(graph, {})};
  });

  const int num_ranks = GENERATE(1, 2, 3);
  const int num_threads = GENERATE(1, 2);
  const Combine combine = GENERATE(Combine::mirrors, Combine::edges);
  INFO(num_ranks << " ranks, " << num_threads << " threads");
  std::mutex mutex;
  std::uint64_t wrong = 0, seen = 0;
  on_ranks(num_ranks, [&](transport::Job& job) {
    RunOptions options;
    options.step.combine = combine;
    options.step.grain = 16;
    if (combine == Combine::edges) {
      options.step.schedule = Schedule::steal;
      options.step.exchange.pairing = transport::Pairing::thread_to_thread;
    }
    std::uint64_t num_wrong = 0;
    LoadOptions load{.weights = Weights::file, .threads = num_threads, .bind_threads = false};
    {
      const Graph graph = loadGraph(job, file.path(), load);
      Bfs bfs(graph);
      paper_bfs(graph, source, options, bfs);
      Sssp sssp(graph);
      paper_sssp(graph, source, options, sssp);
      PageRank pagerank(graph);
      paper_pagerank(graph, {}, options, pagerank);
      for (VertexId v = graph.first(); v < graph.last(); ++v) {
        num_wrong += bfs.depth[v] != expected.depths[v] ? 1 : 0;
        num_wrong += (bfs.parent[v] == kNoVertex) != (bfs.depth[v] == kUnreached) ? 1 : 0;
        num_wrong += sssp.distance[v] != expected.distances[v] ? 1 : 0;
        num_wrong +=
            std::abs(pagerank.rank[v] - expected.ranks[v]) > 1e-9 * expected.ranks[v] ? 1 : 0;
      }
    }
    load.undirected = true;
    const Graph graph = loadGraph(job, file.path(), load);
    Wcc wcc(graph);
    paper_wcc(graph, options, wcc);
    for (VertexId v = graph.first(); v < graph.last(); ++v)
      num_wrong += wcc.component[v] != expected.components[v] ? 1 : 0;
    const std::lock_guard lock(mutex);
    wrong += num_wrong;
    seen += graph.num_owned();
  });
  CHECK(wrong == 0);
  CHECK(seen == 400);
}

TEST_CASE("tasks that migrate are done once, and their results are the same") {
  const TemporaryFile file(".bin");
  std::vector<Edge> edges = some_edges(400, 3000);
  // The first rank has most of the edges, so the others have time.
  for (Edge& edge : edges) edge.source = edge.source % 4 == 0 ? edge.source : edge.source / 8;
  write_binary(file.path(), edges);
  const VertexId source = 3;
  Expected expected;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), {.weights = Weights::file, .threads = 1});
    expected = {serial::bfs_depths(graph, source),
                serial::sssp_distances(graph, source),
                {},
                serial::pagerank(graph, {})};
  });
  const int num_ranks = GENERATE(2, 3);
  const int num_threads = GENERATE(1, 2);
  const std::size_t cached_rows = GENERATE(0, 20);
  const bool remote_rows = GENERATE(true, false);
  std::mutex mutex;
  std::uint64_t wrong = 0, num_tasks = 0, rows_read = 0;
  on_ranks(num_ranks, [&](transport::Job& job) {
    RunOptions options;
    options.step.grain = cached_rows == 0 ? 1 : 0;  // which is taken for 1
    options.step.receive_every = cached_rows == 0 ? 100 : 0;
    options.step.migration = {
        .enabled = true, .block = 2, .threshold = 0, .cached_rows = cached_rows};
    std::uint64_t num_wrong = 0;
    const Graph graph = loadGraph(job, file.path(),
                                  {.weights = Weights::file,
                                   .remote_rows = remote_rows,
                                   .threads = num_threads,
                                   .bind_threads = false,
                                   .equal_cut = true});
    Bfs bfs(graph);
    paper_bfs(graph, source, options, bfs);
    Sssp sssp(graph);
    paper_sssp(graph, source, options, sssp);
    PageRank pagerank(graph);
    paper_pagerank(graph, {}, options, pagerank);
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      num_wrong += bfs.depth[v] != expected.depths[v] ? 1 : 0;
      num_wrong += sssp.distance[v] != expected.distances[v] ? 1 : 0;
      num_wrong +=
          std::abs(pagerank.rank[v] - expected.ranks[v]) > 1e-9 * expected.ranks[v] ? 1 : 0;
    }
    const std::lock_guard lock(mutex);
    wrong += num_wrong;
    num_tasks += graph.migration_counts().tasks;
    rows_read += graph.migration_counts().rows_read;
  });
  CHECK(wrong == 0);
  CHECK(rows_read <= num_tasks);
  if (!remote_rows) CHECK(num_tasks == 0);
}

TEST_CASE("a rank that has nothing left takes tasks of one that has") {
  const TemporaryFile file(".bin");
  const std::vector<Edge> edges = some_edges(400, 3000);
  write_binary(file.path(), edges);
  std::vector<std::uint32_t> expected(400);
  for (const Edge& edge : edges) ++expected[edge.destination];
  std::atomic<std::uint64_t> num_stolen{0}, num_wrong{0};
  std::atomic<bool> has_begun{false};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto wait_for = [&](auto&& condition) {
    while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  };
  on_ranks(2, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), {.threads = 1, .bind_threads = false});
    VertexArray<std::uint32_t> nothing(graph, 0), sum(graph, 0);
    VertexSet all(graph), out(graph);
    for (VertexId v = graph.first(); v < graph.last(); ++v) all.insert(v);
    StepOptions options{.mirrors = Mirrors::clear, .grain = 1};
    options.migration = {.enabled = true, .block = 2, .threshold = 0};
    processEdges(
        graph, nothing, sum, all, out,
        [&](VertexId v, std::uint32_t, const Neighbors& neighbors, auto& push) {
          // The first rank stands at its first task until one of the others has been taken; the
          // other, which asks it once, does not come before that.
          if (!graph.owns(v)) ++num_stolen;
          if (job.rank() == 0) {
            has_begun = true;
            wait_for([&] { return num_stolen > 0; });
          } else {
            wait_for([&] { return has_begun.load(); });
          }
          for (const auto& [to, weight] : neighbors) push(to, 1u);
        },
        [](std::uint32_t& mine, std::uint32_t more) {
          atomic_add(mine, more);
          return true;
        },
        options);
    for (VertexId v = graph.first(); v < graph.last(); ++v)
      if (sum[v] != expected[v]) ++num_wrong;
  });
  CHECK(num_stolen > 0);
  CHECK(num_wrong == 0);
}

TEST_CASE("the cache drops what is used least, and nothing that is new") {
  RowCache cache;
  for (VertexId v = 0; v < 10; ++v) cache.insert(v, {{v}, {}});
  CHECK(cache.insert(3, {{99}, {}})->vertices[0] == 3);
  for (VertexId v = 5; v < 10; ++v) CHECK(cache.find(v)->vertices[0] == v);
  for (int round = 0; round < 4; ++round) cache.end_round(4);
  CHECK(cache.size() == 10);
  cache.insert(20, {{20}, {}});
  cache.end_round(6);
  CHECK(cache.size() == 6);
  for (VertexId v = 0; v < 5; ++v) CHECK(cache.find(v) == nullptr);
  CHECK(cache.find(9) != nullptr);
  CHECK(cache.find(20) != nullptr);
}

TEST_CASE("the fastest algorithms find the same") {
  // Small-world, and a long path with branches between the ranks.
  const bool is_long = GENERATE(false, true);
  const TemporaryFile file(".bin");
  std::vector<Edge> edges;
  if (is_long)
    for (std::uint32_t i = 0; i < 399; ++i) {
      const std::uint32_t a = i * 97 % 400, b = (i + 1) * 97 % 400;
      edges.push_back({a, b, 1 + i % 7});
      edges.push_back({b, a, 2 + i % 5});
      if (i % 11 == 0) edges.push_back({a, (i + 40) * 97 % 400, 90});
    }
  else
    edges = some_edges(400, 3000);
  write_binary(file.path(), edges);
  const VertexId source = is_long ? 0 : 3;
  Expected expected;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(), {.weights = Weights::file, .threads = 1});
    expected = {serial::bfs_depths(graph, source), serial::sssp_distances(graph, source),
                serial::components(graph), serial::pagerank(graph, {})};
  });
  const int num_ranks = GENERATE(1, 2, 3);
  const int num_threads = GENERATE(1, 2);
  const bool in_edges = GENERATE(false, true);
  INFO(num_ranks << " ranks, " << num_threads << " threads");
  std::mutex mutex;
  std::uint64_t wrong = 0;
  std::vector<VertexId> parents(400);
  on_ranks(num_ranks, [&](transport::Job& job) {
    RunOptions options;
    options.mode = in_edges ? Mode::automatic : Mode::push;
    const Graph graph = loadGraph(job, file.path(),
                                  {.weights = Weights::file,
                                   .in_edges = in_edges,
                                   .threads = num_threads,
                                   .bind_threads = false});
    Bfs found_bfs(graph);
    Sssp found_sssp(graph);
    Wcc found_wcc(graph);
    PageRank found_pagerank(graph);
    for (int again = 0; again < 2; ++again) bfs(graph, source, options, found_bfs);
    sssp(graph, source, options, found_sssp);
    options.delta = 1;  // buckets that do not fit in the window that is kept
    sssp(graph, source, options, found_sssp);
    wcc(graph, options, found_wcc);
    pagerank(graph, {}, options, found_pagerank);
    std::uint64_t num_wrong = 0;
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      num_wrong += found_bfs.depth[v] != expected.depths[v] ? 1 : 0;
      num_wrong += found_sssp.distance[v] != expected.distances[v] ? 1 : 0;
      num_wrong += found_wcc.component[v] != expected.components[v] ? 1 : 0;
      num_wrong +=
          std::abs(found_pagerank.rank[v] - expected.ranks[v]) > 1e-9 * expected.ranks[v] ? 1 : 0;
      parents[v] = found_bfs.parent[v];
    }
    const std::lock_guard lock(mutex);
    wrong += num_wrong;
  });
  CHECK(wrong == 0);
  std::vector<bool> confirmed(400);
  for (const Edge& edge : edges)
    if (parents[edge.destination] == edge.source) confirmed[edge.destination] = true;
  for (VertexId v = 0; v < 400; ++v) {
    if (expected.depths[v] == kUnreached) {
      CHECK(parents[v] == kNoVertex);
    } else if (v == source) {
      CHECK(parents[v] == source);
    } else {
      REQUIRE(confirmed[v]);
      CHECK(expected.depths[parents[v]] + 1 == expected.depths[v]);
    }
  }
}

TEST_CASE("a search alone finds all under every schedule") {
  const TemporaryFile file(".bin");
  write_binary(file.path(), some_edges(400, 3000));
  const Schedule schedule = GENERATE(Schedule::grab, Schedule::steal, Schedule::fixed);
  const bool in_edges = GENERATE(false, true);
  std::uint64_t wrong = 0;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph =
        loadGraph(job, file.path(), {.in_edges = in_edges, .threads = 3, .bind_threads = false});
    RunOptions options;
    options.step.schedule = schedule;
    Bfs found(graph);
    bfs(graph, 3, options, found);
    const std::vector<std::uint32_t> right = serial::bfs_depths(graph, 3);
    for (VertexId v = 0; v < graph.num_vertices(); ++v) wrong += found.depth[v] != right[v] ? 1 : 0;
  });
  CHECK(wrong == 0);
}

TEST_CASE("paths over weights with fractions are the shortest, in all bits") {
  // From tiny to huge ones, and none at all.
  const std::vector<float> kinds = {0, 1e-40f, 0.1f, 1 / 3.f, 2.5f, 1e9f, 3e38f};
  std::vector<Edge> edges = some_edges(400, 3000);
  for (Edge& edge : edges)
    edge.weight = std::bit_cast<std::uint32_t>(kinds[edge.weight % kinds.size()] *
                                               (1 + static_cast<float>(edge.weight) / 1000));
  std::vector<double> right(400, INFINITY);
  right[3] = 0;
  for (bool changed = true; std::exchange(changed, false);)
    for (const Edge& edge : edges) {
      const double sum = right[edge.source] + std::bit_cast<float>(edge.weight);
      changed |= sum < right[edge.destination];
      right[edge.destination] = std::min(right[edge.destination], sum);
    }
  const TemporaryFile file(".wgemini");
  write_binary(file.path(), edges);
  const int num_ranks = GENERATE(1, 2, 3), num_threads = GENERATE(1, 2);
  std::atomic<std::uint64_t> wrong{0};
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(),
                                  {.format = FileFormat::gemini_weighted,
                                   .weights = Weights::real,
                                   .threads = num_threads,
                                   .bind_threads = false});
    Sssp found(graph);
    for (const Mode mode : {Mode::automatic, Mode::paper})
      for (const double delta : {0.0, 1e-300, 1e300}) {
        RunOptions options;
        options.mode = mode;
        options.delta = delta;
        sssp(graph, 3, options, found);
        for (VertexId v = graph.first(); v < graph.last(); ++v)
          wrong += found.distance[v] == kFar ? std::isfinite(right[v])
                                             : real_distance(found.distance[v]) != right[v];
        const SsspSummary sum = summarize(graph, found);
        wrong +=
            sum.reached != static_cast<std::uint64_t>(std::count_if(
                               right.begin(), right.end(), [](double d) { return d < INFINITY; }));
        wrong += sum.max_distance + sum.sum_distance != 0;
        wrong += sum.max_real != right[sum.farthest];
      }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a vertex below one thread's buckets is not passed over by another thread") {
  // The first thread alone does the source, and keeps a vertex at 20000, beyond its buckets. Both
  // do the first crowd, and get vertices at 20001, which is where the second one's buckets begin
  // then. Both do the second crowd, before anything so far away, so the second thread puts vertices
  // at 5 into its first bucket. They are done with those at 20001, by the first thread alone, whose
  // buckets begin at 20000.
  std::vector<Edge> edges;
  std::uint32_t next = 1;
  constexpr std::uint32_t kCrowd = 2000;
  edges.push_back({0, next++, 20000});
  // The first that are taken have much to look at, so that the other thread comes in time.
  const auto crowd = [&](std::uint32_t from, std::uint32_t every, std::uint32_t weight) {
    const std::uint32_t first = next;
    next += kCrowd;
    for (std::uint32_t i = 0; i < kCrowd; ++i) {
      edges.push_back({from, first + i, 1});
      for (int e = 0; i < 64 && e < 8000; ++e) edges.push_back({first + i, 0, 1});
      if (i % every != 0) continue;
      edges.push_back({first + i, next, weight});
      edges.push_back({next, next + 1, 1});
      next += 2;
    }
    return first;
  };
  const std::uint32_t first = crowd(0, 64, 20000);
  const std::uint32_t second = next, third = next + 1;
  next += 2;
  edges.push_back({first, second, 1});
  edges.push_back({second, third, 1});
  crowd(third, 8, 1);
  const TemporaryFile file(".bin");
  write_binary(file.path(), edges);
  std::uint64_t wrong = 0;
  on_ranks(1, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(),
                                  {.weights = Weights::file, .threads = 2, .bind_threads = false});
    RunOptions options;
    options.delta = 1;
    const std::vector<std::uint64_t> right = serial::sssp_distances(graph, 0);
    Sssp found(graph);
    for (int again = 0; again < 20; ++again) {
      sssp(graph, 0, options, found);
      for (VertexId v = 0; v < graph.num_vertices(); ++v)
        wrong += found.distance[v] != right[v] ? 1 : 0;
    }
  });
  CHECK(wrong == 0);
}

// In two ranks of two threads, one thread of each is done at once, and the other sends far more
// than a ring holds to the one that is done. Nobody gets on if that one only waits for its team.
TEST_CASE("threads that are done receive what is sent to them") {
  constexpr std::uint32_t kPart = 20000;  // vertices of a rank
  constexpr std::pair<const char*, const char*> kSmallRings[] = {{"WEFT_RING_MIN_BYTES", "16384"},
                                                                 {"WEFT_RING_MAX_BYTES", "16384"},
                                                                 {"WEFT_EAGER_MAX_BYTES", "2048"}};
  std::vector<Edge> edges = {{0, 1, 1}, {0, 2, 1}, {0, kPart, 1}, {0, kPart + 1, 1}};
  for (std::uint32_t i = 3; i < kPart; ++i) {
    edges.push_back({2, kPart + i, 1});
    edges.push_back({kPart, i, 1});
  }
  const TemporaryFile file(".bin");
  write_binary(file.path(), edges);
  const bool by_program = GENERATE(false, true);
  std::atomic<std::uint64_t> num_wrong{0};
  for (const auto& [name, value] : kSmallRings) REQUIRE(setenv(name, value, 1) == 0);
  alarm(120);
  on_ranks(2, [&](transport::Job& job) {
    const Graph graph =
        loadGraph(job, file.path(), {.threads = 2, .bind_threads = false, .equal_cut = true});
    RunOptions options;
    options.mode = by_program ? Mode::paper : Mode::push;
    options.step.combine = Combine::edges;
    options.step.schedule = Schedule::fixed;
    Bfs found(graph);
    bfs(graph, 0, options, found);
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      const VertexId place = v % kPart;
      const std::uint32_t depth = v == 0                ? 0
                                  : place < 2 || v == 2 ? 1
                                  : place == 2          ? kUnreached
                                                        : 2;
      if (found.depth[v] != depth) ++num_wrong;
    }
  });
  alarm(0);
  for (const auto& [name, value] : kSmallRings) unsetenv(name);
  CHECK(num_wrong == 0);
}

TEST_CASE("every rank has exactly its own edges, whatever format they come in") {
  const std::vector<Edge> edges = some_edges(500, 4000);
  const std::string suffix = GENERATE(".bin", ".wel", ".mtx");
  const TemporaryFile file(suffix);
  if (suffix == ".bin") {
    write_binary(file.path(), edges);
  } else {
    std::ofstream out(file.path());
    const unsigned base = suffix == ".mtx" ? 1 : 0;
    if (base == 1) out << "%%MatrixMarket matrix coordinate integer general\n500 500 4001\n";
    for (const Edge& edge : edges)
      out << edge.source + base << (edge.source % 2 == 0 ? " " : "\t") << edge.destination + base
          << " " << edge.weight << "\n";
  }
  const bool undirected = GENERATE(false, true);
  const bool in_edges = GENERATE(false, true);
  const int num_ranks = GENERATE(1, 3);
  const int num_threads = GENERATE(2, 9);  // who count edges apart in one rank, and who do not
  using Triple = std::tuple<VertexId, VertexId, Weight>;
  std::vector<Triple> right_out, right_in;
  for (const Edge& e : edges) {
    right_out.emplace_back(e.source, e.destination, e.weight);
    if (undirected && e.source != e.destination)
      right_out.emplace_back(e.destination, e.source, e.weight);
  }
  std::vector<std::uint64_t> degrees(500);
  Weight largest_weight = 0;
  for (const auto& [u, v, w] : right_out) {
    right_in.emplace_back(v, u, w);
    ++degrees[u];
    largest_weight = std::max(largest_weight, w);
  }
  double mean_degree = 0;
  for (const auto& [u, v, w] : right_out)
    mean_degree += static_cast<double>(degrees[u]) / static_cast<double>(right_out.size());
  std::mutex mutex;
  std::vector<Triple> out, in;
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, file.path(),
                                  {.weights = Weights::file,
                                   .undirected = undirected,
                                   .in_edges = in_edges,
                                   .remote_rows = in_edges,
                                   .threads = num_threads,
                                   .bind_threads = false});
    const std::lock_guard lock(mutex);
    CHECK(graph.num_vertices() == 500);
    CHECK(graph.num_edges() == right_out.size());
    CHECK(graph.has_remote_rows() == (in_edges && num_ranks > 1));
    CHECK(graph.edge_facts().largest_weight == largest_weight);
    CHECK(graph.edge_facts().mean_degree == Approx(mean_degree));
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      CHECK(graph.owner(v) == job.rank());
      for (const auto& [to, weight] : graph.out_edges(v)) out.emplace_back(v, to, weight);
      if (graph.has_in_edges())
        for (const auto& [from, weight] : graph.in().row(v - graph.first()))
          in.emplace_back(v, from, weight);
    }
  });
  for (std::vector<Triple>* list : {&right_out, &right_in, &out, &in})
    std::sort(list->begin(), list->end());
  CHECK(out == right_out);
  if (in_edges || undirected) CHECK(in == right_in);
}

TEST_CASE("what one rank finds wrong, all ranks throw") {
  const TemporaryFile file(".el");
  {
    std::ofstream out(file.path());
    for (int i = 0; i < 100; ++i) out << i << " " << i + 1 << "\n";
    out << "17 x\n";
    for (int i = 0; i < 100; ++i) out << i << " " << i + 1 << "\n";
  }
  std::atomic<int> told{0};
  on_ranks(3, [&](transport::Job& job) {
    try {
      loadGraph(job, file.path(), {.threads = 2, .bind_threads = false});
    } catch (const Error& error) {
      const std::string text = error.status().text();
      if (error.status() == Code::corrupt &&
          text.starts_with(file.path() + ":101: expected two vertex ids") &&
          text.ends_with("found \"17 x\""))
        ++told;
    }
  });
  CHECK(told == 3);
}

#if WEFT_GRAPH_VERTEX_BITS == 64
TEST_CASE("vertices of which no memory holds as many are refused") {
  const TemporaryFile file(".el");
  const std::uint64_t last = GENERATE(std::uint64_t{1} << 62, (std::uint64_t{1} << 48) + 1);
  std::ofstream(file.path()) << "0 " << last << "\n";
  bool is_told = false;
  on_ranks(1, [&](transport::Job& job) {
    try {
      loadGraph(job, file.path(), {.threads = 1, .bind_threads = false});
    } catch (const Error& error) {
      is_told = error.status() == Code::no_memory;
    }
  });
  CHECK(is_told);
}
#endif

TEST_CASE("what all threads use is spread over the NUMA nodes") {
  const int num_ranks = GENERATE(1, 2);
  std::string policy;
  on_ranks(num_ranks, [&](transport::Job& job) {
    const Buffer<std::uint64_t> buffer(&job, 1 << 20);
    buffer[0] = 1;
    if (job.rank() != 0) return;
    char start[32];
    std::snprintf(start, sizeof start, "%lx ",
                  static_cast<unsigned long>(reinterpret_cast<std::uintptr_t>(buffer.data())));
    std::ifstream maps("/proc/self/numa_maps");
    for (std::string line; std::getline(maps, line);)
      if (line.starts_with(start)) policy = line.substr(std::strlen(start));
  });
  if (policy.empty() || policy.starts_with("default")) {
    WARN("skipped: this kernel has no memory policies, or refuses them here");
    return;
  }
  CHECK(policy.starts_with("interleave"));
}
