#pragma once
// Edges in text, a line each: SNAP's edge lists, .el, .wel, tables, and the entries of MatrixMarket
// and DIMACS files. The input is not trusted; errors are reported with their line.
#include <cstdint>
#include <string>
#include <string_view>

#include "edge_store.hpp"
#include "weft/graph/names.hpp"
#include "weft/graph/types.hpp"
#include "weft/status.hpp"
#include "weights.hpp"

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
  WeightForm weight_form = {};
  // A table, or vertices with names: which columns are what, from 0, with what between them (0:
  // blanks or a comma).
  bool table = false, named = false;
  char separator = 0;
  unsigned source = 0, destination = 1, weight = 2;
  char line_end = '\n';  // or '\r', in files of old Macintoshes; "\r\n" ends in '\n'
};

// Longer lines are no edges.
inline constexpr std::size_t kMaxLineBytes = 4096;

// Reads the lines of `text`, the last of which may lack its end, into `edges`; *num_lines: how many
// lines were read, and when the result is corrupt, the wrong one among them. Comments begin with #
// or %, empty lines are passed over.
// With rules.named `names` numbers the vertices.
Status parse_edges(std::string_view text, const TextRules& rules, EdgeStore& edges,
                   std::uint64_t* num_lines, VertexNames* names = nullptr);

// What is expected of vertices, for an error.
std::string not_an_id();

// The error for a line longer than kMaxLineBytes.
Status long_line(std::string_view line, char line_end);

// The byte behind the last complete line.
inline std::size_t end_of_lines(std::string_view text, char line_end = '\n') noexcept {
  const std::size_t last = text.rfind(line_end);
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace weft::graph
