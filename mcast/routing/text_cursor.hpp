#pragma once
// Reading one line of a text file from left to right.
#include <cstdint>
#include <string>

namespace weft::mcast {

// Every take_* moves on over what it took, or stays where it is and returns false.
class TextCursor {
 public:
  explicit TextCursor(const std::string& line) : at_(line.c_str()), end_(at_ + line.size()) {}
  char next() const { return at_ == end_ ? '\0' : *at_; }
  bool at_end() const { return at_ == end_; }
  bool at_blank() const { return next() == ' ' || next() == '\t' || next() == '\r'; }
  void skip_blanks() {
    while (at_blank()) ++at_;
  }
  void skip_word() {
    while (!at_end() && !at_blank()) ++at_;
  }
  bool take(char c) { return next() == c && !at_end() ? (++at_, true) : false; }
  bool take(const char* word) {
    const char* p = at_;
    for (; *word != 0; ++word, ++p) {
      if (p == end_ || *p != *word) return false;
    }
    at_ = p;
    return true;
  }
  // At most 18 digits in base 10 and 16 in base 16, where 0x may come first.
  bool take_number(int base, uint64_t* value) {
    const char* p = at_;
    if (base == 16 && end_ - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) p += 2;
    uint64_t result = 0;
    int digits = 0;
    for (; p != end_; ++p, ++digits) {
      int digit = -1;
      if (*p >= '0' && *p <= '9') digit = *p - '0';
      if (base == 16 && *p >= 'a' && *p <= 'f') digit = *p - 'a' + 10;
      if (base == 16 && *p >= 'A' && *p <= 'F') digit = *p - 'A' + 10;
      if (digit < 0) break;
      result = result * base + digit;
    }
    if (digits == 0 || digits > (base == 16 ? 16 : 18)) return false;
    at_ = p;
    *value = result;
    return true;
  }
  bool take_quoted(std::string* text) {
    if (next() != '"') return false;
    for (const char* p = at_ + 1; p != end_; ++p) {
      if (*p != '"') continue;
      text->assign(at_ + 1, p);
      at_ = p + 1;
      return true;
    }
    return false;
  }
  // A number in brackets, such as [12] or (2c9).
  bool take_in(char open, char close, int base, uint64_t* value) {
    TextCursor copy = *this;
    if (!copy.take(open) || !copy.take_number(base, value) || !copy.take(close)) return false;
    *this = copy;
    return true;
  }
  std::string rest() const { return {at_, end_}; }

 private:
  const char* at_;
  const char* end_;
};

}  // namespace weft::mcast
