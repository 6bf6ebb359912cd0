#pragma once
// Edges in text: SNAP's edge lists, .el, .wel, and the entries of MatrixMarket and DIMACS files.
// The input is not trusted; errors are reported with their line.
#include <cstdint>
#include <string_view>

#include "edge_store.hpp"
#include "weft/graph/types.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// The meaning of a line.
struct TextRules {
  bool weighted = false;       // a third number is the weight; otherwise the rest is ignored
  bool needs_weights = false;  // and is wanted: a line without one is an error
  bool matrix = false;     // vertices are counted from 1, and there are at most num_rows of them
  bool arcs = false;       // DIMACS: lines begin with "a"; those with "c" are comments
  bool symmetric = false;  // an entry off the diagonal stands for two
  std::uint64_t num_rows = 0, num_entries = 0;  // of a matrix
  // Numbers at the beginning of every line; a line with more or fewer is an error, as it is one of
  // another format. 0: not checked.
  unsigned columns = 0;
};

// Longer lines are no edges.
inline constexpr std::size_t kMaxLineBytes = 4096;

// Reads the lines of `text`, the last of which may lack its end, into `edges`; *num_lines: how many
// lines were read, and when the result is corrupt, the wrong one among them. Comments begin with #
// or %, empty lines are passed over, lines end in \n or \r\n.
Status parse_edges(std::string_view text, const TextRules& rules, EdgeStore& edges,
                   std::uint64_t* num_lines);

// The header of a text format.
struct TextHeader {
  std::size_t bytes = 0;         // where edges begin
  std::uint64_t lines = 0;       // lines before; of a header that is refused, the wrong line
  bool is_weight_third = false;  // of an edge list: weights are wanted, and a third number is there
};

// These read a header from the first bytes of a file into rules and header. `is_all`: the file has
// no more. `wants_weights`: of the edges. corrupt or unsupported; the text says what to do.

// MatrixMarket: header, comments, line of sizes.
Status parse_matrix_header(std::string_view text, bool wants_weights, TextRules& rules,
                           TextHeader& header);
// DIMACS's shortest paths: comments, and "p sp VERTICES ARCS".
Status parse_arcs_header(std::string_view text, TextRules& rules, TextHeader& header);
// An edge list may begin with a line of names, as tables do; how many numbers its first edge has is
// so for all. rules.weighted and rules.needs_weights say whether the third is a weight anyway.
Status parse_list_header(std::string_view text, bool is_all, bool wants_weights, TextRules& rules,
                         TextHeader& header);

// The error for a line longer than kMaxLineBytes.
Status long_line(std::string_view line);

// The byte behind the last complete line.
inline std::size_t end_of_lines(std::string_view text) noexcept {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace weft::graph
