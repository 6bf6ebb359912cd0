#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "headers.hpp"
#include "text.hpp"

namespace weft::graph {
namespace {

std::vector<std::string> names_of(std::string_view line) {
  std::vector<std::string> names;
  text::Cursor cursor = text::cursor_of(line);
  cursor.pass_blanks();
  while (!cursor.is_at_end()) {
    const char* const begin = cursor.at;
    cursor.pass_field();
    std::string name = text::lower(std::string(begin, cursor.at));
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

Status parse_list_header(std::string_view head, bool is_all, bool wants_weights, TextRules& rules,
                         TextHeader& header) {
  text::HeaderLines lines(head, rules.line_end);
  std::vector<std::string> names;
  std::string_view names_line;
  for (std::string_view line; lines.next(line);) {
    if (!lines.is_whole() && !is_all) return Code::ok;
    if (line.find('\r') != std::string_view::npos) {
      header.lines = lines.count();
      return text::mixed_ends(rules.line_end);
    }
    text::Cursor cursor = text::cursor_of(line);
    cursor.pass_blanks();
    if (cursor.is_at_end()) continue;
    if (text::is_comment(*cursor.at)) {
      if (lines.count() == 1 && line.starts_with("% bip")) {
        header.lines = 1;
        return {Code::unsupported,
                "KONECT's bipartite graphs number both their sides from 1: number those of the "
                "second column on from the first's, and remove this line"};
      }
      continue;
    }
    if (!text::begins_number(*cursor.at)) {
      if (!names.empty()) break;  // two lines of words: the parser refuses the first
      names = names_of(line);
      if (names.size() < 2) return Code::ok;
      names_line = line;
      header = {lines.bytes(), lines.count()};
      continue;
    }
    text::Cursor rest = cursor;
    rules.columns = text::count_numbers(cursor);
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
        return text::wrong("the first two columns must be source and destination: put them there",
                           names_line);
    }
    // The parser refuses such a line.
    if (rules.columns < 2) rules.columns = 0;
    if (rules.weighted || !wants_weights) return Code::ok;
    if (rules.columns > 2) {
      rules.weighted = rules.needs_weights = header.is_weight_third = true;
    } else if (rules.columns == 2 && !rest.is_at_end()) {
      header.lines = lines.count();
      return text::wrong("no weight behind the two vertices (--weights none passes over the rest)",
                         line);
    }
    return Code::ok;
  }
  header = {};
  return Code::ok;
}

}  // namespace weft::graph
