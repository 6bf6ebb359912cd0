#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints.hpp"
#include "commands.hpp"
#include "graph/common/agree.hpp"
#include "run_state.hpp"

namespace weft::graph {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value.get<double>());
    return text;
  }
  if (value.is_array()) {
    std::string text;
    for (const Json& element : value) {
      if (!text.empty()) text += ',';
      text.append(text_of(element[0])).append(1, ':').append(text_of(element[1]));
    }
    return text;
  }
  return value.dump();
}

// By its name if it has one.
Json shown(const Graph& graph, VertexId vertex) {
  if (graph.names() == nullptr || vertex >= graph.names()->size()) return vertex;
  return std::string(graph.names()->name(vertex));
}

Json describe(const Graph& graph, const Bfs& result) {
  const BfsSummary sum = summarize(graph, result);
  return {{"reached", sum.reached},
          {"sum_dist", sum.sum_depth},
          {"max_depth", sum.max_depth},
          {"reached_arcs", sum.reached_edges}};
}
Json describe(const Graph& graph, const Sssp& result) {
  const SsspSummary sum = summarize(graph, result);
  Json about = {{"reached", sum.reached},
                {"sum_dist", sum.sum_distance},
                {"max_dist", sum.max_distance},
                {"at", shown(graph, sum.farthest)}};
  if (graph.has_real_weights()) {
    about["sum_dist"] = sum.sum_real;
    about["max_dist"] = sum.max_real;
  }
  return about;
}
Json describe(const Graph& graph, const Wcc& result) {
  const WccSummary sum = summarize(graph, result);
  return {{"components", sum.components},
          {"largest", sum.largest},
          {"singletons", sum.singletons},
          {"sum_min_labels", sum.sum_min_labels}};
}
Json describe(const Graph& graph, const Cdlp& result) {
  const CdlpSummary sum = summarize(graph, result);
  return {
      {"communities", sum.communities}, {"largest", sum.largest}, {"sum_labels", sum.sum_labels}};
}
Json describe(const Graph& graph, const Lcc& result) {
  const LccSummary sum = summarize(graph, result);
  return {{"average", sum.average}, {"largest", sum.largest}, {"clustered", sum.clustered}};
}
Json describe(const Graph&, const Triangles& result) { return {{"triangles", result.total}}; }
Json describe(const Graph& graph, const KCore& result) {
  const KCoreSummary sum = summarize(graph, result);
  return {{"largest", sum.largest}, {"innermost", sum.innermost}, {"sum_core", sum.sum_core}};
}
Json top_of(const Graph& graph, const std::vector<std::pair<VertexId, double>>& top) {
  Json all = Json::array();
  for (const auto& [vertex, value] : top) all.push_back({shown(graph, vertex), value});
  return all;
}
Json describe(const Graph& graph, const Betweenness& result) {
  const BetweennessSummary sum = summarize(graph, result);
  return {{"sources", result.num_steps}, {"scored", sum.scored}, {"top10", top_of(graph, sum.top)}};
}
Json describe(const Graph& graph, const PageRank& result) {
  const PageRankSummary sum = summarize(graph, result);
  return {{"sum", sum.sum}, {"iterations", result.num_steps}, {"top10", top_of(graph, sum.top)}};
}

// Runs one algorithm --repeat times, writes its result, and returns what it has found.
template <class Result, class Run>
Json run_once(const Graph& graph, const RunArguments& arguments, const RunOptions& options,
              const std::string& out, const VertexId* source, Result& result, Run&& run) {
  Json about = Json::object();
  if (source != nullptr) about["source"] = shown(graph, *source);
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < std::max(1u, arguments.repeat); ++i) {
    throw_if(graph.job().barrier());
    const auto start = Clock::now();
    run(result, options, source);
    throw_if(graph.job().barrier());
    seconds.push_back(seconds_since(start));
  }
  about.update(describe(graph, result));
  about["steps"] = result.num_steps;
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  about["seconds"] = seconds[seconds.size() / 2];
  if (!out.empty()) throw_if(write_result(graph, result, arguments.out_format, out));
  return about;
}

