#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "graph/common/agree.hpp"
#include "graph/engine/checkpoint.hpp"
#include "graph/programs/restart.hpp"

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
  return {{"reached", sum.reached},
          {"sum_dist", sum.sum_distance},
          {"max_dist", sum.max_distance},
          {"at", shown(graph, sum.farthest)}};
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

// The columns of a checkpoint, and the check of values that were read from one.
std::vector<Parts> columns_of(const Graph& graph, const Bfs& result) {
  return {parts_of(graph, result.depth), parts_of(graph, result.parent)};
}
bool is_possible(const Graph& graph, const Bfs& result, VertexId v, std::uint32_t step) {
  const std::uint32_t depth = result.depth[v];
  return depth == kUnreached ? result.parent[v] == kNoVertex
                             : depth <= step && result.parent[v] < graph.num_vertices();
}
std::vector<Parts> columns_of(const Graph& graph, const Sssp& result) {
  return {parts_of(graph, result.distance)};
}
bool is_possible(const Graph& graph, const Sssp& result, VertexId v, std::uint32_t) {
  // No path has more edges than there are vertices.
  return result.distance[v] == kFar ||
         result.distance[v] / std::numeric_limits<Weight>::max() <= graph.num_vertices();
}
std::vector<Parts> columns_of(const Graph& graph, const Wcc& result) {
  return {parts_of(graph, result.component)};
}
bool is_possible(const Graph&, const Wcc& result, VertexId v, std::uint32_t) {
  return result.component[v] <= v;
}
std::vector<Parts> columns_of(const Graph& graph, const Cdlp& result) {
  return {parts_of(graph, result.label)};
}
bool is_possible(const Graph& graph, const Cdlp& result, VertexId v, std::uint32_t) {
  return result.label[v] < graph.num_vertices();
}
std::vector<Parts> columns_of(const Graph& graph, const KCore& result) {
  return {parts_of(graph, result.core)};
}
bool is_possible(const Graph& graph, const KCore& result, VertexId v, std::uint32_t) {
  return result.core[v] == kNoCore || result.core[v] < graph.num_vertices();
}
std::vector<Parts> columns_of(const Graph& graph, const PageRank& result) {
  return {parts_of(graph, result.rank)};
}
bool is_possible(const Graph&, const PageRank& result, VertexId v, std::uint32_t) {
  return result.rank[v] >= 0 && result.rank[v] < std::numeric_limits<double>::infinity();
}

std::uint32_t number_of(const std::string& algorithm) {
  const char* const numbered[] = {"bfs", "sssp", "pagerank", "wcc", "cdlp", "kcore"};
  return static_cast<std::uint32_t>(std::find(std::begin(numbered), std::end(numbered), algorithm) -
                                    std::begin(numbered));
}

// Whether there is a state to save between steps.
template <class Result>
constexpr bool kHasSteps = !std::is_same_v<Result, Lcc> && !std::is_same_v<Result, Triangles> &&
                           !std::is_same_v<Result, Betweenness>;

// The options of a run that saves, resumes, or both.
template <class Result>
RunOptions with_checkpoints(const Graph& graph, const RunArguments& arguments, std::uint64_t source,
                            Result& result) {
  RunOptions options = arguments.run;
  if (arguments.checkpoint.empty() && arguments.resume.empty()) return options;
  const CheckpointKey key = checkpoint_key(graph, number_of(arguments.algorithm), source);
  const std::vector<Parts> columns = columns_of(graph, result);
  if (!arguments.resume.empty()) {
    throw_if(load_checkpoint(graph, key, arguments.resume, columns, options.resume_step));
    const std::uint32_t last = arguments.algorithm == "pagerank" ? arguments.pagerank.iterations
                               : arguments.algorithm == "cdlp"   ? arguments.cdlp.iterations
                                                                 : options.resume_step;
    if (options.resume_step > last)
      throw Error({Code::bad_argument, arguments.resume + ": is of iteration " +
                                           std::to_string(options.resume_step) +
                                           ", after the last one (--iterations)"});
    Status status;
    for (VertexId v = graph.first(); v < graph.last() && status.ok(); ++v)
      if (!is_possible(graph, result, v, options.resume_step))
        status = {Code::corrupt,
                  arguments.resume + ": vertex " + std::to_string(v) + " has an impossible value"};
    throw_together(graph.job(), status);
  }
  if (!arguments.checkpoint.empty()) {
    options.save_every = arguments.checkpoint_every;
    options.save = [&graph, &arguments, key, columns](std::uint32_t step) {
      throw_if(save_checkpoint(graph, key, step, arguments.checkpoint, columns));
    };
  }
  return options;
}

// Runs one algorithm --repeat times, writes its result, and adds the run to the report.
template <class Result, class Run>
void run_once(const Graph& graph, const RunArguments& arguments, const std::string& out, Json& runs,
              const VertexId* source, Result& result, Run&& run) {
  RunOptions options = arguments.run;
  if constexpr (std::is_same_v<Result, PageRank>)
    options = with_checkpoints(graph, arguments, number_of_rules(arguments.pagerank), result);
  else if constexpr (kHasSteps<Result>)
    options = with_checkpoints(graph, arguments, source != nullptr ? *source : 0, result);
  Json about = Json::object();
  if (source != nullptr) about["source"] = shown(graph, *source);
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < std::max(1u, arguments.repeat); ++i) {
    throw_if(graph.job().barrier());
    const auto start = Clock::now();
    run(result, options);
    throw_if(graph.job().barrier());
    seconds.push_back(seconds_since(start));
  }
  about.update(describe(graph, result));
  about["steps"] = result.num_steps;
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  about["seconds"] = seconds[seconds.size() / 2];
  runs.push_back(about);
  if (!out.empty()) throw_if(write_result(graph, result, arguments.out_format, out));
}

