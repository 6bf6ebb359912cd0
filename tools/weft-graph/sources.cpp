// The vertices to start from.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "commands.hpp"
#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kMostDigits = 19;  // fit in 64 bits

bool is_number(const std::string& word) {
  return !word.empty() && word.size() <= kMostDigits &&
         std::all_of(word.begin(), word.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool has_names(const RunArguments& arguments) {
  return arguments.load.named || !arguments.load.names.empty();
}

Status read_file(const std::string& path, bool named, std::vector<std::string>& wanted) {
  std::ifstream in(path);
  if (!in) return {Code::not_found, path + ": cannot open it"};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = path + ":" + std::to_string(number);
    // A lone carriage return after a comment would hide a line.
    if (line.find('\r') < line.size() - 1)
      return {Code::corrupt, where + ": a carriage return within the line: lines end in \\n"};
    if (named) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty() && line[0] != '#') wanted.push_back(line);
      continue;
    }
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (!is_number(word))
        return {Code::corrupt,
                where + ": expected vertex ids, found \"" + word.substr(0, 40) + "\""};
      wanted.push_back(word);
    }
  }
  if (in.bad()) return {Code::not_permitted, path + ": cannot read it"};
  if (wanted.empty()) return {Code::corrupt, path + ": names no vertex"};
  return Code::ok;
}

Status resolve(const Graph& graph, const std::string& word, VertexId& vertex) {
  if (graph.names() != nullptr) {
    vertex = graph.names()->find(word);
    if (vertex != kNoVertex) return Code::ok;
    return {Code::bad_argument, "source " + word.substr(0, 80) + ": no vertex has this name"};
  }
  const std::uint64_t number = std::stoull(word);
  if (number >= graph.num_vertices())
    return {Code::bad_argument, "source " + word + " does not exist: the graph has vertices 0 to " +
                                    std::to_string(graph.num_vertices() - 1)};
  vertex = static_cast<VertexId>(number);
  return Code::ok;
}

}  // namespace

Status check_sources(const RunArguments& arguments) {
  if (has_names(arguments)) return Code::ok;
  for (const std::string& word : arguments.sources)
    if (!is_number(word))
      return {Code::bad_argument, "--source: expected a vertex's number, found \"" +
                                      word.substr(0, 40) +
                                      "\" (--named or --names: vertices have names)"};
  return Code::ok;
}

Status read_sources(const Graph& graph, const RunArguments& arguments,
                    std::vector<VertexId>& sources) {
  Status status;
  std::vector<VertexId> mine;
  if (graph.job().rank() == 0) {
    std::vector<std::string> wanted = arguments.sources;
    if (!arguments.sources_file.empty())
      status = read_file(arguments.sources_file, has_names(arguments), wanted);
    for (const std::string& word : wanted) {
      if (!status.ok()) break;
      status = resolve(graph, word, mine.emplace_back());
    }
  }
  status = agree(graph.job(), status);
  if (!status.ok()) return status;
  std::vector<std::size_t> counts;
  return graph.job().all_gather(std::span<const VertexId>(mine), sources, counts);
}

}  // namespace weft::graph
