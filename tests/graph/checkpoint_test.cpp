// Runs that go on from a checkpoint: each algorithm saves its state after every step, and from
// these files others go on, with another number of ranks and threads and in another mode, to the
// values of a run that was never interrupted.
#include "graph/engine/checkpoint.hpp"

#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <set>

#include "graph/common/agree.hpp"
#include "tests/graph/ranks.hpp"
#include "tools/weft-graph/run_state.hpp"
#include "weft/graph.hpp"

using namespace weft;         // NOLINT(google-build-using-namespace)
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kStates = 6;  // that are gone on from, of each way to save them

// A folder that goes with the test, in memory, as hundreds of states are saved.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (mkdtemp(path_.data()) == nullptr) FAIL("cannot make a folder");
  }
  ~TemporaryFolder() {
    for (const std::string& name : names_) std::remove(name.c_str());
    rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  // Any thread.
  std::string file(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    return *names_.insert(path_ + "/" + std::to_string(number)).first;
  }
  const std::set<std::string>& names() const { return names_; }

 private:
  std::string path_ = "/dev/shm/weft-checkpoint-XXXXXX";
  std::mutex mutex_;
  std::set<std::string> names_;
};

struct Way {
  int num_ranks, num_threads;
  Mode mode = Mode::automatic;
};

template <class Body>
void on_graph(const std::string& path, const Way& way, Body&& body) {
  on_ranks(way.num_ranks, [&](transport::Job& job) {
    const Graph graph = loadGraph(job, path,
                                  {.weights = Weights::file,
                                   .undirected = true,
                                   .in_edges = true,
                                   .remote_rows = false,
                                   .threads = way.num_threads,
                                   .bind_threads = false});
    body(graph);
  });
}

// run(graph, options, result) for each way that saves, and from each state again. Where it is to be
// saved, values(result, v) of all vertices are compared.
template <class Result, class Run, class Value>
void check_every_state(const std::vector<Edge>& edges, const std::vector<Way>& ways,
                       std::size_t least_states, Run&& run, Value&& value) {
  const TemporaryFile file(".bin");
  write_binary(file.path(), edges);
  std::vector<double> right;
  on_graph(file.path(), {1, 1}, [&](const Graph& graph) {
    Result result(graph);
    run(graph, {}, result);
    for (VertexId v = 0; v < graph.num_vertices(); ++v) right.push_back(value(graph, result, v));
  });
  std::atomic<std::uint64_t> num_wrong{0}, num_seen{0}, num_impossible{0};
  const auto compare = [&](const Graph& graph, const Result& result) {
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      ++num_seen;
      if (std::abs(value(graph, result, v) - right[v]) > 1e-9 * std::abs(right[v])) ++num_wrong;
    }
  };
  std::uint64_t num_runs = 0;
  for (const Way& way : ways) {
    TemporaryFolder folder;
    const auto options_of = [&](const Graph& graph, const CheckpointKey& key, Result& result,
                                Mode mode) {
      RunOptions options;
      options.mode = mode;
      options.wants_save = [](std::uint32_t) { return true; };
      options.save = [&graph, &key, &result, &folder](std::uint32_t step) {
        throw_if(save_checkpoint(graph, key, {step, 3, "found"}, folder.file(step),
                                 columns_of(graph, result)));
      };
      return options;
    };
    INFO("saved by " << way.num_ranks << " ranks of " << way.num_threads << " threads, mode "
                     << static_cast<int>(way.mode));
    on_graph(file.path(), way, [&](const Graph& graph) {
      const CheckpointKey key = checkpoint_key(graph, "test");
      Result result(graph);
      run(graph, options_of(graph, key, result, way.mode), result);
      compare(graph, result);
    });
    ++num_runs;
    const std::vector<std::string> states(folder.names().begin(), folder.names().end());
    CHECK(states.size() >= least_states);
    const std::size_t stride = states.size() / kStates + 1;
    for (std::size_t number = 0; number < states.size(); number += stride) {
      const std::string& state = states[number];
      const Way& next = ways[(number / stride + 1) % ways.size()];
      on_graph(file.path(), next, [&](const Graph& graph) {
        const CheckpointKey key = checkpoint_key(graph, "test");
        Result result(graph);
        RunProgress progress;
        throw_if(load_checkpoint(graph, key, state, columns_of(graph, result), progress));
        if (progress.num_ended != 3 || progress.found != "found") ++num_wrong;
        for (VertexId v = graph.first(); v < graph.last(); ++v)
          if (!is_possible(graph, result, v, progress.step)) ++num_impossible;
        RunOptions options = options_of(graph, key, result, next.mode);
        if (number % 3 != 0) options.wants_save = {};
        options.resume_step = progress.step;
        run(graph, options, result);
        compare(graph, result);
      });
      ++num_runs;
    }
  }
  CHECK(num_wrong == 0);
  CHECK(num_impossible == 0);
  CHECK(num_seen == num_runs * right.size());
}