void run_all(const Graph& graph, const RunArguments& arguments,
             const std::vector<VertexId>& sources, Json& runs) {
  const bool named = arguments.load.named || !arguments.load.names.empty();
  const auto out_for = [&](const VertexId& source) {
    if (arguments.out.empty() || sources.size() == 1) return arguments.out;
    // A name may have any letters, which a file's may not.
    const auto place = static_cast<std::size_t>(&source - sources.data());
    return arguments.out + "." + std::to_string(named ? place : source);
  };
  if (arguments.algorithm == "bfs") {
    Bfs result(graph);
    for (const VertexId& source : sources)
      run_once(graph, arguments, out_for(source), runs, &source, result,
               [&](Bfs& found, const RunOptions& options) { bfs(graph, source, options, found); });
  } else if (arguments.algorithm == "sssp") {
    Sssp result(graph);
    for (const VertexId& source : sources)
      run_once(
          graph, arguments, out_for(source), runs, &source, result,
          [&](Sssp& found, const RunOptions& options) { sssp(graph, source, options, found); });
  } else if (arguments.algorithm == "wcc") {
    Wcc result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](Wcc& found, const RunOptions& options) { wcc(graph, options, found); });
  } else if (arguments.algorithm == "cdlp") {
    Cdlp result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](Cdlp& found, const RunOptions& options) {
               cdlp(graph, arguments.cdlp, options, found);
             });
  } else if (arguments.algorithm == "lcc") {
    Lcc result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](Lcc& found, const RunOptions& options) { lcc(graph, options, found); });
  } else if (arguments.algorithm == "triangles") {
    Triangles result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](Triangles& found, const RunOptions& options) {
               triangles(graph, {.per_vertex = !arguments.out.empty()}, options, found);
             });
  } else if (arguments.algorithm == "betweenness") {
    Betweenness result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](Betweenness& found, const RunOptions& options) {
               betweenness(graph, sources, options, found);
             });
  } else if (arguments.algorithm == "kcore") {
    KCore result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](KCore& found, const RunOptions& options) { kcore(graph, options, found); });
  } else {
    PageRank result(graph);
    run_once(graph, arguments, arguments.out, runs, nullptr, result,
             [&](PageRank& found, const RunOptions& options) {
               pagerank(graph, arguments.pagerank, options, found);
             });
  }
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
  if (!arguments.checkpoint.empty() || !arguments.resume.empty()) {
    if (arguments.algorithm == "wcc" && mode != Mode::paper)
      return {Code::bad_argument, "--checkpoint: wcc can save its steps only in --mode paper"};
    if (arguments.algorithm == "lcc" || arguments.algorithm == "triangles")
      return {Code::bad_argument, "--checkpoint and --resume: " + arguments.algorithm +
                                      " is one step, and has no state to save between"};
    if (arguments.algorithm == "betweenness")
      return {Code::bad_argument, "--checkpoint and --resume: betweenness saves no state"};
    if (arguments.repeat > 1)
      return {Code::bad_argument, "--checkpoint and --resume are for one run: leave out --repeat"};
  }
  if (arguments.algorithm == "wcc" && mode == Mode::paper) arguments.load.undirected = true;
  arguments.load.in_edges =
      arguments.algorithm != "sssp" && (mode == Mode::pull || mode == Mode::automatic);
  if (arguments.algorithm != "sssp") arguments.load.weights = Weights::none;
  // In the paper's vertex programs, in which few vertices may be active, they cost time as well.
  if (mode == Mode::paper && (arguments.algorithm == "bfs" || arguments.algorithm == "sssp") &&
      !arguments.given.contains("--alpha"))
    arguments.load.alpha = 0;
  arguments.load.remote_rows = mode == Mode::paper && arguments.run.step.migration.enabled;
  const auto start = Clock::now();
  const Graph graph = loadGraph(job, arguments.graph, arguments.load);
  const double load_seconds = seconds_since(start);
  std::vector<VertexId> sources;
  if (from_source) {
    const Status status = read_sources(graph, arguments, sources);
    if (!status.ok()) return status;
    const bool by_one = arguments.algorithm != "pagerank";  // one source after the other
    if (by_one && sources.size() > 1 && !(arguments.checkpoint.empty() && arguments.resume.empty()))
      return {Code::bad_argument,
              "--checkpoint and --resume: for one source, not " + std::to_string(sources.size())};
  }
  if (arguments.algorithm == "pagerank") arguments.pagerank.sources = sources;
  Json runs = Json::array();
  run_all(graph, arguments, sources, runs);

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
    return Code::ok;
  }
  for (const Json& run : runs) {
    std::string line = arguments.algorithm;
    for (const auto& [key, value] : run.items())
      line.append(1, ' ').append(key).append(1, '=').append(text_of(value));
    std::printf("%s\n", line.c_str());
  }
  return Code::ok;
}

}  // namespace weft::graph
