#include "results.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "agree.hpp"
#include "output_file.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kVerticesAtOnce = std::size_t{1}
                                        << 16;  // vertices that rank 0 fetches at once

template <class T>
Status fetch(const Graph& graph, const OwnedArray<T>& values, int owner, VertexId first,
             std::size_t count, std::vector<T>& piece) {
  piece.resize(count);
  if (owner == graph.job().rank()) {
    std::copy_n(&values[first], count, piece.begin());
    return Code::ok;
  }
  const std::uint64_t offset =
      std::uint64_t{first - graph.cut()[static_cast<std::size_t>(owner)]} * sizeof(T);
  const Code code = graph.job().rdma_read(
      0, values.remotes()[static_cast<std::size_t>(owner)].part(offset, count * sizeof(T)),
      piece.data(), count * sizeof(T));
  if (code == Code::ok) return code;
  return {code, "cannot read the results of " + graph.job().describe(owner)};
}

template <class T>
void append(std::string& line, T value) {
  line += ' ';
  if constexpr (std::is_integral_v<T>) {
    if (value == std::numeric_limits<T>::max()) {
      line += "-1";
      return;
    }
  }
  char digits[40];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  line.append(digits, end);
}

// One column's values of the vertices that are written next.
template <class T>
struct Column {
  const OwnedArray<T>& values;
  std::vector<T> piece;
};

template <class... T>
Status write_columns(const Graph& graph, ResultFormat format, OutputFile& file,
                     Column<T>... columns) {
  std::string text;
  for (int owner = 0; owner < graph.job().size(); ++owner) {
    const VertexId end = graph.cut()[static_cast<std::size_t>(owner) + 1];
    for (VertexId first = graph.cut()[static_cast<std::size_t>(owner)]; first < end;) {
      const std::size_t count = std::min<std::size_t>(kVerticesAtOnce, end - first);
      Status status;
      (void)((status = fetch(graph, columns.values, owner, first, count, columns.piece),
              status.ok()) &&
             ...);
      if (!status.ok()) return status;
      text.clear();
      for (std::size_t i = 0; i < count; ++i) {
        if (format == ResultFormat::text) {
          text += std::to_string(first + i);
          (append(text, columns.piece[i]), ...);
          text += '\n';
        } else {
          (text.append(reinterpret_cast<const char*>(&columns.piece[i]), sizeof(T)), ...);
        }
      }
      status = file.write(text);
      if (!status.ok()) return status;
      first += static_cast<VertexId>(count);
    }
  }
  return file.commit();
}

template <class... T>
Status write_file(const Graph& graph, ResultFormat format, const std::string& path,
                  const OwnedArray<T>&... columns) {
  Status status;
  if (graph.job().rank() == 0) {
    OutputFile file(path);
    status = file.open();
    if (status.ok()) status = write_columns(graph, format, file, Column<T>{columns, {}}...);
  }
  return agree(graph.job(), status);
}

}  // namespace

Status write_result(const Graph& graph, const Bfs& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, result.depth, result.parent);
}
Status write_result(const Graph& graph, const Sssp& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, result.distance);
}
Status write_result(const Graph& graph, const Wcc& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, result.component);
}
Status write_result(const Graph& graph, const PageRank& result, ResultFormat format,
                    const std::string& path) {
  return write_file(graph, format, path, result.rank);
}

}  // namespace weft::graph