std::vector<Edge> small_world() { return some_edges(300, 1500); }
// So long that a search goes far beyond the steps that ranks take together; neighbors have numbers
// far from each other.
std::vector<Edge> ring() {
  constexpr std::uint32_t kSize = 120;
  std::vector<Edge> edges;
  const auto at = [](std::uint32_t i) { return i * 77 % kSize; };
  for (std::uint32_t i = 0; i < kSize; ++i) edges.push_back({at(i), at(i + 1), 1});
  for (std::uint32_t i = 3; i < kSize; i += 50) edges.push_back({at(i), at(i + 9), 5});
  return edges;
}

const std::vector<Way> kModes = {{1, 1}, {3, 1}, {2, 2}, {2, 1, Mode::paper}, {3, 1, Mode::push}};
const std::vector<Way> kOneWay = {{1, 1}, {3, 1}, {1, 2}, {2, 2}};

}  // namespace

TEST_CASE("breadth-first searches go on from every step, also from tentative depths") {
  const bool is_long = GENERATE(false, true);
  check_every_state<Bfs>(
      is_long ? ring() : small_world(), kModes, is_long ? 25 : 2,
      [](const Graph& graph, const RunOptions& options, Bfs& result) {
        bfs(graph, 5, options, result);
        // A parent is one step nearer, over an edge.
        std::uint64_t num_wrong = 0;
        std::vector<std::uint32_t> depths(graph.num_vertices());
        std::vector<std::size_t> counts;
        throw_if(graph.job().all_gather(
            std::span<const std::uint32_t>(result.depth.data(), graph.num_owned()), depths,
            counts));
        for (VertexId v = graph.first(); v < graph.last(); ++v) {
          const VertexId parent = result.parent[v];
          if ((parent == kNoVertex) != (depths[v] == kUnreached)) ++num_wrong;
          if (parent == kNoVertex || depths[v] == 0) continue;
          bool is_next = false;
          for (const auto& edge : graph.out_edges(v)) is_next |= edge.vertex == parent;
          if (!is_next || depths[parent] + 1 != depths[v]) ++num_wrong;
        }
        throw_together(graph.job(),
                       num_wrong > 0 ? Status(Code::corrupt, "a parent is wrong") : Status());
      },
      [](const Graph&, const Bfs& result, VertexId v) { return result.depth[v]; });
}

TEST_CASE("shortest paths go on from every step") {
  const bool is_long = GENERATE(false, true);
  check_every_state<Sssp>(
      is_long ? ring() : small_world(), kModes, is_long ? 0 : 1,
      [](const Graph& graph, const RunOptions& options, Sssp& result) {
        sssp(graph, 5, options, result);
      },
      [](const Graph&, const Sssp& result, VertexId v) {
        return static_cast<double>(result.distance[v]);
      });
}

TEST_CASE("ranks of vertices go on from every iteration, and end at the same one") {
  const PageRankOptions rules = GENERATE(PageRankOptions{.iterations = 8},
                                         PageRankOptions{.iterations = 100, .tolerance = 1});
  check_every_state<PageRank>(
      small_world(), kModes, 4,
      [&](const Graph& graph, const RunOptions& options, PageRank& result) {
        pagerank(graph, rules, options, result);
      },
      [](const Graph&, const PageRank& result, VertexId v) {
        return result.rank[v] + result.num_steps;
      });
}

