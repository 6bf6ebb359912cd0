#pragma once
// Rows of values as bytes, little-endian: the form in which peers' addresses and handshakes travel.
// ByteReader checks everything that a peer sends: it stops at the first value that does not fit.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

static_assert(std::endian::native == std::endian::little);

template <class T>
void append_value(std::string& bytes, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
// A text of at most 64 KiB - 1, with its length before it.
inline void append_short_text(std::string& bytes, std::string_view text) {
  append_value(bytes, static_cast<std::uint16_t>(text.size()));
  bytes.append(text);
}

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T value() {
    T value{};
    if (rest_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  // A text of at most this length; empty if it is longer.
  std::string_view text(std::size_t most) {
    const std::size_t length = value<std::uint16_t>();
    if (length > most || length > rest_.size()) return fail(), std::string_view();
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return text;
  }
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  // True if all reads so far succeeded and no bytes are left over.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace weft
