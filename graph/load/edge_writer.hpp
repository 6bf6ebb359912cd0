#pragma once
// EdgeWriter: writes edges in any of the formats; generators of graphs.
#include <cstdint>
#include <string>

#include "graph/common/output_file.hpp"
#include "weft/graph/graph.hpp"

namespace weft::graph {

class EdgeWriter {
 public:
  // unsupported for a gzipped name.
  static Status format_of(const std::string& path, FileFormat& format);
  // True if its sizes come before its edges.
  static bool needs_sizes(FileFormat format) {
    return format == FileFormat::matrix_market || format == FileFormat::dimacs;
  }
  static bool has_weights(FileFormat format) {
    return format != FileFormat::edge_list && format != FileFormat::gemini_binary;
  }
  // real: weights are the bits of floats, which the paper's format cannot have.
  EdgeWriter(const std::string& path, FileFormat format, bool real = false)
      : file_(path), format_(format), real_(real) {}
  Status open(std::uint64_t num_vertices, std::uint64_t num_edges);
  Status add(VertexId source, VertexId destination, Weight weight);
  Status commit() { return file_.commit(); }

 private:
  OutputFile file_;
  FileFormat format_;
  bool real_;
};

// R-MAT with a = 0.57, b = c = 0.19 (Graph500's): 2^scale vertices, edge_factor edges each, which
// may repeat and be self-loops. The same seed makes the same edges everywhere. `permute` gives
// vertices random numbers; without it the graph is as skewed as they come.
Status generate_rmat(unsigned scale, unsigned edge_factor, std::uint64_t seed, bool permute,
                     EdgeWriter& writer);
// A grid of width x height, each edge in both directions: long paths.
Status generate_grid(std::uint64_t width, std::uint64_t height, EdgeWriter& writer);

}  // namespace weft::graph
