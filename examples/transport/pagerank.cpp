// pagerank: PageRank by push over a graph whose vertices are spread over the ranks, checked against
// a serial computation.
//
//   weftrun -n 2 pagerank GRAPH [--threads T] [--iterations N]
//
// GRAPH: lines "source destination", vertices from 0; a name that ends in .gz is read through gzip.
//
// Rank r owns a range of the vertices and their edges out. In an iteration its threads share its
// vertices among them; each pushes rank / degree along every edge to the owner of the destination,
// and adds up what comes to vertices of its own rank. The values of a vertex come to different
// threads, hence the atomic addition. An iteration ends with quiesce(), not before all is added up.
// Every vertex begins with 1; new = 0.15 + 0.85 * sum of what came; what has no edges out gives
// nothing.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "report.hpp"
#include "weft/weft.hpp"

namespace {

struct Edge {
  std::uint32_t from, to;
};

std::vector<Edge> read_graph(const std::string& name, std::uint32_t& num_vertices) {
  const bool zipped = name.size() > 3 && name.substr(name.size() - 3) == ".gz";
  std::FILE* file =
      zipped ? popen(("gzip -dc '" + name + "'").c_str(), "r") : std::fopen(name.c_str(), "r");
  std::vector<Edge> edges;
  num_vertices = 0;
  if (file == nullptr) return edges;
  Edge edge{};
  while (std::fscanf(file, "%u %u", &edge.from, &edge.to) == 2) {
    edges.push_back(edge);
    num_vertices = std::max({num_vertices, edge.from + 1, edge.to + 1});
  }
  zipped ? pclose(file) : std::fclose(file);
  return edges;
}

std::vector<double> serial_pagerank(const std::vector<Edge>& edges, std::uint32_t num_vertices,
                                    int num_iterations) {
  std::vector<std::uint32_t> degree(num_vertices);
  for (const Edge& edge : edges) ++degree[edge.from];
  std::vector<double> rank(num_vertices, 1), next(num_vertices);
  for (int i = 0; i < num_iterations; ++i) {
    std::fill(next.begin(), next.end(), 0);
    for (const Edge& edge : edges) next[edge.to] += rank[edge.from] / degree[edge.from];
    for (std::uint32_t v = 0; v < num_vertices; ++v) rank[v] = 0.15 + 0.85 * next[v];
  }
  return rank;
}

// What travels along an edge.
struct Push {
  std::uint32_t vertex;
  float value;
};

}  // namespace

int main(int argc, char** argv) {
  const char* text = option(argc, argv, "--threads");
  const int num_threads = text != nullptr ? std::atoi(text) : 2;
  text = option(argc, argv, "--iterations");
  const int num_iterations = text != nullptr ? std::atoi(text) : 20;
  std::uint32_t num_vertices = 0;
  std::vector<Edge> edges;
  if (argc > 1) edges = read_graph(argv[1], num_vertices);
  if (edges.empty()) {
    std::fprintf(stderr, "usage: pagerank GRAPH [--threads T] [--iterations N]\n");
    return 2;
  }

  weft::Job job;
  const std::uint32_t share =
      (num_vertices + static_cast<unsigned>(job.size()) - 1) / static_cast<unsigned>(job.size());
  const std::uint32_t first = std::min(num_vertices, share * static_cast<unsigned>(job.rank()));
  const std::uint32_t mine = std::min(num_vertices, first + share) - first;

  // The edges out of this rank's vertices, by source.
  std::vector<std::uint32_t> begin(mine + 1), targets;
  for (const Edge& edge : edges)
    if (edge.from - first < mine) ++begin[edge.from - first + 1];
  for (std::uint32_t v = 0; v < mine; ++v) begin[v + 1] += begin[v];
  targets.resize(begin[mine]);
  std::vector<std::uint32_t> place(begin.begin(), begin.end() - 1);
  for (const Edge& edge : edges)
    if (edge.from - first < mine) targets[place[edge.from - first]++] = edge.to;

  weft::Exchange<Push> exchange(job, num_threads);
  std::vector<double> rank(mine, 1);
  std::vector<std::atomic<double>> sums[2];  // of even and of odd iterations
  for (auto& sum : sums) sum = std::vector<std::atomic<double>>(mine);
  std::atomic<bool> failed{false};
  const auto work = [&](int thread) {
    const auto part = [&](int t) {
      return static_cast<std::uint32_t>(std::uint64_t{mine} * static_cast<unsigned>(t) /
                                        static_cast<unsigned>(num_threads));
    };
    for (int i = 0; i < num_iterations && !failed; ++i) {
      const auto add = [&](const Push& push) {
        sums[i % 2][push.vertex - first].fetch_add(push.value, std::memory_order_relaxed);
      };
      Push push{};
      for (std::uint32_t v = part(thread); v < part(thread + 1); ++v) {
        const auto value = static_cast<float>(rank[v] / (begin[v + 1] - begin[v]));
        for (std::uint32_t e = begin[v]; e < begin[v + 1]; ++e)
          if (exchange.send(static_cast<int>(targets[e] / share), thread, {targets[e], value}) !=
              weft::Code::ok)
            failed = true;
        // A look at what has come, so that the rings do not fill.
        while (exchange.receive(thread, push)) add(push);
      }
      // What the blocks still hold travels while others push.
      if (exchange.flushSend(thread) != weft::Code::ok) failed = true;
      if (!exchange.quiesce(thread, add).ok()) failed = true;
      // The sums are complete. What the others push from now on goes to the other array.
      for (std::uint32_t v = part(thread); v < part(thread + 1); ++v)
        rank[v] = 0.15 + 0.85 * sums[i % 2][v].exchange(0, std::memory_order_relaxed);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < num_threads; ++t) threads.emplace_back(work, t);
  work(0);
  for (auto& thread : threads) thread.join();

  std::vector<double> all;
  std::vector<std::size_t> counts;
  if (failed || !job.all_gather(std::span<const double>(rank), all, counts).ok()) {
    std::fprintf(stderr, "rank %d: a rank was lost\n", job.rank());
    return 1;
  }
  if (job.rank() != 0) return 0;
  const std::vector<double> right = serial_pagerank(edges, num_vertices, num_iterations);
  double worst = 0, sum = 0;
  for (std::uint32_t v = 0; v < num_vertices; ++v) {
    worst = std::max(worst, std::abs(all[v] - right[v]) / right[v]);
    sum += all[v];
  }
  const bool good = all.size() == num_vertices && worst < 1e-5;
  std::printf(
      "%u vertices, %zu edges, %d iterations: sum %.3f, at most %.1e from the serial "
      "result: %s\n",
      num_vertices, edges.size(), num_iterations, sum, worst, good ? "right" : "WRONG");
  return good ? 0 : 1;
}
