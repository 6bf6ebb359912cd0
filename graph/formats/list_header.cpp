#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "headers.hpp"
#include "table_text.hpp"
#include "text.hpp"

namespace weft::graph {
namespace {

using Names = std::vector<std::string>;
constexpr unsigned kNoColumn = ~0u;
constexpr std::uint64_t kMostColumns = 10000;

unsigned find_any(const Names& names, std::initializer_list<std::string_view> wanted) {
  for (const std::string_view name : wanted)
    if (const auto found = std::find(names.begin(), names.end(), name); found != names.end())
      return static_cast<unsigned>(found - names.begin());
  return kNoColumn;
}

// Names that tools give to columns of edges.
struct KnownColumns {
  unsigned source, destination, weight;
  bool are_ends() const { return source != kNoColumn && destination != kNoColumn; }
};
KnownColumns known_columns(const Names& names) {
  return {
      find_any(names, {"source", "src", "from", "source_id", "from_id", "src_id", "sourceid",
                       "fromnodeid", "from_node_id", "node1", ":start_id", "tail", "u"}),
      find_any(names, {"target", "dst", "destination", "dest", "to", "target_id", "to_id", "dst_id",
                       "targetid", "tonodeid", "to_node_id", "node2", ":end_id", "head", "v"}),
      find_any(names, {"weight", "weights", "w", "cost", "distance", "dist", "length", "value"})};
}

Names names_of(std::string_view line, char separator) {
  Names names = fields_of(line, separator);
  for (std::string& name : names) {
    name = text::lower(std::move(name));
    std::erase(name, '\'');
  }
  return names;
}

std::string joined(const Names& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name.substr(0, 30);
  return all.substr(0, 200);
}

// The first lines of a list.
class ListHead {
 public:
  ListHead(std::string_view head, const ListOptions& options, TextRules& rules, TextHeader& header)
      : options_(options), rules_(rules), header_(header), lines_(head, rules.line_end) {}

  Status read() {
    header_ = {};
    bool is_there = false;
    if (const Status status = next(first_, is_there); !status.ok() || !is_there) return status;
    first_at_ = lines_.count();
    const std::size_t behind = lines_.bytes();
    rules_.separator = separator_of(first_);
    if (!options_.columns.empty()) return read_columns(behind);
    // A name that begins as a number does is none.
    text::Cursor cursor = text::cursor_of(first_);
    cursor.pass_blanks();
    const bool is_number =
        text::begins_number(*cursor.at) ||
        (*cursor.at == '"' && cursor.at + 1 < cursor.end && text::begins_number(cursor.at[1]));
    if (is_number) return read_data(first_, first_at_);
    return read_names(behind);
  }

 private:
  // The next line that is neither empty nor a comment; none if the head does not have it to its
  // end.
  Status next(std::string_view& line, bool& is_there) {
    is_there = false;
    while (lines_.next(line)) {
      if (!lines_.is_whole() && !options_.is_all) return Code::ok;
      if (line.find('\r') != std::string_view::npos) {
        header_.lines = lines_.count();
        return text::mixed_ends(rules_.line_end);
      }
      text::Cursor cursor = text::cursor_of(line);
      cursor.pass_blanks();
      if (cursor.is_at_end()) continue;
      if (!text::is_comment(*cursor.at)) {
        is_there = true;
        return Code::ok;
      }
      if (lines_.count() == 1 && line.starts_with("% bip")) {
        header_.lines = 1;
        return {Code::unsupported,
                "KONECT's bipartite graphs number both their sides from 1: number those of the "
                "second column on from the first's, and remove this line"};
      }
    }
    return Code::ok;
  }

  Status refuse(const std::string& what, std::uint64_t line_number, std::string_view line) {
    header_.lines = line_number;
    return text::wrong(what, line);
  }

  // --columns: which they are.
  Status read_columns(std::size_t behind) {
    const Names wanted = names_of(options_.columns, ',');
    unsigned found[3] = {0, 0, kNoColumn};
    if (wanted.size() < 2 || wanted.size() > 3)
      return {Code::bad_argument,
              "--columns: two columns or three, source,destination[,weight], not \"" +
                  options_.columns + "\""};
    const Names names = names_of(first_, rules_.separator);
    const bool are_numbers = std::all_of(wanted.begin(), wanted.end(), [](const std::string& word) {
      std::uint64_t number = 0;
      return text::to_whole(word, number);
    });
    bool is_header = !are_numbers;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::uint64_t number = 0;
      if (!are_numbers) {
        found[i] = find_any(names, {wanted[i]});
        if (found[i] == kNoColumn)
          return refuse("--columns: no column is named " + wanted[i] + ", of " + joined(names),
                        first_at_, first_);
      } else if (!text::to_whole(wanted[i], number) || number == 0 || number > kMostColumns) {
        return {Code::bad_argument,
                "--columns: columns are counted from 1, not \"" + options_.columns + "\""};
      } else {
        found[i] = static_cast<unsigned>(number - 1);
        std::uint64_t id = 0;
        if (i < 2 && found[i] < names.size() && !text::to_whole(names[found[i]], id))
          is_header = true;
      }
    }
    if (options_.named && are_numbers) is_header = known_columns(names).are_ends();
    if (is_header) pass(behind);
    take(found[0], found[1], found[2]);
    return Code::ok;
  }

