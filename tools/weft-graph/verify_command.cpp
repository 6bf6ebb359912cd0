#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "commands.hpp"
#include "graph/common/agree.hpp"
#include "graph/formats/table_text.hpp"
#include "graph/programs/serial.hpp"

namespace weft::graph {
namespace {

// A value that is a vertex.
struct AsVertex {
  VertexId* vertex;
  bool is_key = false;  // the line's own, of which there is always one
};

// One vertex's values in a result file: numbers, all bits set where there is none, or vertices.
class ResultReader {
 public:
  ResultReader(std::string path, ResultFormat format, const VertexNames* names)
      : path_(std::move(path)), format_(format), names_(names), in_(path_, std::ios::binary) {}

  Status open() const {
    if (in_) return Code::ok;
    return {Code::not_found, path_ + ": cannot open it"};
  }

  template <class... T>
  Status next(VertexId vertex, T... values) {
    if (format_ == ResultFormat::binary) {
      (void)(read(values) && ...);
      if (in_) return Code::ok;
      return {Code::corrupt, path_ + ": ends before vertex " + std::to_string(vertex)};
    }
    std::string line;
    std::getline(in_, line);
    Fields fields(line, 0);
    VertexId found = 0;
    if (!take(fields, AsVertex{&found, true}) || found != vertex || !(take(fields, values) && ...))
      return {Code::corrupt, path_ + ":" + std::to_string(std::uint64_t{vertex} + 1) +
                                 ": expected the values of vertex " + std::to_string(vertex) +
                                 ", found \"" + line.substr(0, 40) + "\""};
    return Code::ok;
  }
  Status end() {
    if (in_.peek() == std::ifstream::traits_type::eof()) return Code::ok;
    return {Code::corrupt, path_ + ": continues after the last vertex"};
  }

 private:
  template <class T>
  bool read(T* value) {
    return static_cast<bool>(in_.read(reinterpret_cast<char*>(value), sizeof *value));
  }
  bool read(AsVertex value) { return read(value.vertex); }

  template <class T>
  static bool take(Fields& fields, T* value) {
    std::string_view word;
    if (!fields.next(word) || word.empty()) return false;
    if (word == "-1") {
      std::memset(value, 0xff, sizeof *value);
      return true;
    }
    std::istringstream number{std::string(word)};
    return word[0] != '-' && number >> *value && number.peek() == EOF;
  }
  bool take(Fields& fields, AsVertex value) const {
    if (names_ == nullptr) return take(fields, value.vertex);
    std::string_view name;
    if (!fields.next(name)) return false;
    const bool is_none = !value.is_key && name == "-1" && !fields.was_quoted();
    *value.vertex = is_none ? kNoVertex : names_->find(name);
    return is_none || *value.vertex != kNoVertex;
  }

