#include <sstream>
#include <string>

#include "headers.hpp"
#include "text.hpp"

namespace weft::graph {

Status parse_matrix_header(std::string_view head, bool wants_weights, TextRules& rules,
                           TextHeader& header) {
  rules.matrix = true;
  text::HeaderLines lines(head, rules.line_end);
  for (std::string_view line; lines.next(line);) {
    header = {lines.bytes(), lines.count()};
    if (line.find('\r') != std::string_view::npos) return text::mixed_ends(rules.line_end);
    std::istringstream words{std::string(line)};
    if (header.lines == 1) {
      std::string magic, object, layout, field, symmetry;
      words >> magic >> object >> layout >> field >> symmetry;
      for (std::string* word : {&magic, &object, &layout, &field, &symmetry})
        *word = text::lower(std::move(*word));
      if ((magic != "%%matrixmarket" && magic != "%matrixmarket") || object != "matrix")
        return text::wrong(
            "expected \"%%MatrixMarket matrix\" (--format el reads lines of two ids)", line);
      if (layout != "coordinate")
        return {Code::unsupported, "only coordinate matrices are graphs, not \"" + layout +
                                       "\": write its entries "
                                       "as \"row column value\""};
      if (field != "pattern" && field != "integer" && field != "real" && field != "complex")
        return text::wrong("expected pattern, integer, real or complex", line);
      if (field == "complex" && wants_weights)
        return {Code::unsupported,
                "complex numbers are no weights of edges: --weights none passes over them"};
      rules.weighted = field == "integer" || field == "real";
      rules.needs_weights = rules.weighted;
      if (symmetry != "general" && symmetry != "symmetric" && symmetry != "hermitian")
        return {Code::unsupported,
                "only general, symmetric and hermitian matrices are graphs, not \"" + symmetry +
                    "\": write all its entries, as general"};
      rules.symmetric = symmetry != "general";
      continue;
    }
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos || line[begin] == '%') continue;
    std::uint64_t rows = 0, columns = 0;
    std::string more;
    if (line.find('-') != std::string_view::npos ||
        !(words >> rows >> columns >> rules.num_entries) || words >> more)
      return text::wrong("expected rows, columns and entries", line);
    if (rows != columns)
      return text::wrong(
          "rows and columns are the same vertices in a graph, so a matrix must be square; number "
          "the columns of a bipartite graph from " +
              std::to_string(rows + 1) + " on",
          line);
    rules.num_rows = rows;
    if (rules.num_rows >= kNoVertex)
      return text::wrong("more rows or columns than vertex ids have", line);
    return Code::ok;
  }
  return {Code::corrupt, "no line of sizes in the first " + std::to_string(head.size()) + " bytes"};
}

}  // namespace weft::graph
