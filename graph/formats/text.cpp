#include "text.hpp"

#include <algorithm>
#include <cctype>

namespace weft::graph::text {

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(c < 0x80 ? std::tolower(c) : c); });
  return word;
}

bool to_whole(std::string_view field, std::uint64_t& value) {
  Cursor cursor = cursor_of(field);
  return parse_whole(cursor, value) == Parsed::number && cursor.is_at_end();
}

unsigned count_numbers(Cursor cursor) {
  unsigned count = 0;
  for (; !cursor.is_at_end() && begins_number(*cursor.at); cursor.pass_separator()) {
    cursor.pass_field();
    ++count;
  }
  return count;
}

Status wrong(const std::string& what, const char* line, const char* end) {
  std::string shown;
  for (; line < end && shown.size() < 40; ++line)
    shown += *line >= ' ' && *line <= '~' ? *line : '?';
  return {Code::corrupt, what + ", found \"" + shown + (line < end ? "...\"" : "\"")};
}

// What stands behind the other mark would be passed over as the rest of a line.
Status mixed_ends(char line_end) {
  if (line_end == '\r')
    return {Code::corrupt,
            "a line feed within the line: the lines before end in \\r alone; write \\n for \\r, as "
            "tr '\\r' '\\n' does"};
  return {Code::corrupt,
          "a carriage return within the line: others end in \\n or \\r\\n; write \\n for \\r, as "
          "tr '\\r' '\\n' does"};
}

bool HeaderLines::next(std::string_view& line) {
  if (bytes_ >= text_.size()) return false;
  const std::size_t end = std::min(text_.find(line_end_, bytes_), text_.size());
  is_whole_ = end < text_.size();
  line = text_.substr(bytes_, end - bytes_);
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  bytes_ = std::min(end + 1, text_.size());
  ++count_;
  return true;
}

}  // namespace weft::graph::text
