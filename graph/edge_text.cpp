#include "edge_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>

namespace weft::graph {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == ','; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(const char* begin, const char* end) {
  std::string text;
  for (; begin < end && text.size() < 40; ++begin)
    text += *begin >= ' ' && *begin <= '~' ? *begin : '?';
  return text + (begin < end ? "..." : "");
}

// A place in a line; `end` is the line's end.
struct Cursor {
  const char* at;
  const char* end;
  void pass_blanks() {
    while (at < end && is_blank(*at)) ++at;
  }
};

enum class Parsed { number, nothing, junk, too_large };

Parsed parse_vertex(Cursor& cursor, std::uint64_t& value) {
  cursor.pass_blanks();
  if (cursor.at == cursor.end) return Parsed::nothing;
  if (!is_digit(*cursor.at)) return Parsed::junk;
  std::uint64_t number = 0;
  const char* const begin = cursor.at;
  while (cursor.at < cursor.end && is_digit(*cursor.at))
    number = number * 10 + static_cast<unsigned>(*cursor.at++ - '0');
  if (cursor.at < cursor.end && !is_blank(*cursor.at)) return Parsed::junk;
  // 19 digits fit in 64 bits; more may have wrapped.
  if (cursor.at - begin > 19) return Parsed::too_large;
  value = number;
  return Parsed::number;
}

Status wrong(const std::string& what, const char* line, const char* end) {
  return {Code::corrupt, what + ", found \"" + shown(line, end) + "\""};
}

Status parse_weight(Cursor& cursor, const char* line, const TextRules& rules, Weight& weight) {
  cursor.pass_blanks();
  if (cursor.at == cursor.end) {
    if (!rules.needs_weights) return Code::ok;
    return wrong("expected source, destination and weight", line, cursor.end);
  }
  std::uint64_t whole = 0;
  Cursor quick = cursor;
  if (parse_vertex(quick, whole) == Parsed::number && whole <= std::numeric_limits<Weight>::max()) {
    weight = static_cast<Weight>(whole);
    return Code::ok;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(cursor.at, cursor.end, value);
  if (error != std::errc() || (stop < cursor.end && !is_blank(*stop)))
    return wrong("expected a number as the weight", line, cursor.end);
  if (value < 0)
    return wrong("negative weight: shortest paths need weights from 0", line, cursor.end);
  if (!(value <= std::numeric_limits<Weight>::max()) || value != std::floor(value))
    return wrong("weight is not a whole number of 32 bits", line, cursor.end);
  weight = static_cast<Weight>(value);
  return Code::ok;
}

Status parse_line(const char* line, const char* end, const TextRules& rules, EdgeStore& edges) {
  Cursor cursor{line, end};
  cursor.pass_blanks();
  if (cursor.at == end || *cursor.at == '#' || *cursor.at == '%') return Code::ok;
  std::uint64_t ends[2];
  for (std::uint64_t& vertex : ends) {
    switch (parse_vertex(cursor, vertex)) {
      case Parsed::number:
        break;
      case Parsed::too_large:
        return wrong(
            "vertex id does not fit in " + std::to_string(WEFT_GRAPH_VERTEX_BITS) + " bits", line,
            end);
      default:
        return wrong("expected two vertex ids", line, end);
    }
    if (rules.matrix) {
      if (vertex == 0 || vertex > rules.num_rows)
        return wrong("row or column outside 1 to " + std::to_string(rules.num_rows), line, end);
      --vertex;
    }
    // The largest number stands for no vertex, and one more than an id must be a number as well.
    if (vertex >= kNoVertex)
      return wrong("vertex id does not fit in " + std::to_string(WEFT_GRAPH_VERTEX_BITS) + " bits",
                   line, end);
  }
  Weight weight = 1;
  if (rules.weighted && edges.weighted()) {
    const Status status = parse_weight(cursor, line, rules, weight);
    if (!status.ok()) return status;
  }
  edges.add(static_cast<VertexId>(ends[0]), static_cast<VertexId>(ends[1]), weight);
  if (rules.symmetric && ends[0] != ends[1])
    edges.add_mirrored(static_cast<VertexId>(ends[1]), static_cast<VertexId>(ends[0]), weight);
  return Code::ok;
}

}  // namespace

Status parse_edges(std::string_view text, const TextRules& rules, EdgeStore& edges,
                   std::uint64_t* num_lines) {
  *num_lines = 0;
  const char* line = text.data();
  const char* const text_end = text.data() + text.size();
  while (line < text_end) {
    const auto* found = static_cast<const char*>(
        std::memchr(line, '\n', static_cast<std::size_t>(text_end - line)));
    const char* const end = found == nullptr ? text_end : found;
    ++*num_lines;
    if (static_cast<std::size_t>(end - line) > kMaxLineBytes)
      return {Code::corrupt, "line is longer than " + std::to_string(kMaxLineBytes) + " bytes"};
    const Status status = parse_line(line, end, rules, edges);
    if (!status.ok()) return status;
    line = end + 1;
  }
  return Code::ok;
}

Status parse_matrix_header(std::string_view text, TextRules& rules, std::size_t* header_bytes,
                           std::uint64_t* num_lines) {
  *num_lines = 0;
  *header_bytes = 0;
  rules.matrix = true;
  while (*header_bytes < text.size()) {
    const std::size_t end = std::min(text.find('\n', *header_bytes), text.size());
    std::string line(text.substr(*header_bytes, end - *header_bytes));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    *header_bytes = std::min(end + 1, text.size());
    ++*num_lines;
    std::istringstream words(line);
    if (*num_lines == 1) {
      std::string magic, object, layout, field, symmetry;
      words >> magic >> object >> layout >> field >> symmetry;
      for (std::string* word : {&object, &layout, &field, &symmetry})
        std::transform(word->begin(), word->end(), word->begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (magic != "%%MatrixMarket" || object != "matrix")
        return wrong("expected \"%%MatrixMarket matrix\"", line.data(), line.data() + line.size());
      if (layout != "coordinate")
        return {Code::unsupported, "only coordinate matrices are graphs, not \"" + layout + "\""};
      if (field != "pattern" && field != "integer" && field != "real" && field != "complex")
        return wrong("expected pattern, integer, real or complex", line.data(),
                     line.data() + line.size());
      rules.weighted = field == "integer" || field == "real";
      rules.needs_weights = rules.weighted;
      if (symmetry != "general" && symmetry != "symmetric" && symmetry != "hermitian")
        return {Code::unsupported,
                "only general and symmetric matrices are graphs, not \"" + symmetry + "\""};
      rules.symmetric = symmetry != "general";
      continue;
    }
    if (line.empty() || line[0] == '%') continue;
    std::uint64_t rows = 0, columns = 0;
    std::string more;
    if (line[0] == '-' || !(words >> rows >> columns >> rules.num_entries) || words >> more)
      return wrong("expected rows, columns and entries", line.data(), line.data() + line.size());
    rules.num_rows = std::max(rows, columns);
    if (rules.num_rows >= kNoVertex)
      return wrong("more rows or columns than vertex ids have", line.data(),
                   line.data() + line.size());
    return Code::ok;
  }
  return {Code::corrupt, "no line of sizes in the first " + std::to_string(text.size()) + " bytes"};
}

}  // namespace weft::graph
