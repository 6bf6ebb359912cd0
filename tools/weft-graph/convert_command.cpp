#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "graph/load/edge_writer.hpp"
#include "graph/load/file_source.hpp"
#include "graph/load/input_files.hpp"
#include "graph/load/names_file.hpp"

namespace weft::graph {
namespace {

// The edges of all files of a conversion, in parts, so that only one of them is in memory.
class ConvertedEdges {
 public:
  // Without a form the edges have no weights.
  explicit ConvertedEdges(const std::optional<WeightForm>& form)
      : weighted_(form), form_(form.value_or(WeightForm())) {}

  Status open(const ConvertArguments& arguments) {
    InputFiles files;
    Status status = find_files(arguments.from, arguments.more_files, files);
    const bool named = !arguments.names.empty();
    if (status.ok() && !files.vertices.empty()) {
      bool are_numbers = false;
      status = read_vertices(files.vertices, names_, &are_numbers);
      num_listed_ = names_.size();
      if (status.ok() && !are_numbers && !named)
        status = {Code::bad_argument,
                  files.vertices +
                      ": its vertices are not 0, 1, 2 and so on: say with --names FILE "
                      "where to write which is which"};
    }
    for (const std::string& path : files.edges) {
      if (!status.ok()) break;
      sources_.push_back(std::make_unique<FileSource>(path));
      FileFacts& facts = facts_.emplace_back();
      status = sources_.back()->inspect({.format = arguments.from_format,
                                         .wants_weights = weighted_,
                                         .columns = arguments.columns,
                                         .weight_form = form_,
                                         .names = named ? &names_ : nullptr},
                                        facts);
      if (status.ok()) status = sources_.back()->open(facts);
    }
    return status;
  }

  // visit(edges) for each part, until it returns an error.
  Status read(const std::function<Status(EdgeStore&)>& visit) {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (const Status status = read(*sources_[i], facts_[i], visit); !status.ok()) return status;
    if (num_listed_ > 0 && num_vertices() > num_listed_)
      return {Code::corrupt, "an edge has a vertex that is not among the " +
                                 std::to_string(num_listed_) + " of the file of vertices"};
    return Code::ok;
  }

  Status check_unchanged() const {
    for (const auto& source : sources_)
      if (const Status status = source->check_unchanged(); !status.ok()) return status;
    return Code::ok;
  }
  std::string note() const {
    for (const auto& source : sources_)
      if (const std::string note = source->note(); !note.empty()) return note;
    return {};
  }
  // That were read so far, stand in a header, or have names.
  std::uint64_t num_vertices() const {
    return std::max<std::uint64_t>(num_vertices_, names_.size());
  }
  const VertexNames& names() const { return names_; }

 private:
  Status read(FileSource& source, const FileFacts& facts,
              const std::function<Status(EdgeStore&)>& visit) {
    constexpr std::uint64_t kPartBytes = std::uint64_t{64} << 20;
    const FileSource::Progress silent = [](std::uint64_t) {};
    std::uint64_t num_entries = 0;
    num_vertices_ = std::max(num_vertices_, facts.num_rows());
    const auto add = [&](EdgeStore& edges) {
      num_entries += edges.size() - edges.num_mirrored();
      if (edges.size() > 0)
        num_vertices_ = std::max<std::uint64_t>(num_vertices_, edges.largest() + std::uint64_t{1});
      return visit(edges);
    };
    Status status;
    if (facts.streamed())
      status = source.read_blocks(
          [&](const FileSource::Block& block) {
            EdgeStore edges(weighted_);
            const Status parsed = source.parse_block(block, edges);
            return parsed.ok() ? add(edges) : parsed;
          },
          silent);
    const std::uint64_t num_parts = facts.streamed() ? 0 : facts.bytes / kPartBytes + 1;
    for (std::uint64_t part = 0; part < num_parts && status.ok(); ++part) {
      EdgeStore edges(weighted_);
      status = source.read_part(part, num_parts, edges, silent);
      if (status.ok()) status = add(edges);
    }
    return status.ok() ? source.check_entries(num_entries) : status;
  }

  bool weighted_;
  WeightForm form_;
  std::vector<std::unique_ptr<FileSource>> sources_;
  std::vector<FileFacts> facts_;
  VertexNames names_;
  std::uint64_t num_vertices_ = 0;
  std::uint64_t num_listed_ = 0;  // in Graphalytics' file of vertices; 0: there is none
};

}  // namespace

Status convert(transport::Job& job, const ConvertArguments& arguments) {
  FileFormat format = arguments.to_format;
  Status status = alone(job, "convert");
  if (status.ok()) status = EdgeWriter::format_of(arguments.to, format);
  if (status.ok()) status = check_effects(arguments, format);
  if (!status.ok()) return status;
  const bool real = arguments.weights == Weights::real;
  std::optional<WeightForm> form;
  if ((real || arguments.weights == Weights::file) && EdgeWriter::has_weights(format))
    form = {.real = real, .scale = arguments.weight_scale};
  ConvertedEdges converted(form);
  status = converted.open(arguments);
  std::uint64_t num_edges = 0;
  if (status.ok() && EdgeWriter::needs_sizes(format))
    status = converted.read([&](EdgeStore& edges) {
      num_edges += edges.size();
      return Status();
    });
  EdgeWriter writer(arguments.to, format, real);
  if (status.ok()) status = writer.open(converted.num_vertices(), num_edges);
  if (status.ok())
    status = converted.read([&](EdgeStore& edges) {
      Status written;
      edges.for_each(
          true,
          [&](VertexId u, VertexId v, Weight weight) {
            if (!written.ok()) return;
            written =
                writer.add(u, v, arguments.weights == Weights::hash ? hash_weight(u, v) : weight);
          },
          [] {});
      return written;
    });
  if (status.ok()) status = converted.check_unchanged();
  if (status.ok() && !arguments.names.empty())
    status = write_names(arguments.names, converted.names());
  if (status.ok()) status = writer.commit();
  if (const std::string note = converted.note(); status.ok() && !note.empty())
    std::fprintf(stderr, "weft-graph: %s\n", note.c_str());
  return status;
}

}  // namespace weft::graph