  void pass(std::size_t behind) {
    header_.bytes = behind;
    header_.lines = first_at_;
  }

  void take(unsigned source, unsigned destination, unsigned weight) {
    rules_.table = true;
    rules_.named = options_.named;
    rules_.source = source;
    rules_.destination = destination;
    const bool has_weight = weight != kNoColumn;
    rules_.weight = has_weight ? weight : source;
    rules_.weighted = rules_.needs_weights = has_weight && options_.wants_weights;
    header_.has_no_weights = !has_weight && options_.wants_weights;
  }

  // A line of words: names of columns, or vertices with names.
  Status read_names(std::size_t behind) {
    const Names names = names_of(first_, rules_.separator);
    const KnownColumns known = known_columns(names);
    if (options_.named && !known.are_ends()) return read_data(first_, first_at_);
    if (names.size() < 2) return Code::ok;
    std::string_view data;
    bool is_there = false;
    if (const Status status = next(data, is_there); !status.ok() || !is_there) return status;
    // Words above a line that does not fit them are no names of its columns; the parser refuses
    // them.
    const std::size_t count = fields_of(data, rules_.separator).size();
    if (!known.are_ends()) {
      text::Cursor cursor = text::cursor_of(data);
      cursor.pass_blanks();
      if (count != names.size() || !text::begins_number(*cursor.at)) return Code::ok;
      if (find_any({names[0], names[1]},
                   {"", "id", "index", "edge", "edge_id", "weight", "value", "cost"}) != kNoColumn)
        return refuse(
            "which columns are the vertices? Say it with --columns SOURCE,DESTINATION[,WEIGHT]",
            first_at_, first_);
    } else if (count != names.size()) {
      return refuse(
          std::to_string(count) + " columns under " + std::to_string(names.size()) + " names",
          lines_.count(), data);
    }
    pass(behind);
    const bool is_plain = !known.are_ends() || (known.source == 0 && known.destination == 1 &&
                                                (known.weight == 2 || known.weight == kNoColumn));
    const bool is_simple = data.find('"') == std::string_view::npos && rules_.separator != ';' &&
                           rules_.separator != '|';
    if (is_plain && is_simple && !options_.named) return read_data(data, lines_.count());
    if (!known.are_ends())
      take(0, 1, names.size() > 2 ? 2 : kNoColumn);
    else
      take(known.source, known.destination, known.weight);
    return Code::ok;
  }

  // The first edge.
  Status read_data(std::string_view line, std::uint64_t line_number) {
    const bool is_simple = line.find('"') == std::string_view::npos && rules_.separator != ';' &&
                           rules_.separator != '|';
    if (options_.named || !is_simple) {
      const bool is_third = fields_of(line, rules_.separator).size() > 2 || rules_.weighted;
      header_.is_weight_third = is_third && options_.wants_weights && !rules_.weighted;
      const bool has_no_weights = header_.has_no_weights;
      take(0, 1, is_third ? 2 : kNoColumn);
      header_.has_no_weights = has_no_weights;
      if (!is_third) rules_.columns = 2;
      return Code::ok;
    }
    text::Cursor cursor = text::cursor_of(line);
    cursor.pass_blanks();
    text::Cursor rest = cursor;
    rules_.columns = count_numbers(cursor);
    for (int i = 0; i < 2 && !rest.is_at_end(); ++i) {
      rest.pass_field();
      rest.pass_separator();
    }
    // The parser refuses such a line.
    if (rules_.columns < 2) rules_.columns = 0;
    if (rules_.weighted || !options_.wants_weights) return Code::ok;
    if (rules_.columns > 2)
      rules_.weighted = rules_.needs_weights = header_.is_weight_third = true;
    else if (rules_.columns == 2 && !rest.is_at_end())
      return refuse("no weight behind the two vertices (--weights none passes over the rest)",
                    line_number, line);
    return Code::ok;
  }

  const ListOptions& options_;
  TextRules& rules_;
  TextHeader& header_;
  text::HeaderLines lines_;
  std::string_view first_;
  std::uint64_t first_at_ = 0;
};

}  // namespace

Status parse_list_header(std::string_view head, const ListOptions& options, TextRules& rules,
                         TextHeader& header) {
  return ListHead(head, options, rules, header).read();
}

}  // namespace weft::graph
