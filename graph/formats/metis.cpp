#include "metis.hpp"

#include <algorithm>
#include <sstream>
#include <string>

#include "text.hpp"

namespace weft::graph {
namespace {

constexpr unsigned kMostWeights = 1000;  // of a vertex

// The numbers of a header line; false: it is none.
bool parse_sizes(std::string_view line, MetisRules& rules) {
  text::Cursor cursor = text::cursor_of(line);
  std::uint64_t numbers[4] = {0, 0, 0, 1};
  std::string_view format;
  unsigned count = 0;
  for (cursor.pass_blanks(); !cursor.is_at_end(); cursor.pass_blanks()) {
    const char* const begin = cursor.at;
    if (count == 4 || parse_whole(cursor, numbers[count]) != text::Parsed::number) return false;
    if (count == 2) format = {begin, static_cast<std::size_t>(cursor.at - begin)};
    ++count;
  }
  const bool is_format =
      format.size() <= 3 && format.find_first_not_of("01") == std::string_view::npos;
  if (count < 2 || !is_format || numbers[3] > kMostWeights || numbers[0] == 0 ||
      numbers[0] >= kNoVertex || numbers[1] > std::uint64_t{1} << 56)
    return false;
  const std::uint64_t digits = numbers[2];
  rules.num_rows = numbers[0];
  rules.num_entries = 2 * numbers[1];
  rules.has_weights = digits % 10 == 1;
  const bool has_vertex_weights = digits / 10 % 10 == 1;
  rules.skipped =
      (digits / 100 == 1 ? 1 : 0) + (has_vertex_weights ? static_cast<unsigned>(numbers[3]) : 0);
  return true;
}

bool is_comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first != std::string_view::npos && line[first] == '%';
}

}  // namespace

Status parse_metis_header(std::string_view head, MetisRules& rules, TextHeader& header) {
  text::HeaderLines lines(head, rules.line_end);
  for (std::string_view line; lines.next(line);) {
    header = {lines.bytes(), lines.count()};
    if (line.find('\r') != std::string_view::npos) return text::mixed_ends(rules.line_end);
    if (is_comment(line)) continue;
    if (parse_sizes(line, rules)) return Code::ok;
    return text::wrong(
        "expected METIS's \"VERTICES EDGES [FORMAT [WEIGHTS]]\", of which FORMAT is of three "
        "digits 0 or 1",
        line);
  }
  return {Code::corrupt, "no line with METIS's sizes"};
}

MetisGuess guess_metis(std::string_view head, bool is_all, char line_end) {
  MetisRules rules;
  rules.line_end = line_end;
  TextHeader header;
  if (!parse_metis_header(head, rules, header).ok()) return MetisGuess::no;
  const std::string_view body = head.substr(header.bytes);
  MetisReader reader(rules);
  EdgeStore edges(false);
  const std::size_t end = is_all ? body.size() : end_of_lines(body, line_end);
  if (!reader.read(body.substr(0, end), is_all, edges).ok()) return MetisGuess::no;
  if (!is_all) return MetisGuess::possible;
  if (edges.size() != rules.num_entries) return MetisGuess::no;
  // Each edge stands in both its lines.
  std::vector<std::pair<VertexId, VertexId>> there, back;
  edges.for_each(
      true,
      [&](VertexId u, VertexId v, Weight) {
        there.emplace_back(u, v);
        back.emplace_back(v, u);
      },
      [] {});
  std::sort(there.begin(), there.end());
  std::sort(back.begin(), back.end());
  return there == back ? MetisGuess::possible : MetisGuess::no;
}

Status MetisReader::read(std::string_view piece, bool is_last, EdgeStore& edges) {
  const char* at = piece.data();
  const char* const end = at + piece.size();
  while (at < end) {
    const char c = *at;
    if (c == rules_.line_end) {
      if (const Status status = end_line(); !status.ok()) return status;
      ++lines_;
      ++at;
    } else if (in_comment_ || text::is_blank(c) || c == '\r') {
      ++at;
    } else if (c == '%' && is_line_empty_) {
      in_comment_ = true;
    } else {
      text::Cursor field{at, end};
      while (!field.is_at_end() && !text::is_blank(*field.at) && *field.at != '\r' &&
             *field.at != rules_.line_end)
        ++field.at;
      const std::string_view shown(at, static_cast<std::size_t>(field.at - at));
      text::Cursor number{at, field.at};
      if (const Status status = add_field(number, shown, edges); !status.ok()) return status;
      at = field.at;
    }
  }
  if (!is_last) return Code::ok;
  // The last line may lack its end.
  if (!is_line_empty_ || (!in_comment_ && vertex_ + 1 == rules_.num_rows))
    if (const Status status = end_line(); !status.ok()) return status;
  if (vertex_ == rules_.num_rows) return Code::ok;
  return {Code::corrupt, "the file ends after the lines of " + std::to_string(vertex_) +
                             " vertices, where its header promises " +
                             std::to_string(rules_.num_rows)};
}

Status MetisReader::add_field(text::Cursor& field, std::string_view shown, EdgeStore& edges) {
  is_line_empty_ = false;
  if (vertex_ == rules_.num_rows)
    return text::wrong("a line behind those of all " + std::to_string(vertex_) + " vertices",
                       shown);
  if (num_skipped_ < rules_.skipped) {
    ++num_skipped_;
    std::uint64_t number = 0;
    return text::to_whole(shown, number)
               ? Status()
               : text::wrong("expected a size or weight of the vertex, a whole number", shown);
  }
  Weight weight = rules_.weight_form.one();
  if (awaits_weight_) {
    if (edges.weighted())
      if (const Status status = parse_weight(field, shown, rules_.weight_form, weight);
          !status.ok())
        return status;
  } else {
    std::uint64_t number = 0;
    if (!text::to_whole(shown, number) || number == 0 || number > rules_.num_rows)
      return text::wrong("expected a neighbour, 1 to " + std::to_string(rules_.num_rows), shown);
    neighbour_ = static_cast<VertexId>(number - 1);
    if (rules_.has_weights) {
      awaits_weight_ = true;
      return Code::ok;
    }
  }
  awaits_weight_ = false;
  edges.add(static_cast<VertexId>(vertex_), neighbour_, weight);
  return Code::ok;
}

Status MetisReader::end_line() {
  if (awaits_weight_) return {Code::corrupt, "the last neighbour has no weight behind it"};
  if (!in_comment_ && vertex_ < rules_.num_rows) {
    if (num_skipped_ < rules_.skipped)
      return {Code::corrupt, std::to_string(num_skipped_) + " numbers, where the header promises " +
                                 std::to_string(rules_.skipped) + " before the neighbours"};
    ++vertex_;
  }
  in_comment_ = false;
  is_line_empty_ = true;
  num_skipped_ = 0;
  return Code::ok;
}

}  // namespace weft::graph
