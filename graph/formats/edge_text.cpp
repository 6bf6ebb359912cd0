#include "edge_text.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "table_text.hpp"

namespace weft::graph {
namespace {

using text::Cursor;
using text::wrong;

Status too_large(std::string_view line) {
  return wrong(
      "vertex id does not fit in " + std::to_string(WEFT_GRAPH_VERTEX_BITS) +
          " bits (--named numbers the vertices" +
          (WEFT_GRAPH_VERTEX_BITS == 32 ? ", or build Weft with -Dgraph_vertex_bits=64)" : ")"),
      line);
}

Status parse_line(const char* begin, const char* end, const TextRules& rules, EdgeStore& edges) {
  const std::string_view line(begin, static_cast<std::size_t>(end - begin));
  Cursor cursor{begin, end};
  cursor.pass_blanks();
  if (cursor.is_at_end() || text::is_comment(*cursor.at)) return Code::ok;
  if (rules.arcs) {
    const char kind = *cursor.at++;
    if (!cursor.ends_field() || (kind != 'a' && kind != 'c'))
      return wrong("expected \"a SOURCE DESTINATION WEIGHT\"", line);
    if (kind == 'c') return Code::ok;
    cursor.pass_blanks();
  }
  const Cursor first = cursor;
  std::uint64_t ends[2];
  for (std::uint64_t& vertex : ends) {
    switch (parse_whole(cursor, vertex)) {
      case text::Parsed::number:
        break;
      case text::Parsed::too_large:
        return too_large(line);
      case text::Parsed::junk:
        return wrong(not_an_id(), line);
    }
    if (rules.matrix) {
      if (vertex == 0 || vertex > rules.num_rows)
        return wrong("row or column outside 1 to " + std::to_string(rules.num_rows), line);
      --vertex;
    }
    // The largest number stands for no vertex, and one more than an id must be a number as well.
    if (vertex >= kNoVertex) return too_large(line);
    cursor.pass_separator();
  }
  if (rules.columns > 0 && !(cursor.is_at_end() && rules.columns == 2)) {
    const unsigned columns = count_numbers(first);
    if (columns != rules.columns)
      return wrong(std::to_string(columns) + " numbers, where the first edge has " +
                       std::to_string(rules.columns) +
                       ": an edge list has as many in every line (--format metis reads METIS's)",
                   line);
  }
  Weight weight = rules.weight_form.one();
  if (rules.weighted && edges.weighted()) {
    if (!cursor.is_at_end()) {
      if (const Status status = parse_weight(cursor, line, rules.weight_form, weight); !status.ok())
        return status;
    } else if (rules.needs_weights) {
      return wrong("expected source, destination and weight", line);
    }
  }
  edges.add(static_cast<VertexId>(ends[0]), static_cast<VertexId>(ends[1]), weight);
  if (rules.symmetric && ends[0] != ends[1])
    edges.add_mirrored(static_cast<VertexId>(ends[1]), static_cast<VertexId>(ends[0]), weight);
  return Code::ok;
}

Status parse_row(const char* begin, const char* end, const TextRules& rules, VertexNames* names,
                 EdgeStore& edges) {
  Cursor cursor{begin, end};
  cursor.pass_blanks();
  if (cursor.is_at_end() || text::is_comment(*cursor.at)) return Code::ok;
  return parse_table_line({begin, static_cast<std::size_t>(end - begin)}, rules,
                          rules.named ? names : nullptr, edges);
}

}  // namespace

std::string not_an_id() {
  return "expected two vertex ids (whole numbers from 0; blanks, a tab or a comma between them; "
         "--named takes any words for vertices)";
}

Status long_line(std::string_view line, char line_end) {
  const char other = line_end == '\n' ? '\r' : '\n';
  if (line.substr(0, kMaxLineBytes).find(other) != std::string_view::npos)
    return text::mixed_ends(line_end);
  return {Code::corrupt, "line is longer than " + std::to_string(kMaxLineBytes) +
                             " bytes, and so no edge; is the file text, with a line an edge?"};
}

Status parse_edges(std::string_view text, const TextRules& rules, EdgeStore& edges,
                   std::uint64_t* num_lines, VertexNames* names) {
  *num_lines = 0;
  const char* line = text.data();
  const char* const text_end = text.data() + text.size();
  const char other = rules.line_end == '\n' ? '\r' : '\n';
  const bool has_others = text.find(other) != std::string_view::npos;
  while (line < text_end) {
    const auto* found = static_cast<const char*>(
        std::memchr(line, rules.line_end, static_cast<std::size_t>(text_end - line)));
    const char* const next = found == nullptr ? text_end : found;
    const char* end = next;
    ++*num_lines;
    if (static_cast<std::size_t>(end - line) > kMaxLineBytes)
      return long_line({line, static_cast<std::size_t>(end - line)}, rules.line_end);
    if (has_others) {
      while (other == '\r' && end > line && end[-1] == '\r') --end;
      if (std::find(line, end, other) != end) return text::mixed_ends(rules.line_end);
    }
    const Status status = rules.table ? parse_row(line, end, rules, names, edges)
                                      : parse_line(line, end, rules, edges);
    if (!status.ok()) return status;
    line = next + 1;
  }
  return Code::ok;
}

}  // namespace weft::graph
