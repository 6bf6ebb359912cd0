#include "results.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "graph/common/agree.hpp"
#include "graph/common/gather.hpp"
#include "graph/common/output_file.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kVerticesAtOnce = std::size_t{1} << 16;  // that rank 0 fetches

template <class T>
Status fetch(const Graph& graph, const OwnedArray<T>& values, VertexId first, std::size_t count,
             std::vector<T>& piece) {
  piece.resize(count);
  return gather(graph.job(), parts_of(graph, values), first, count, piece.data());
}

// One column's values of the vertices that are written next.
template <class T>
struct Column {
  const OwnedArray<T>& values;
  bool are_vertices = false;
  bool are_reals = false;  // the bits of doubles
  std::vector<T> piece = {};
};

template <class T>
void append(std::string& line, const Column<T>& column, std::size_t i, const VertexNames* names) {
  const T value = column.piece[i];
  line += ' ';
  if constexpr (std::is_same_v<T, VertexId>) {
    if (column.are_vertices && names != nullptr && value < names->size()) {
      line += written(names->name(value), true);
      return;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    if (value == std::numeric_limits<T>::max()) {
      line += "-1";
      return;
    }
  }
  char digits[40];
  char* end = nullptr;
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (column.are_reals) end = std::to_chars(digits, std::end(digits), real_distance(value)).ptr;
  }
  if (end == nullptr) end = std::to_chars(digits, std::end(digits), value).ptr;
  line.append(digits, end);
}

template <class... T>
Status write_columns(const Graph& graph, ResultFormat format, OutputFile& file,
                     Column<T>... columns) {
  std::string text;
  const VertexNames* const names = graph.names();
  for (VertexId first = 0; first < graph.num_vertices();) {
    const std::size_t count = std::min<std::size_t>(kVerticesAtOnce, graph.num_vertices() - first);
    Status status;
    (void)((status = fetch(graph, columns.values, first, count, columns.piece), status.ok()) &&
           ...);
    if (!status.ok()) return status;
    text.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if (format == ResultFormat::text) {
        const auto vertex = static_cast<VertexId>(first + i);
        text += names == nullptr ? std::to_string(vertex) : written(names->name(vertex), false);
        (append(text, columns, i, names), ...);
        text += '\n';
      } else {
        (text.append(reinterpret_cast<const char*>(&columns.piece[i]), sizeof(T)), ...);
      }
    }
    status = file.write(text);
    if (!status.ok()) return status;
    first += static_cast<VertexId>(count);
  }
  return file.commit();
}

template <class... T>
Status write_file(const Graph& graph, ResultFormat format, const std::string& path,
                  const Column<T>&... columns) {
  Status status;
  if (graph.job().rank() == 0) {
    OutputFile file(path);
    status = file.open();
    if (status.ok()) status = write_columns(graph, format, file, columns...);
  }
  return agree(graph.job(), status);
}

}  // namespace

std::string written(std::string_view name, bool is_value) {
  if (name.find_first_of(" \t,\"") == std::string_view::npos && !(is_value && name == "-1"))
    return std::string(name);
  std::string text = "\"";
  for (const char c : name) text.append(c == '"' ? 2 : 1, c);
  return text + "\"";
}

Status write_result(const Graph& graph, const Bfs& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<std::uint32_t>{result.depth},
                    Column<VertexId>{result.parent, true});
}
Status write_result(const Graph& graph, const Sssp& result, ResultFormat format,
                    const std::string& path) {
  return write_file(
      graph, format, path,
      Column<std::uint64_t>{.values = result.distance, .are_reals = graph.has_real_weights()});
}
Status write_result(const Graph& graph, const Wcc& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<VertexId>{result.component, true});
}
Status write_result(const Graph& graph, const PageRank& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<double>{result.rank});
}
Status write_result(const Graph& graph, const Cdlp& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<VertexId>{result.label, true});
}
Status write_result(const Graph& graph, const Lcc& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<double>{result.coefficient});
}
Status write_result(const Graph& graph, const Triangles& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<std::uint64_t>{result.of_vertex});
}
Status write_result(const Graph& graph, const KCore& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<std::uint32_t>{result.core});
}
Status write_result(const Graph& graph, const Betweenness& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, Column<double>{result.score});
}

}  // namespace weft::graph
