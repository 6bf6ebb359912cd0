#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "graph/common/agree.hpp"
#include "graph/load/edge_writer.hpp"

namespace weft::graph {

Status alone(const transport::Job& job, const char* command) {
  if (job.size() == 1) return Code::ok;
  return {Code::bad_argument,
          std::string(command) + " is for one process, not " + std::to_string(job.size())};
}

Status generate(transport::Job& job, const GenerateArguments& arguments) {
  FileFormat format = arguments.format;
  Status status = alone(job, "generate");
  if (status.ok()) status = EdgeWriter::format_of(arguments.to, format);
  if (status.ok()) status = check_effects(arguments);
  if (!status.ok()) return status;
  EdgeWriter writer(arguments.to, format);
  return arguments.kind == "grid" ? generate_grid(arguments.width, arguments.height, writer)
                                  : generate_rmat(arguments.scale, arguments.edge_factor,
                                                  arguments.seed, arguments.permute, writer);
}

Status show_info(transport::Job& job, const InfoArguments& arguments) {
  if (const Status status = check_effects(job.size(), arguments); !status.ok()) return status;
  const Graph graph = loadGraph(job, arguments.graph, arguments.load);
  std::uint64_t self_loops = 0, duplicates = 0, without_edges = 0, largest = 0;
  std::vector<VertexId> row;
  for (VertexId v = graph.first(); v < graph.last(); ++v) {
    const Neighbors edges = graph.out_edges(v);
    row.assign(edges.vertices(), edges.vertices() + edges.size());
    std::sort(row.begin(), row.end());
    self_loops += static_cast<std::uint64_t>(std::count(row.begin(), row.end(), v));
    duplicates +=
        row.size() - static_cast<std::size_t>(std::unique(row.begin(), row.end()) - row.begin());
    without_edges += edges.size() == 0 ? 1 : 0;
    largest = std::max(largest, edges.size());
  }
  std::uint64_t sums[] = {self_loops, duplicates, without_edges};
  throw_if(job.all_reduce(std::span(sums), std::plus<>()));
  throw_if(job.all_reduce(largest, transport::Max()));
  std::vector<std::uint64_t> edges_of_ranks;
  throw_if(job.all_gather(graph.out().vertices.size(), edges_of_ranks));
  if (job.rank() != 0) return Code::ok;
  nlohmann::ordered_json all = {{"graph", arguments.graph},
                                {"vertices", graph.num_vertices()},
                                {"edges", graph.num_edges()},
                                {"self_loops", sums[0]},
                                {"duplicate_edges", sums[1]},
                                {"vertices_without_edges_out", sums[2]},
                                {"largest_out_degree", largest},
                                {"cut", graph.cut()},
                                {"edges_of_processes", edges_of_ranks}};
  if (graph.names() != nullptr) all["named"] = true;
  if (arguments.json) {
    // A path may be any bytes.
    std::printf("%s\n",
                all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    for (const auto& [key, value] : all.items())
      std::printf("%-28s%s\n", key.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
  return Code::ok;
}

}  // namespace weft::graph