TEST_CASE("components by vertex program go on from every step, in all modes") {
  check_every_state<Wcc>(
      ring(), {{1, 1, Mode::paper}, {3, 1, Mode::paper}, {2, 2, Mode::paper}}, 5,
      [](const Graph& graph, const RunOptions& options, Wcc& result) {
        RunOptions other = options;
        if (options.resume_step % 3 == 1) other.mode = Mode::automatic;
        wcc(graph, other, result);
      },
      [](const Graph&, const Wcc& result, VertexId v) { return result.component[v]; });
}

TEST_CASE("labels go on from every iteration, and end at the same one") {
  check_every_state<Cdlp>(
      small_world(), kOneWay, 3,
      [](const Graph& graph, const RunOptions& options, Cdlp& result) {
        cdlp(graph, {.iterations = 30}, options, result);
      },
      [](const Graph&, const Cdlp& result, VertexId v) {
        return result.label[v] + 1000.0 * result.num_steps;
      });
}

TEST_CASE("coefficients and triangles go on from every round, over other cuts") {
  check_every_state<Lcc>(
      small_world(), kOneWay, 10,
      [](const Graph& graph, const RunOptions& options, Lcc& result) {
        lcc(graph, options, result);
      },
      [](const Graph&, const Lcc& result, VertexId v) { return result.coefficient[v]; });
  for (const bool per_vertex : {false, true})
    check_every_state<Triangles>(
        small_world(), kOneWay, 10,
        [&](const Graph& graph, const RunOptions& options, Triangles& result) {
          triangles(graph, {.per_vertex = per_vertex}, options, result);
        },
        [&](const Graph&, const Triangles& result, VertexId v) {
          return static_cast<double>(result.total + (per_vertex ? result.of_vertex[v] : 0));
        });
}

TEST_CASE("core numbers and betweenness go on from every step") {
  check_every_state<KCore>(
      small_world(), kOneWay, 3,
      [](const Graph& graph, const RunOptions& options, KCore& result) {
        kcore(graph, options, result);
      },
      [](const Graph&, const KCore& result, VertexId v) { return result.core[v]; });
  check_every_state<Betweenness>(
      small_world(), kOneWay, 3,
      [](const Graph& graph, const RunOptions& options, Betweenness& result) {
        const VertexId sources[] = {5, 80, 7, 200};
        betweenness(graph, sources, {}, options, result);
      },
      [](const Graph&, const Betweenness& result, VertexId v) {
        return result.score[v] + result.num_steps;
      });
}

TEST_CASE("a checkpoint of something else is refused, with both values, and stays") {
  const TemporaryFile file(".bin"), weights(".bin");
  std::vector<Edge> edges = small_world();
  write_binary(file.path(), edges);
  edges[7].weight += 1;
  write_binary(weights.path(), edges);
  TemporaryFolder folder;
  const std::string state = folder.file(1);
  std::atomic<int> num_told{0};
  on_graph(file.path(), {2, 1}, [&](const Graph& graph) {
    Sssp result(graph);
    const CheckpointKey key = checkpoint_key(graph, "sssp --source 5");
    throw_if(save_checkpoint(graph, key, {7, 0, ""}, state, columns_of(graph, result)));
  });
  const auto tells = [&](const std::string& path, const std::string& run, const auto& make_columns,
                         const std::vector<std::string>& words) {
    on_graph(path, {2, 1}, [&](const Graph& graph) {
      auto result = make_columns(graph);
      RunProgress progress;
      const Status status = load_checkpoint(graph, checkpoint_key(graph, run), state,
                                            columns_of(graph, result), progress);
      bool all = status == Code::bad_argument;
      for (const std::string& word : words) all &= status.text().find(word) != std::string::npos;
      if (all) ++num_told;
    });
  };
  const auto paths = [](const Graph& graph) { return Sssp(graph); };
  tells(file.path(), "sssp --source 6", paths, {state, "--source 5", "--source 6"});
  tells(weights.path(), "sssp --source 5", paths, {state, "hash is", "and here"});
  edges.pop_back();
  edges.push_back({500, 500, 1});
  write_binary(weights.path(), edges);
  tells(weights.path(), "sssp --source 5", paths, {state, " 300 vertices", "this has 501"});
  CHECK(num_told == 3 * 2);
  struct stat found {};
  CHECK(stat(state.c_str(), &found) == 0);
}
