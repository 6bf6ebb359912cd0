#include "edge_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace weft::graph {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_number(char c) { return is_digit(c) || c == '-' || c == '+' || c == '.'; }
bool is_comment(char c) { return c == '#' || c == '%'; }

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(c < 0x80 ? std::tolower(c) : c); });
  return word;
}

std::string shown(const char* begin, const char* end) {
  std::string text;
  for (; begin < end && text.size() < 40; ++begin)
    text += *begin >= ' ' && *begin <= '~' ? *begin : '?';
  return text + (begin < end ? "..." : "");
}

// A position in a line; `end` is the line's end.
struct Cursor {
  const char* at;
  const char* end;
  bool is_at_end() const { return at == end; }
  void pass_blanks() {
    while (at < end && is_blank(*at)) ++at;
  }
  // To the next field: blanks and one comma, as two of them have an empty field between them.
  void pass_separator() {
    pass_blanks();
    if (at == end || *at != ',') return;
    ++at;
    pass_blanks();
  }
  bool ends_field() const { return at == end || is_blank(*at) || *at == ','; }
  void pass_field() {
    while (!ends_field()) ++at;
  }
};

enum class Parsed { number, junk, too_large };

Parsed parse_whole(Cursor& cursor, std::uint64_t& value) {
  std::uint64_t number = 0;
  const char* const begin = cursor.at;
  while (cursor.at < cursor.end && is_digit(*cursor.at))
    number = number * 10 + static_cast<unsigned>(*cursor.at++ - '0');
  if (cursor.at == begin || !cursor.ends_field()) return Parsed::junk;
  // 19 digits fit in 64 bits; more may have wrapped.
  if (cursor.at - begin > 19) return Parsed::too_large;
  value = number;
  return Parsed::number;
}

// Counts the consecutive fields from here on that are numbers.
unsigned count_numbers(Cursor cursor) {
  unsigned count = 0;
  for (; !cursor.is_at_end() && begins_number(*cursor.at); cursor.pass_separator()) {
    cursor.pass_field();
    ++count;
  }
  return count;
}

Status wrong(const std::string& what, const char* line, const char* end) {
  return {Code::corrupt, what + ", found \"" + shown(line, end) + "\""};
}
Status wrong(const std::string& what, std::string_view line) {
  return wrong(what, line.data(), line.data() + line.size());
}

// Lines that end in \r alone would be one line, of which most is passed over.
Status lone_return() {
  return {Code::corrupt,
          "a carriage return within the line: lines end in \\n or \\r\\n; write \\n for \\r, as "
          "tr '\\r' '\\n' does"};
}

Status too_large(const char* line, const char* end) {
  return wrong(
      "vertex id does not fit in " + std::to_string(WEFT_GRAPH_VERTEX_BITS) +
          " bits (number the vertices from 0 on" +
          (WEFT_GRAPH_VERTEX_BITS == 32 ? ", or build Weft with -Dgraph_vertex_bits=64)" : ")"),
      line, end);
}

Status parse_weight(Cursor& cursor, const char* line, const TextRules& rules, Weight& weight) {
  if (cursor.is_at_end()) {
    if (!rules.needs_weights) return Code::ok;
    return wrong("expected source, destination and weight", line, cursor.end);
  }
  std::uint64_t whole = 0;
  Cursor quick = cursor;
  if (parse_whole(quick, whole) == Parsed::number && whole <= std::numeric_limits<Weight>::max()) {
    weight = static_cast<Weight>(whole);
    return Code::ok;
  }
  double value = 0;
  if (*cursor.at == '+') ++cursor.at;
  const auto [stop, error] = std::from_chars(cursor.at, cursor.end, value);
  const Cursor behind{stop, cursor.end};
  const std::string ways = " (--weights none passes over weights)";
  if (error == std::errc::invalid_argument || !behind.ends_field())
    return wrong("expected a number as the weight" + ways, line, cursor.end);
  if (value < 0)
    return wrong("negative weight: shortest paths need weights from 0" + ways, line, cursor.end);
  if (error != std::errc() || !(value <= std::numeric_limits<Weight>::max()) ||
      value != std::floor(value))
    return wrong("weight is not a whole number of 32 bits: scale the weights" + ways, line,
                 cursor.end);
  weight = static_cast<Weight>(value);
  return Code::ok;
}

