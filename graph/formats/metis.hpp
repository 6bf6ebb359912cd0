#pragma once
// METIS's format, which is DIMACS 10's: "VERTICES EDGES [FORMAT [WEIGHTS]]", then a line for each
// vertex with its neighbours, counted from 1; each edge stands in both its vertices' lines.
#include <cstdint>
#include <string_view>

#include "edge_store.hpp"
#include "headers.hpp"
#include "text.hpp"
#include "weft/status.hpp"
#include "weights.hpp"

namespace weft::graph {

// What stands in a line besides neighbours.
struct MetisRules {
  unsigned skipped = 0;      // numbers before them: the vertex's size and weights
  bool has_weights = false;  // behind each neighbour its edge's weight
  std::uint64_t num_rows = 0, num_entries = 0;  // lines, and neighbours in all of them
  WeightForm weight_form = {};
  char line_end = '\n';
};

// As the headers of headers.hpp.
Status parse_metis_header(std::string_view head, MetisRules& rules, TextHeader& header);

// What the first bytes of a file that is text say about whether it is METIS's.
enum class MetisGuess { no, possible };
MetisGuess guess_metis(std::string_view head, bool is_all, char line_end);

// Reads the lines in order. A piece may end anywhere between two fields or lines; a line may be of
// any length, as a vertex may have any number of neighbours.
class MetisReader {
 public:
  explicit MetisReader(const MetisRules& rules) : rules_(rules) {}
  // Adds the edges of a piece; `is_last`: nothing follows. corrupt; lines() is then the wrong one.
  Status read(std::string_view piece, bool is_last, EdgeStore& edges);
  // The lines that have begun.
  std::uint64_t lines() const noexcept { return lines_; }

 private:
  Status add_field(text::Cursor& field, std::string_view shown, EdgeStore& edges);
  Status end_line();

  MetisRules rules_;
  std::uint64_t lines_ = 1;
  std::uint64_t vertex_ = 0;  // whose line is read
  unsigned num_skipped_ = 0;  // fields of it before the neighbours
  bool in_comment_ = false, is_line_empty_ = true;
  bool awaits_weight_ = false;  // of the edge to neighbour_
  VertexId neighbour_ = 0;
};

}  // namespace weft::graph