  std::string path_;
  ResultFormat format_;
  const VertexNames* names_;
  std::ifstream in_;
};

Status differs(VertexId vertex, const std::string& what) {
  return {Code::corrupt, "vertex " + std::to_string(vertex) + ": " + what};
}

// A parent must be one step nearer and have an edge to its child.
Status check_bfs(const Graph& graph, VertexId source, ResultReader& reader) {
  const std::vector<std::uint32_t> depths = serial::bfs_depths(graph, source);
  std::vector<VertexId> parents(depths.size());
  for (VertexId v = 0; v < graph.num_vertices(); ++v) {
    std::uint32_t depth = 0;
    const Status status = reader.next(v, &depth, AsVertex{&parents[v]});
    if (!status.ok()) return status;
    if (depth != depths[v])
      return differs(v, "depth " + std::to_string(static_cast<std::int32_t>(depth)) +
                            " where it is " + std::to_string(static_cast<std::int32_t>(depths[v])));
    const VertexId parent = parents[v];
    const bool fits = depth == kUnreached ? parent == kNoVertex
                      : v == source       ? parent == source
                                    : parent < graph.num_vertices() && depths[parent] + 1 == depth;
    if (!fits) return differs(v, "its parent is not one step nearer");
  }
  std::vector<bool> confirmed(depths.size());
  for (VertexId v = 0; v < graph.num_vertices(); ++v)
    for (const auto& [to, weight] : graph.out_edges(v))
      if (parents[to] == v) confirmed[to] = true;
  for (VertexId v = 0; v < graph.num_vertices(); ++v)
    if (depths[v] != kUnreached && v != source && !confirmed[v])
      return differs(v, "no edge leads to it from its parent");
  return reader.end();
}

template <class T>
Status check_same(const Graph& graph, const std::vector<T>& right, bool are_vertices,
                  ResultReader& reader) {
  for (VertexId v = 0; v < graph.num_vertices(); ++v) {
    T value{};
    Status status;
    if constexpr (std::is_same_v<T, VertexId>)
      status = are_vertices ? reader.next(v, AsVertex{&value}) : reader.next(v, &value);
    else
      status = reader.next(v, &value);
    if (!status.ok()) return status;
    if (value != right[v])
      return differs(v, std::to_string(value) + " where it is " + std::to_string(right[v]));
  }
  return reader.end();
}

// Distances over real weights, of which text and binary have all bits.
Status check_real_distances(const Graph& graph, const std::vector<std::uint64_t>& right,
                            ResultReader& reader) {
  const auto shown = [](std::uint64_t bits) {
    char digits[40];
    return bits == kFar
               ? std::string("-1")
               : std::string(digits,
                             std::to_chars(digits, std::end(digits), real_distance(bits)).ptr);
  };
  for (VertexId v = 0; v < graph.num_vertices(); ++v) {
    double value = 0;
    const Status status = reader.next(v, &value);
    if (!status.ok()) return status;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    if (bits != right[v]) return differs(v, shown(bits) + " where it is " + shown(right[v]));
  }
  return reader.end();
}

// Sums, whose last bits depend on their order.
constexpr double kLastBits = 1e-9;
// In 4 bytes a share is off by 2^-23 at most, the same way in each iteration, of which a part goes
// on.
double last_bits_of_single(const PageRankOptions& rules) {
  return 2.4e-7 * std::min(1.0 + rules.iterations, 1 / (1 - rules.damping));
}
Status check_close(const Graph& graph, const std::vector<double>& right, double most,
                   ResultReader& reader) {
  for (VertexId v = 0; v < graph.num_vertices(); ++v) {
    double value = 0;
    const Status status = reader.next(v, &value);
    if (!status.ok()) return status;
    if (!(std::abs(value - right[v]) <= most * right[v]))
      return differs(v, std::to_string(value) + " where it is " + std::to_string(right[v]));
  }
  return reader.end();
}

}  // namespace

Status verify_result(transport::Job& job, const VerifyArguments& arguments) {
  if (job.size() != 1)
    return {Code::bad_argument, "verify is for one process, not " + std::to_string(job.size())};
  const std::string& algorithm = arguments.run.algorithm;
  if (const Status status = check_sources(arguments.run); !status.ok()) return status;
  LoadOptions options = arguments.run.load;
  options.threads = 1;
  if (algorithm != "sssp") options.weights = Weights::none;
  const Graph graph = loadGraph(job, arguments.run.graph, options);
  std::vector<VertexId> sources;
  Status status = read_sources(graph, arguments.run, sources);
  if (!status.ok()) return status;
  const bool from_source = algorithm == "bfs" || algorithm == "sssp";
  if (algorithm == "betweenness" && sources.empty())
    return {Code::bad_argument,
            "verify: give the vertices whose paths the run counted with --source"};
  if (from_source && sources.size() != 1)
    return {Code::bad_argument,
            "verify: give the one vertex that the run started from with --source"};
  PageRankOptions rules = arguments.run.pagerank;
  rules.sources = sources;
  ResultReader reader(arguments.result, arguments.run.out_format, graph.names());
  status = reader.open();
  if (!status.ok()) return status;
  if (algorithm == "bfs")
    status = check_bfs(graph, sources[0], reader);
  else if (algorithm == "sssp" && graph.has_real_weights())
    status = check_real_distances(graph, serial::sssp_distances(graph, sources[0]), reader);
  else if (algorithm == "sssp")
    status = check_same(graph, serial::sssp_distances(graph, sources[0]), false, reader);
  else if (algorithm == "wcc")
    status = check_same(graph, serial::components(graph), true, reader);
  else if (algorithm == "cdlp")
    status = check_same(graph, serial::labels(graph, arguments.run.cdlp.iterations), true, reader);
  else if (algorithm == "lcc")
    status = check_same(graph, serial::clustering(graph), false, reader);
  else if (algorithm == "triangles")
    status = check_same(graph, serial::triangles(graph), false, reader);
  else if (algorithm == "kcore")
    status = check_same(graph, serial::core_numbers(graph), false, reader);
  else if (algorithm == "betweenness")
    status = check_close(graph, serial::betweenness(graph, sources, arguments.run.betweenness),
                         kLastBits, reader);
  else
    status = check_close(graph, serial::pagerank(graph, rules),
                         rules.single ? last_bits_of_single(rules) : kLastBits, reader);
  if (!status.ok()) return status;
  std::printf("%s: right for all %llu vertices\n", arguments.result.c_str(),
              static_cast<unsigned long long>(graph.num_vertices()));
  return Code::ok;
}

}  // namespace weft::graph