Status parse_line(const char* line, const char* end, const TextRules& rules, EdgeStore& edges) {
  Cursor cursor{line, end};
  cursor.pass_blanks();
  if (cursor.is_at_end() || is_comment(*cursor.at)) return Code::ok;
  if (rules.arcs) {
    const char kind = *cursor.at++;
    if (!cursor.ends_field() || (kind != 'a' && kind != 'c'))
      return wrong("expected \"a SOURCE DESTINATION WEIGHT\"", line, end);
    if (kind == 'c') return Code::ok;
    cursor.pass_blanks();
  }
  const Cursor first = cursor;
  std::uint64_t ends[2];
  for (std::uint64_t& vertex : ends) {
    switch (parse_whole(cursor, vertex)) {
      case Parsed::number:
        break;
      case Parsed::too_large:
        return too_large(line, end);
      case Parsed::junk:
        return wrong(
            "expected two vertex ids (whole numbers from 0; blanks, a tab or a comma between them)",
            line, end);
    }
    if (rules.matrix) {
      if (vertex == 0 || vertex > rules.num_rows)
        return wrong("row or column outside 1 to " + std::to_string(rules.num_rows), line, end);
      --vertex;
    }
    // The largest number stands for no vertex, and one more than an id must be a number as well.
    if (vertex >= kNoVertex) return too_large(line, end);
    cursor.pass_separator();
  }
  if (rules.columns > 0 && !(cursor.is_at_end() && rules.columns == 2)) {
    const unsigned columns = count_numbers(first);
    if (columns != rules.columns)
      return wrong(std::to_string(columns) + " numbers, where the first edge has " +
                       std::to_string(rules.columns) +
                       ": an edge list has as many in every line (METIS's format is not read)",
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

// The lines of a header, one after the other, without their ends.
class HeaderLines {
 public:
  HeaderLines(std::string_view text, TextHeader& header) : text_(text), header_(header) {}
  bool next(std::string_view& line) {
    if (header_.bytes >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', header_.bytes), text_.size());
    is_whole_ = end < text_.size();
    line = text_.substr(header_.bytes, end - header_.bytes);
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    header_.bytes = std::min(end + 1, text_.size());
    ++header_.lines;
    return true;
  }
  bool is_whole() const { return is_whole_; }  // the line that was read last has its end

 private:
  std::string_view text_;
  TextHeader& header_;
  bool is_whole_ = false;
};

Status no_sizes(std::string_view text, const char* what) {
  return {Code::corrupt,
          std::string("no ") + what + " in the first " + std::to_string(text.size()) + " bytes"};
}

std::vector<std::string> names_of(std::string_view line) {
  std::vector<std::string> names;
  Cursor cursor{line.data(), line.data() + line.size()};
  cursor.pass_blanks();
  while (!cursor.is_at_end()) {
    const char* const begin = cursor.at;
    cursor.pass_field();
    std::string name = lower(std::string(begin, cursor.at));
    std::erase(name, '"');
    std::erase(name, '\'');
    names.push_back(std::move(name));
    cursor.pass_separator();
  }
  return names;
}

// True if the two vertices are in other columns than the first two.
bool are_ends_elsewhere(const std::vector<std::string>& names) {
  constexpr std::array kEnds = {"source", "src",         "from",       "target",
                                "dst",    "dest",        "to",         "head",
                                "tail",   "destination", "source_id",  "target_id",
                                "node1",  "node2",       "fromnodeid", "tonodeid"};
  constexpr std::array kOthers = {"", "id", "index", "edge", "edge_id", "weight", "value", "cost"};
  const auto is_in = [](const auto& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  return is_in(kOthers, names[0]) || is_in(kOthers, names[1]) ||
         std::any_of(names.begin() + 2, names.end(),
                     [&](const std::string& name) { return is_in(kEnds, name); });
}

}  // namespace

Status long_line(std::string_view line) {
  if (line.substr(0, kMaxLineBytes).find('\r') != std::string_view::npos) return lone_return();
  return {Code::corrupt, "line is longer than " + std::to_string(kMaxLineBytes) +
                             " bytes, and so no edge; is the file text, with a line an edge?"};
}

Status parse_edges(std::string_view text, const TextRules& rules, EdgeStore& edges,
                   std::uint64_t* num_lines) {
  *num_lines = 0;
  const char* line = text.data();
  const char* const text_end = text.data() + text.size();
  const bool has_returns = text.find('\r') != std::string_view::npos;
  while (line < text_end) {
    const auto* found = static_cast<const char*>(
        std::memchr(line, '\n', static_cast<std::size_t>(text_end - line)));
    const char* const next = found == nullptr ? text_end : found;
    const char* end = next;
    ++*num_lines;
    if (static_cast<std::size_t>(end - line) > kMaxLineBytes)
      return long_line({line, static_cast<std::size_t>(end - line)});
    if (has_returns) {
      while (end > line && end[-1] == '\r') --end;
      if (std::find(line, end, '\r') != end) return lone_return();
    }
    const Status status = parse_line(line, end, rules, edges);
    if (!status.ok()) return status;
    line = next + 1;
  }
  return Code::ok;
}

Status parse_matrix_header(std::string_view text, bool wants_weights, TextRules& rules,
                           TextHeader& header) {
  rules.matrix = true;
  HeaderLines lines(text, header);
  for (std::string_view line; lines.next(line);) {
    if (line.find('\r') != std::string_view::npos) return lone_return();
    std::istringstream words{std::string(line)};
    if (header.lines == 1) {
      std::string magic, object, layout, field, symmetry;
      words >> magic >> object >> layout >> field >> symmetry;
      for (std::string* word : {&magic, &object, &layout, &field, &symmetry})
        *word = lower(std::move(*word));
      if ((magic != "%%matrixmarket" && magic != "%matrixmarket") || object != "matrix")
        return wrong("expected \"%%MatrixMarket matrix\"", line);
      if (layout != "coordinate")
        return {Code::unsupported, "only coordinate matrices are graphs, not \"" + layout +
                                       "\": write its entries "
                                       "as \"row column value\""};
      if (field != "pattern" && field != "integer" && field != "real" && field != "complex")
        return wrong("expected pattern, integer, real or complex", line);
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
    if (line.find_first_not_of(" \t") == std::string_view::npos || line[0] == '%') continue;
    std::uint64_t rows = 0, columns = 0;
    std::string more;
    if (line.find('-') != std::string_view::npos ||
        !(words >> rows >> columns >> rules.num_entries) || words >> more)
      return wrong("expected rows, columns and entries", line);
    if (rows != columns)
      return wrong(
          "rows and columns are the same vertices in a graph, so a matrix must be square; number "
          "the columns of a bipartite graph from " +
              std::to_string(rows + 1) + " on",
          line);
    rules.num_rows = rows;
    if (rules.num_rows >= kNoVertex)
      return wrong("more rows or columns than vertex ids have", line);
    return Code::ok;
  }
  return no_sizes(text, "line of sizes");
}

Status parse_arcs_header(std::string_view text, TextRules& rules, TextHeader& header) {
  rules.matrix = rules.arcs = rules.weighted = rules.needs_weights = true;
  HeaderLines lines(text, header);
  for (std::string_view line; lines.next(line);) {
    if (line.find('\r') != std::string_view::npos) return lone_return();
    std::istringstream words{std::string(line)};
    std::string letter, kind, more;
    if (!(words >> letter) || letter == "c") continue;
    if (letter != "p")
      return wrong("expected DIMACS's \"p sp VERTICES ARCS\" before the arcs", line);
    if (line.find('-') != std::string_view::npos ||
        !(words >> kind >> rules.num_rows >> rules.num_entries) || words >> more || kind != "sp")
      return wrong(
          "expected \"p sp VERTICES ARCS\": of DIMACS's formats that of shortest paths is read",
          line);
    if (rules.num_rows >= kNoVertex) return wrong("more vertices than ids have", line);
    return Code::ok;
  }
  return no_sizes(text, "line \"p sp VERTICES ARCS\"");
}

Status parse_list_header(std::string_view text, bool is_all, bool wants_weights, TextRules& rules,
                         TextHeader& header) {
  TextHeader at;  // of the present line
  HeaderLines lines(text, at);
  std::vector<std::string> names;
  std::string_view names_line;
  for (std::string_view line; lines.next(line);) {
    if (!lines.is_whole() && !is_all) return Code::ok;
    if (line.find('\r') != std::string_view::npos) {
      header.lines = at.lines;
      return lone_return();
    }
    Cursor cursor{line.data(), line.data() + line.size()};
    cursor.pass_blanks();
    if (cursor.is_at_end()) continue;
    if (is_comment(*cursor.at)) {
      if (at.lines == 1 && line.starts_with("% bip")) {
        header.lines = 1;
        return {Code::unsupported,
                "KONECT's bipartite graphs number both their sides from 1: number those of the "
                "second column on from the first's, and remove this line"};
      }
      continue;
    }
    if (!begins_number(*cursor.at)) {
      if (!names.empty()) break;  // two lines of words: the parser refuses the first
      names = names_of(line);
      if (names.size() < 2) return Code::ok;
      names_line = line;
      header = at;
      continue;
    }
    Cursor rest = cursor;
    rules.columns = count_numbers(cursor);
    for (int i = 0; i < 2 && !rest.is_at_end(); ++i) {
      rest.pass_field();
      rest.pass_separator();
    }
    if (!names.empty()) {
      // Words above a line that does not fit them are no names of its columns.
      if (names_of(line).size() != names.size()) {
        header = {};
        return Code::ok;
      }
      if (are_ends_elsewhere(names))
        return wrong("the first two columns must be source and destination: put them there",
                     names_line);
    }
    // The parser refuses such a line.
    if (rules.columns < 2) rules.columns = 0;
    if (rules.weighted || !wants_weights) return Code::ok;
    if (rules.columns > 2) {
      rules.weighted = rules.needs_weights = header.is_weight_third = true;
    } else if (rules.columns == 2 && !rest.is_at_end()) {
      header.lines = at.lines;
      return wrong("no weight behind the two vertices (--weights none passes over the rest)", line);
    }
    return Code::ok;
  }
  header = {};
  return Code::ok;
}

}  // namespace weft::graph