// Runs an algorithm from each source, or once if it has `one_search`, without those that a
// checkpoint knows. Returns what they have found.
template <class Result, class Run>
Json run_searches(const Graph& graph, const RunArguments& arguments,
                  const std::vector<VertexId>& sources, bool one_search, Run&& run) {
  const bool named = arguments.load.named || !arguments.load.names.empty();
  Result result(graph);
  Checkpoints checkpoints(graph, arguments, sources, columns_of(graph, result));
  checkpoints.load(
      [&](VertexId v, std::uint32_t step) { return is_possible(graph, result, v, step); });
  // Names may be any bytes, which its text would not keep.
  Json found = Json::array();
  if (checkpoints.num_ended() > 0)
    found = Json::from_cbor(checkpoints.found(), true, /*allow_exceptions=*/false);
  if (found.size() != checkpoints.num_ended())
    throw Error({Code::corrupt, checkpoint_path(arguments) + ": has other results than sources"});
  const std::size_t num_searches = one_search ? 1 : sources.size();
  for (std::size_t i = checkpoints.num_ended(); i < num_searches; ++i) {
    const VertexId* const source = one_search ? nullptr : &sources[i];
    std::string out = arguments.out;
    // A name may have any letters, which a file's may not.
    if (!out.empty() && num_searches > 1) out += "." + std::to_string(named ? i : sources[i]);
    found.push_back(run_once(graph, arguments, checkpoints.options(), out, source, result, run));
    std::string bytes;
    Json::to_cbor(found, bytes);
    checkpoints.search_ended(std::move(bytes), i + 1 == num_searches);
  }
  return found;
}

Json run_all(const Graph& graph, const RunArguments& arguments,
             const std::vector<VertexId>& sources) {
  const std::string& name = arguments.algorithm;
  const auto one = [&]<class Result>(auto&& run) {
    return run_searches<Result>(
        graph, arguments, sources, true,
        [&](Result& found, const RunOptions& options, const VertexId*) { run(found, options); });
  };
  using Options = RunOptions;
  if (name == "bfs")
    return run_searches<Bfs>(graph, arguments, sources, false,
                             [&](Bfs& found, const Options& options, const VertexId* source) {
                               bfs(graph, *source, options, found);
                             });
  if (name == "sssp")
    return run_searches<Sssp>(graph, arguments, sources, false,
                              [&](Sssp& found, const Options& options, const VertexId* source) {
                                sssp(graph, *source, options, found);
                              });
  if (name == "wcc")
    return one.operator()<Wcc>(
        [&](Wcc& found, const Options& options) { wcc(graph, options, found); });
  if (name == "cdlp")
    return one.operator()<Cdlp>(
        [&](Cdlp& found, const Options& options) { cdlp(graph, arguments.cdlp, options, found); });
  if (name == "lcc")
    return one.operator()<Lcc>(
        [&](Lcc& found, const Options& options) { lcc(graph, options, found); });
  if (name == "triangles")
    return one.operator()<Triangles>([&](Triangles& found, const Options& options) {
      triangles(graph, {.per_vertex = !arguments.out.empty()}, options, found);
    });
  if (name == "betweenness")
    return one.operator()<Betweenness>([&](Betweenness& found, const Options& options) {
      betweenness(graph, sources, arguments.betweenness, options, found);
    });
  if (name == "kcore")
    return one.operator()<KCore>(
        [&](KCore& found, const Options& options) { kcore(graph, options, found); });
  return one.operator()<PageRank>([&](PageRank& found, const Options& options) {
    pagerank(graph, arguments.pagerank, options, found);
  });
}

// What an algorithm's arrays take, in bytes for each vertex: in all ranks together, and in each.
struct ArrayBytes {
  std::uint32_t owned, whole;
};
ArrayBytes bytes_of_arrays(const RunArguments& arguments, bool several) {
  const std::uint32_t v = sizeof(VertexId), mirrors = several ? 1 : 0;
  const std::string& name = arguments.algorithm;
  const bool is_paper = arguments.run.mode == Mode::paper;
  if (name == "bfs") return is_paper ? ArrayBytes{4 + v, v + 1} : ArrayBytes{4 + 3 * v, 1};
  if (name == "sssp") return {8, 9};
  if (name == "pagerank")
    return is_paper || arguments.run.mode == Mode::push ? ArrayBytes{8, 17}
                                                        : ArrayBytes{32, 8 * mirrors};
  if (name == "wcc") return {v, v};
  if (name == "cdlp") return {3 * v, v * mirrors};
  if (name == "kcore") return {4 + v, v};
  if (name == "betweenness") return {28, 16};
  return {16, 8};  // lcc and triangles, whose own rows come to it
}

