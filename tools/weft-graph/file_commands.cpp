#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "graph/common/agree.hpp"
#include "graph/load/edge_writer.hpp"
#include "graph/load/file_source.hpp"
#include "graph/load/names_file.hpp"

namespace weft::graph {
namespace {

Status alone(const transport::Job& job, const char* command) {
  if (job.size() == 1) return Code::ok;
  return {Code::bad_argument,
          std::string(command) + " is for one process, not " + std::to_string(job.size())};
}

}  // namespace

// The file is converted in parts, so that only one of them is in memory.
Status convert(transport::Job& job, const ConvertArguments& arguments) {
  FileFormat format = arguments.to_format;
  Status status = alone(job, "convert");
  if (status.ok()) status = EdgeWriter::format_of(arguments.to, format);
  if (status.ok()) status = check_effects(arguments, format);
  if (!status.ok()) return status;
  FileSource source(arguments.from);
  FileFacts facts;
  const bool weighted = arguments.weights == Weights::file && EdgeWriter::has_weights(format);
  VertexNames names;
  status = source.inspect({.format = arguments.from_format,
                           .wants_weights = weighted,
                           .columns = arguments.columns,
                           .names = arguments.names.empty() ? nullptr : &names},
                          facts);
  if (status.ok()) status = source.open(facts);
  if (!status.ok()) return status;
  constexpr std::uint64_t kPartBytes = std::uint64_t{64} << 20;
  EdgeWriter writer(arguments.to, format);
  const auto write = [&](EdgeStore& edges) {
    edges.for_each(
        true,
        [&](VertexId u, VertexId v, Weight weight) {
          if (!status.ok()) return;
          status =
              writer.add(u, v, arguments.weights == Weights::hash ? hash_weight(u, v) : weight);
        },
        [] {});
  };
  std::uint64_t num_entries = 0;
  const FileSource::Progress silent = [](std::uint64_t) {};
  const auto for_parts = [&](auto&& visit) {
    num_entries = 0;
    const auto count_and_visit = [&](EdgeStore& edges) {
      num_entries += edges.size() - edges.num_mirrored();
      visit(edges);
    };
    if (facts.streamed() && status.ok())
      status = source.read_blocks(
          [&](const FileSource::Block& block) {
            EdgeStore edges(weighted);
            status = source.parse_block(block, edges);
            if (status.ok()) count_and_visit(edges);
            return status;
          },
          silent);
    const std::uint64_t num_parts = facts.streamed() ? 0 : facts.bytes / kPartBytes + 1;
    for (std::uint64_t part = 0; part < num_parts && status.ok(); ++part) {
      EdgeStore edges(weighted);
      status = source.read_part(part, num_parts, edges, silent);
      if (status.ok()) count_and_visit(edges);
    }
    if (status.ok()) status = source.check_entries(num_entries);
  };
  std::uint64_t num_vertices = facts.num_rows(), num_edges = 0;
  if (EdgeWriter::needs_sizes(format))
    for_parts([&](EdgeStore& edges) {
      num_edges += edges.size();
      if (edges.size() > 0)
        num_vertices = std::max<std::uint64_t>(num_vertices, edges.largest() + std::uint64_t{1});
    });
  if (status.ok()) status = writer.open(num_vertices, num_edges);
  for_parts(write);
  if (status.ok()) status = source.check_unchanged();
  if (status.ok() && !arguments.names.empty()) status = write_names(arguments.names, names);
  if (status.ok()) status = writer.commit();
  if (const std::string note = source.note(); status.ok() && !note.empty())
    std::fprintf(stderr, "weft-graph: %s\n", note.c_str());
  return status;
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
  const nlohmann::ordered_json all = {{"graph", arguments.graph},
                                      {"vertices", graph.num_vertices()},
                                      {"edges", graph.num_edges()},
                                      {"self_loops", sums[0]},
                                      {"duplicate_edges", sums[1]},
                                      {"vertices_without_edges_out", sums[2]},
                                      {"largest_out_degree", largest},
                                      {"cut", graph.cut()},
                                      {"edges_of_processes", edges_of_ranks}};
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
