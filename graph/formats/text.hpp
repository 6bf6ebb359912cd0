#pragma once
// Fields of a line of text, and errors that show it. Used by the readers of this folder.
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/status.hpp"

namespace weft::graph::text {

inline bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }
inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
inline bool begins_number(char c) noexcept {
  return is_digit(c) || c == '-' || c == '+' || c == '.';
}
inline bool is_comment(char c) noexcept { return c == '#' || c == '%'; }

std::string lower(std::string word);

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
inline Cursor cursor_of(std::string_view line) { return {line.data(), line.data() + line.size()}; }

enum class Parsed { number, junk, too_large };
// A whole number that is a field of its own.
inline Parsed parse_whole(Cursor& cursor, std::uint64_t& value) {
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
// The same of a whole field; false: it is none, or does not fit.
bool to_whole(std::string_view field, std::uint64_t& value);

// Counts the consecutive fields from here on that are numbers.
unsigned count_numbers(Cursor cursor);

// corrupt: `what`, and the line as far as it can be shown.
Status wrong(const std::string& what, const char* line, const char* end);
inline Status wrong(const std::string& what, std::string_view line) {
  return wrong(what, line.data(), line.data() + line.size());
}
// For a line that has the other mark of a line's end within: `line_end` is that of the file.
Status mixed_ends(char line_end);

// The lines of a header, one after the other, without their ends.
class HeaderLines {
 public:
  HeaderLines(std::string_view text, char line_end) : text_(text), line_end_(line_end) {}
  bool next(std::string_view& line);
  bool is_whole() const { return is_whole_; }  // the line that was read last has its end
  // Of what was read: up to which byte, and how many lines.
  std::size_t bytes() const { return bytes_; }
  std::uint64_t count() const { return count_; }

 private:
  std::string_view text_;
  char line_end_;
  std::size_t bytes_ = 0;
  std::uint64_t count_ = 0;
  bool is_whole_ = false;
};

}  // namespace weft::graph::text
