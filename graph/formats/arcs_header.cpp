#include <sstream>
#include <string>

#include "headers.hpp"
#include "text.hpp"

namespace weft::graph {

Status parse_arcs_header(std::string_view head, TextRules& rules, TextHeader& header) {
  rules.matrix = rules.arcs = rules.weighted = rules.needs_weights = true;
  text::HeaderLines lines(head, rules.line_end);
  for (std::string_view line; lines.next(line);) {
    header = {lines.bytes(), lines.count()};
    if (line.find('\r') != std::string_view::npos) return text::mixed_ends(rules.line_end);
    std::istringstream words{std::string(line)};
    std::string letter, kind, more;
    if (!(words >> letter) || letter == "c") continue;
    if (letter != "p")
      return text::wrong("expected DIMACS's \"p sp VERTICES ARCS\" before the arcs", line);
    if (line.find('-') != std::string_view::npos ||
        !(words >> kind >> rules.num_rows >> rules.num_entries) || words >> more || kind != "sp")
      return text::wrong(
          "expected \"p sp VERTICES ARCS\": of DIMACS's formats that of shortest paths is read",
          line);
    if (rules.num_rows >= kNoVertex) return text::wrong("more vertices than ids have", line);
    return Code::ok;
  }
  return {Code::corrupt,
          "no line \"p sp VERTICES ARCS\" in the first " + std::to_string(head.size()) + " bytes"};
}

}  // namespace weft::graph