// A run that ended well has no more use for its checkpoint.
void remove_checkpoint(const RunArguments& arguments) {
  const std::string path = checkpoint_path(arguments);
  if (path.empty() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return;
  if (unlink(path.c_str()) != 0 && errno != ENOENT && arguments.load.note)
    arguments.load.note("cannot remove the checkpoint " + path + ": " + std::strerror(errno));
}

// The folders of files that rank 0 writes later: what is wrong with them is said before the work.
Status check_folders(const RunArguments& arguments) {
  for (const std::string& path : {arguments.out, checkpoint_path(arguments)}) {
    if (path.empty()) continue;
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (access(folder.c_str(), W_OK | X_OK) != 0)
      return {Code::not_permitted, path + ": cannot create it: " + std::strerror(errno)};
  }
  return Code::ok;
}

}  // namespace

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %llu", &kib) == 1) memory.peak = kib * 1024;
    if (std::sscanf(line.c_str(), "VmRSS: %llu", &kib) == 1) memory.now = kib * 1024;
  }
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "Pss: %llu", &kib) == 1) memory.proportional = kib * 1024;
  }
  return memory;
}

Status run_algorithm(transport::Job& job, RunArguments arguments) {
  const bool from_source = has_sources(arguments.algorithm);
  if (needs_sources(arguments.algorithm) && arguments.sources.empty() &&
      arguments.sources_file.empty())
    return {Code::bad_argument,
            arguments.algorithm + ": give a vertex to start from with --source"};
  if (const Status status = check_effects(job.size(), arguments); !status.ok()) return status;
  if (const Status status = check_sources(arguments); !status.ok()) return status;
  const Mode mode = arguments.run.mode;
  if (!arguments.checkpoint.empty() && arguments.repeat > 1)
    return {Code::bad_argument, "--checkpoint is for one run: leave out --repeat"};
  if (arguments.algorithm == "wcc" && mode == Mode::paper) arguments.load.undirected = true;
  arguments.load.in_edges =
      arguments.algorithm != "sssp" && (mode == Mode::pull || mode == Mode::automatic);
  if (arguments.algorithm != "sssp") arguments.load.weights = Weights::none;
  // In the paper's vertex programs, in which few vertices may be active, they cost time as well.
  if (mode == Mode::paper && (arguments.algorithm == "bfs" || arguments.algorithm == "sssp") &&
      !arguments.given.contains("--alpha"))
    arguments.load.alpha = 0;
  arguments.load.remote_rows = mode == Mode::paper && arguments.run.step.migration.enabled;
  const ArrayBytes arrays = bytes_of_arrays(arguments, job.size() > 1);
  arguments.load.bytes_per_owned = arrays.owned;
  arguments.load.bytes_per_vertex = arrays.whole;
  throw_together(job, job.rank() == 0 ? check_folders(arguments) : Status());
  const auto start = Clock::now();
  const Graph graph = loadGraph(job, arguments.graph, arguments.load);
  const double load_seconds = seconds_since(start);
  std::vector<VertexId> sources;
  if (from_source) {
    const Status status = read_sources(graph, arguments, sources);
    if (!status.ok()) return status;
  }
  if (arguments.algorithm == "pagerank") arguments.pagerank.sources = sources;
  const Json runs = run_all(graph, arguments, sources);

  const ResidentMemory mine = resident_memory();
  std::uint64_t memory[] = {mine.peak, mine.now, mine.proportional};
  throw_if(job.all_reduce(std::span(memory), std::plus<>()));
  const MigrationCounts& counts = graph.migration_counts();
  std::uint64_t migrated[] = {counts.tasks.load(), counts.rows_read.load()};
  throw_if(job.all_reduce(std::span(migrated), std::plus<>()));
  if (job.rank() != 0) return Code::ok;
  if (arguments.json) {
    const Json all = {{"algorithm", arguments.algorithm},  {"graph", arguments.graph},
                      {"vertices", graph.num_vertices()},  {"edges", graph.num_edges()},
                      {"processes", job.size()},           {"cut", graph.cut()},
                      {"threads", graph.num_threads()},    {"load_seconds", load_seconds},
                      {"peak_resident_bytes", memory[0]},  {"resident_bytes", memory[1]},
                      {"proportional_bytes", memory[2]},   {"migrated_tasks", migrated[0]},
                      {"migrated_rows_read", migrated[1]}, {"runs", runs}};
    // A path may be any bytes.
    std::printf("%s\n", all.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    remove_checkpoint(arguments);
    return Code::ok;
  }
  for (const Json& run : runs) {
    std::string line = arguments.algorithm;
    for (const auto& [key, value] : run.items())
      line.append(1, ' ').append(key).append(1, '=').append(text_of(value));
    std::printf("%s\n", line.c_str());
  }
  remove_checkpoint(arguments);
  return Code::ok;
}

}  // namespace weft::graph
