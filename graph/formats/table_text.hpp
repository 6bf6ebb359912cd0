#pragma once
// Lines with columns in any places: tables (CSV, TSV), also with quotes, and vertices with names.
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "edge_text.hpp"

namespace weft::graph {

// The fields of a line. Separator 0: blanks and at most one comma are between them; another stands
// between any two. A field may be in double quotes, in which two stand for one.
class Fields {
 public:
  Fields(std::string_view line, char separator) : line_(line), separator_(separator) {}
  // False at the line's end, and where quotes are wrong. A field is valid as long as this object.
  bool next(std::string_view& field);
  bool is_wrong() const { return is_wrong_; }
  bool was_quoted() const { return was_quoted_; }  // the last one

 private:
  std::string_view quoted();
  void pass_blanks();

  std::string_view line_;
  char separator_;
  std::size_t at_ = 0;
  bool is_wrong_ = false, was_quoted_ = false, is_behind_separator_ = false;
  std::deque<std::string> unescaped_;
};

// All of them; wrong quotes end them.
std::vector<std::string> fields_of(std::string_view line, char separator);

// The separator that stands most often in the line outside quotes: , ; | or a tab; 0: none does.
char separator_of(std::string_view line);

// An edge of a line that is no comment; see parse_edges.
Status parse_table_line(std::string_view line, const TextRules& rules, VertexNames* names,
                        EdgeStore& edges);

}  // namespace weft::graph
