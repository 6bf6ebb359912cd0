#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "agree.hpp"
#include "commands.hpp"

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
          {"at", sum.farthest}};
}
Json describe(const Graph& graph, const Wcc& result) {
  const WccSummary sum = summarize(graph, result);
  return {{"components", sum.components},
          {"largest", sum.largest},
          {"singletons", sum.singletons},
          {"sum_min_labels", sum.sum_min_labels}};
}
Json describe(const Graph& graph, const PageRank& result) {
  const PageRankSummary sum = summarize(graph, result);
  Json top = Json::array();
  for (const auto& [vertex, rank] : sum.top) top.push_back({vertex, rank});
  return {{"sum", sum.sum}, {"iterations", result.num_steps}, {"top10", top}};
}

// Runs one algorithm as often as asked, writes its result, and adds what is to be printed.
template <class Result, class Run>
void run_once(const Graph& graph, const RunArguments& arguments, const std::string& out, Json& runs,
              Json about, Result& result, Run&& run) {
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < std::max(1u, arguments.repeat); ++i) {
    throw_if(graph.job().barrier());
    const auto start = Clock::now();
    run(result);
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
  const auto out_for = [&](VertexId source) {
    return arguments.out.empty() || sources.size() == 1
               ? arguments.out
               : arguments.out + "." + std::to_string(source);
  };
  if (arguments.algorithm == "bfs") {
    Bfs result(graph);
    for (const VertexId source : sources)
      run_once(graph, arguments, out_for(source), runs, {{"source", source}}, result,
               [&](Bfs& found) { bfs(graph, source, arguments.run, found); });
  } else if (arguments.algorithm == "sssp") {
    Sssp result(graph);
    for (const VertexId source : sources)
      run_once(graph, arguments, out_for(source), runs, {{"source", source}}, result,
               [&](Sssp& found) { sssp(graph, source, arguments.run, found); });
  } else if (arguments.algorithm == "wcc") {
    Wcc result(graph);
    run_once(graph, arguments, arguments.out, runs, Json::object(), result,
             [&](Wcc& found) { wcc(graph, arguments.run, found); });
  } else {
    PageRank result(graph);
    run_once(graph, arguments, arguments.out, runs, Json::object(), result,
             [&](PageRank& found) { pagerank(graph, arguments.pagerank, arguments.run, found); });
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
  return memory;
}

Status read_sources(const Graph& graph, const RunArguments& arguments,
                    std::vector<VertexId>& sources) {
  std::vector<std::uint64_t> wanted = arguments.sources;
  Status status;
  if (!arguments.sources_file.empty()) {
    std::ifstream in(arguments.sources_file);
    if (!in) status = {Code::not_found, arguments.sources_file + ": cannot open it"};
    std::string line;
    for (int number = 1; status.ok() && std::getline(in, line); ++number) {
      std::istringstream words(line.substr(0, line.find('#')));
      for (std::string word; words >> word;) {
        if (word.size() > 19 || !std::all_of(word.begin(), word.end(), [](unsigned char c) {
              return std::isdigit(c) != 0;
            })) {
          status = {Code::corrupt, arguments.sources_file + ":" + std::to_string(number) +
                                       ": expected vertex ids, found \"" + word + "\""};
          break;
        }
        wanted.push_back(std::stoull(word));
      }
    }
    if (status.ok() && wanted.empty())
      status = {Code::corrupt, arguments.sources_file + ": names no vertex"};
  }
  for (const std::uint64_t source : wanted) {
    if (!status.ok()) break;
    if (source >= graph.num_vertices()) {
      status = {Code::bad_argument, "source " + std::to_string(source) +
                                        " does not exist: the graph has vertices 0 to " +
                                        std::to_string(graph.num_vertices() - 1)};
    } else if (const auto v = static_cast<VertexId>(source);
               graph.owns(v) && graph.out_degree(v) == 0) {
      status = {Code::bad_argument, "source " + std::to_string(source) + " has no edges out"};
    } else {
      sources.push_back(v);
    }
  }
  return agree(graph.job(), status);
}

Status run_algorithm(transport::Job& job, RunArguments arguments) {
  const bool from_source = arguments.algorithm == "bfs" || arguments.algorithm == "sssp";
  if (from_source && arguments.sources.empty() && arguments.sources_file.empty())
    return {Code::bad_argument,
            arguments.algorithm + ": name a vertex to start from with --source"};
  const Mode mode = arguments.run.mode;
  if (arguments.algorithm == "wcc" && mode == Mode::paper) arguments.load.undirected = true;
  arguments.load.in_edges =
      arguments.algorithm != "sssp" && (mode == Mode::pull || mode == Mode::automatic);
  if (arguments.algorithm != "sssp") arguments.load.weights = Weights::none;
  const auto start = Clock::now();
  const Graph graph = loadGraph(job, arguments.graph, arguments.load);
  const double load_seconds = seconds_since(start);
  std::vector<VertexId> sources;
  if (from_source) {
    const Status status = read_sources(graph, arguments, sources);
    if (!status.ok()) return status;
  }
  Json runs = Json::array();
  run_all(graph, arguments, sources, runs);

  const ResidentMemory mine = resident_memory();
  std::uint64_t memory[] = {mine.peak, mine.now};
  throw_if(job.all_reduce(std::span(memory), std::plus<>()));
  const MigrationCounts& counts = graph.migration_counts();
  std::uint64_t migrated[] = {counts.tasks.load(), counts.rows_read.load()};
  throw_if(job.all_reduce(std::span(migrated), std::plus<>()));
  if (job.rank() != 0) return Code::ok;
  if (arguments.json) {
    const Json all = {{"algorithm", arguments.algorithm},  {"graph", arguments.graph},
                      {"vertices", graph.num_vertices()},  {"edges", graph.num_edges()},
                      {"processes", job.size()},           {"threads", graph.num_threads()},
                      {"load_seconds", load_seconds},      {"peak_resident_bytes", memory[0]},
                      {"resident_bytes", memory[1]},       {"migrated_tasks", migrated[0]},
                      {"migrated_rows_read", migrated[1]}, {"runs", runs}};
    std::printf("%s\n", all.dump(2).c_str());
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
