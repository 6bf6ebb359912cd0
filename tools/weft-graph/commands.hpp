#pragma once
// The commands of weft-graph. Each prints its result on rank 0 and returns an error or ok; they
// also throw weft::Error, which main reports in the same way.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/programs/algorithms.hpp"
#include "graph/programs/results.hpp"
#include "weft/graph.hpp"

namespace weft::graph {

// The options that a command was given, as "--alpha".
using GivenOptions = std::set<std::string>;

struct RunArguments {
  std::string algorithm;  // bfs, sssp, pagerank, wcc, cdlp, lcc, triangles, kcore or betweenness
  GivenOptions given;
  std::string graph;
  LoadOptions load;
  RunOptions run;
  PageRankOptions pagerank;
  CdlpOptions cdlp;
  BetweennessOptions betweenness;
  std::vector<std::string> sources;  // numbers, or names if the vertices have some
  std::string sources_file;
  std::string out;
  ResultFormat out_format = ResultFormat::text;
  bool json = false;
  std::uint32_t repeat = 1;             // runs for each source, for timing
  std::string checkpoint;               // file of the state, or its folder
  std::uint32_t checkpoint_every = 60;  // seconds; 0: after every step
};
// Whether it runs in several ways, by --mode; the others have one.
inline bool has_modes(std::string_view algorithm) {
  return algorithm == "bfs" || algorithm == "sssp" || algorithm == "pagerank" || algorithm == "wcc";
}
// Whether it runs once for each source; the others that have sources run once for all.
inline bool has_search_of_each(std::string_view algorithm) {
  return algorithm == "bfs" || algorithm == "sssp";
}
inline bool needs_sources(std::string_view algorithm) {
  return has_search_of_each(algorithm) || algorithm == "betweenness";
}
inline bool has_sources(std::string_view algorithm) {
  return needs_sources(algorithm) || algorithm == "pagerank";
}
Status run_algorithm(transport::Job& job, RunArguments arguments);

struct VerifyArguments {
  RunArguments run;  // the run that made the result
  std::string result;
};
Status verify_result(transport::Job& job, const VerifyArguments& arguments);

struct ConvertArguments {
  std::string from, to;
  std::vector<std::string> more_files;
  FileFormat from_format = FileFormat::automatic, to_format = FileFormat::automatic;
  Weights weights = Weights::file;
  std::string columns;
  double weight_scale = 1;
  std::string names;  // the file for the names of the vertices
  GivenOptions given;
};
// bad_argument in a job of several processes.
Status alone(const transport::Job& job, const char* command);

Status convert(transport::Job& job, const ConvertArguments& arguments);

struct GenerateArguments {
  std::string kind;  // rmat or grid
  std::string to;
  FileFormat format = FileFormat::automatic;
  unsigned scale = 16, edge_factor = 16;
  std::uint64_t seed = 1;
  bool permute = false;
  std::uint64_t width = 300, height = 300;
  GivenOptions given;
};
Status generate(transport::Job& job, const GenerateArguments& arguments);

struct InfoArguments {
  std::string graph;
  GivenOptions given;
  LoadOptions load;
  bool json = false;
};
Status show_info(transport::Job& job, const InfoArguments& arguments);

// bad_argument for an option that was given and has no effect; the text names where it has one.
Status check_effects(int num_processes, const RunArguments& arguments);
Status check_effects(int num_processes, const InfoArguments& arguments);
Status check_effects(const ConvertArguments& arguments, FileFormat format);
Status check_effects(const GenerateArguments& arguments);

// bad_argument if a vertex to start from is no number, where it must be one.
Status check_sources(const RunArguments& arguments);
// The vertices to start from: those given, then those of a file (numbers, # begins a comment; a
// name is a line). Collective.
Status read_sources(const Graph& graph, const RunArguments& arguments,
                    std::vector<VertexId>& sources);

// The largest and the present resident memory of this process, in bytes; and the present one with
// pages that several processes map shared out among them.
struct ResidentMemory {
  std::uint64_t peak = 0, now = 0, proportional = 0;
};
ResidentMemory resident_memory();

}  // namespace weft::graph
