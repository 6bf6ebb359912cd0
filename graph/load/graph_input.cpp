#include "graph_input.hpp"

#include <algorithm>
#include <cstdio>

#include "graph/common/agree.hpp"
#include "input_files.hpp"
#include "names_file.hpp"

namespace weft::graph {

void GraphInput::find() {
  InputFiles found;
  Status status;
  std::string mine;
  if (job_.rank() == 0) {
    status = find_files(path_, options_.more_files, found);
    for (const std::string& path : found.edges) mine += path + '\0';
    vertices_ = found.vertices;
    const auto is_pipe = [](const std::string& path) { return path == "-"; };
    if (status.ok() && options_.cache &&
        std::any_of(found.edges.begin(), found.edges.end(), is_pipe))
      status = {Code::bad_argument, "--cache is for files, and standard input is none"};
    if (status.ok()) status = find_names();
  }
  throw_together(job_, status);
  std::vector<char> letters;
  std::vector<std::size_t> counts;
  throw_if(job_.all_gather(std::span<const char>(mine), letters, counts));
  for (std::size_t at = 0; at < letters.size(); at += files_.back().size() + 1)
    files_.emplace_back(letters.data() + at);
  std::uint64_t numbers[] = {is_named_ ? 1u : 0u, num_listed_,
                             names_ != nullptr ? names_->size() : std::uint64_t{0}};
  throw_if(job_.all_reduce(std::span(numbers), transport::Max()));
  is_named_ = numbers[0] != 0;
  num_listed_ = numbers[1];
  num_names_ = numbers[2];
}

Status GraphInput::find_names() {
  const bool have_names = !options_.names.empty();
  if (options_.named && have_names)
    return {Code::bad_argument,
            "--names is for a graph whose vertices have numbers by now, and --named for one whose "
            "vertices get them: give one of them"};
  if (options_.named && options_.cache)
    return {Code::bad_argument, "--cache keeps no names: convert the graph with --names"};
  is_named_ = options_.named;
  if (is_named_ || have_names) names_ = std::make_shared<VertexNames>();
  if (have_names)
    if (const Status status = read_names(options_.names, *names_); !status.ok()) return status;
  return vertices_.empty() ? Status() : take_vertices();
}

Status GraphInput::take_vertices() {
  auto names = std::make_shared<VertexNames>();
  bool are_numbers = false;
  const Status status = read_vertices(vertices_, *names, &are_numbers);
  if (!status.ok()) return status;
  num_listed_ = names->size();
  if (!options_.names.empty())
    return {Code::bad_argument, vertices_ + " has the vertices' names: leave out --names"};
  if (are_numbers && !options_.named) return Code::ok;
  if (options_.cache)
    return {Code::bad_argument, "--cache keeps no names, which the vertices of " + vertices_ +
                                    " have: convert the graph with --names"};
  names_ = std::move(names);
  is_named_ = true;
  return Code::ok;
}

void GraphInput::identify(FileFacts& facts) const {
  struct Identity {
    std::uint64_t bytes = 0;
    std::int64_t changed_ns = 0;
  } mine;
  Status status;
  if (job_.rank() == 0) {
    std::vector<std::string> paths = files_;
    if (!vertices_.empty()) paths.push_back(vertices_);
    status = graph::identify(paths, mine.bytes, mine.changed_ns);
  }
  throw_together(job_, status);
  std::vector<Identity> all;
  throw_if(job_.all_gather(mine, all));
  facts.bytes = all[0].bytes;
  facts.changed_ns = all[0].changed_ns;
  if (options_.columns.empty() && options_.weight_scale == 1 && options_.names.empty()) return;
  char scale[40];
  std::snprintf(scale, sizeof scale, "%a", options_.weight_scale);
  std::uint64_t sum = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : options_.columns + '\n' + scale + '\n' + std::to_string(num_names_))
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  facts.changed_ns ^= static_cast<std::int64_t>(sum);
}

std::string GraphInput::unlisted() const {
  if (names_ == nullptr || names_->size() <= num_listed_) return {};
  return ": " + std::string(names_->name(static_cast<VertexId>(num_listed_)).substr(0, 80));
}

std::uint64_t GraphInput::with_names(std::uint64_t num_vertices) const {
  std::uint64_t num_names = names_ != nullptr ? names_->size() : 0;
  throw_if(job_.all_reduce(num_names, transport::Max()));
  if (!options_.names.empty() && num_vertices > num_names)
    throw Error({Code::corrupt, options_.names + ": has " + std::to_string(num_names) +
                                    " names, and " + path_ + " vertices up to " +
                                    std::to_string(num_vertices - 1) +
                                    ": is it of another graph?"});
  if (num_listed_ > 0 && std::max(num_vertices, num_names) > num_listed_)
    throw_together(job_, {Code::corrupt, path_ + ": an edge has a vertex that is not among the " +
                                             std::to_string(num_listed_) +
                                             " of its file of vertices" + unlisted()});
  return std::max({num_vertices, num_names, num_listed_});
}

}  // namespace weft::graph
