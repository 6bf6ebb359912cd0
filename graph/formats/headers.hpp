#pragma once
// The beginnings of text files: how the lines behind them are read.
#include <string>
#include <string_view>

#include "edge_text.hpp"

namespace weft::graph {

struct TextHeader {
  std::size_t bytes = 0;         // where edges begin
  std::uint64_t lines = 0;       // lines before; of a header that is refused, the wrong line
  bool is_weight_third = false;  // of an edge list: weights are wanted, and a third number is there
  bool has_no_weights = false;   // of a table: weights are wanted, and no column is named so
};

// What the user says of an edge list.
struct ListOptions {
  bool is_all = false;         // these bytes are the whole file
  bool wants_weights = false;  // those of the edges
  bool named = false;          // vertices are words
  std::string columns = {};    // "source,destination[,weight]": names, or numbers from 1
};

// These read a header from the first bytes of a file into rules and header; rules.line_end is set
// before. `wants_weights`: of the edges. corrupt, unsupported or bad_argument;
// the text says what to do.

// MatrixMarket: header, comments, line of sizes.
Status parse_matrix_header(std::string_view text, bool wants_weights, TextRules& rules,
                           TextHeader& header);
// DIMACS's shortest paths: comments, and "p sp VERTICES ARCS".
Status parse_arcs_header(std::string_view text, TextRules& rules, TextHeader& header);
// An edge list may begin with a line of names, as tables do, which says where its columns are; of
// one without, how many numbers its first edge has is so for all. rules.weighted and
// rules.needs_weights say whether the third is a weight anyway.
Status parse_list_header(std::string_view head, const ListOptions& options, TextRules& rules,
                         TextHeader& header);

}  // namespace weft::graph
