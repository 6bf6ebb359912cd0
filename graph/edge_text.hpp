#pragma once
// Edges in text: SNAP's edge lists, .el, .wel, and the entries of MatrixMarket files. Every byte
// comes from outside; what is wrong is told with its line.
#include <cstdint>
#include <string_view>

#include "edge_store.hpp"
#include "weft/graph/types.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// What a line means.
struct TextRules {
  bool weighted = false;       // a third number is the weight; otherwise the rest is ignored
  bool needs_weights = false;  // and is wanted: a line without one is an error
  bool matrix = false;     // vertices are counted from 1, and there are at most num_rows of them
  bool symmetric = false;  // an entry off the diagonal stands for two
  std::uint64_t num_rows = 0, num_entries = 0;  // of a matrix: rows or columns, whatever is more
};

// Longer lines are no edges.
inline constexpr std::size_t kMaxLineBytes = 4096;

// Reads the lines of `text`, the last of which may lack its end, into `edges`; *num_lines: how many
// lines were read, and when the result is corrupt, the wrong one among them. Comments begin with #
// or
// %, empty lines are passed over.
Status parse_edges(std::string_view text, const TextRules& rules, EdgeStore& edges,
                   std::uint64_t* num_lines);

// Reads a MatrixMarket header with its comments and line of sizes from the beginning of a file;
// *header_bytes: where entries begin; *num_lines: lines before. corrupt or unsupported, with
// *num_lines the wrong line.
Status parse_matrix_header(std::string_view text, TextRules& rules, std::size_t* header_bytes,
                           std::uint64_t* num_lines);

// The byte behind the last complete line.
inline std::size_t end_of_lines(std::string_view text) noexcept {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace weft::graph
