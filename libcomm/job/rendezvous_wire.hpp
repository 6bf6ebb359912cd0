#pragma once
// The wire format of the rendezvous server, version 3. Every message is a frame: a head of three
// little-endian 32-bit words (magic, type, length of the body), then the body. A body is a row of
// 32-bit words and texts (a word with the length, then the bytes). BodyReader checks everything
// that a peer sends: it stops at the first value that does not fit.
//
//   client -> server                          server -> client
//   hello    version rank size pid party key  welcome
//   visit    version visitor key              refused  why
//   fence    timeout_ms n (key value)*n       release  n (rank key value)*n
//                                             failed   code why
//   abort    exit_code message
//   goodbye                                   farewell
//   publish  service port                     answer   code text
//   look_up  service                          answer   code port
//   unpublish service                         answer   code text
//   spawn    n (NAME=VALUE)*n m (word)*m      answer   code id
//   check_spawned  id give_up                 answer   code text
//
// A rank may join once as each party (members.hpp); the parties are independent. A visitor is no
// rank: an agent of weftrun on another host, which so finds out that its ranks will reach the
// server, and keeps the connection so that either side notices when the other is gone; or a process
// of another job, which asks for names. A published name ends with its publisher's connection. The
// words of spawn are weftrun's options; check_spawned asks if that weftrun still runs, and ends it
// with give_up.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::rendezvous {

inline constexpr std::uint32_t kMagic = 0x31544657;  // "WFT1"
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::size_t kHeadBytes = 12;
inline constexpr std::size_t kMaxHelloBytes = 1024;           // from an unidentified connection
inline constexpr std::size_t kMaxBodyBytes = 16u << 20;       // from a rank
inline constexpr std::size_t kMaxReleaseBytes = 1024u << 20;  // from the server
inline constexpr int kMaxRanks = 4096;

enum class Type : std::uint32_t {
  hello = 1,
  welcome,
  refused,
  fence,
  release,
  failed,
  abort,
  goodbye,
  farewell,
  visit,
  publish,
  look_up,
  unpublish,
  spawn,
  check_spawned,
  answer,
};

// The number of visitors that ask for names.
inline constexpr std::uint32_t kAsksForNames = 0x7fffffff;

inline void append_word(std::string& bytes, std::uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(word >> shift));
}

inline std::uint32_t word_at(const char* bytes) {
  std::uint32_t word = 0;
  for (int i = 3; i >= 0; --i) word = word << 8 | static_cast<unsigned char>(bytes[i]);
  return word;
}

inline void append_text(std::string& bytes, std::string_view text) {
  append_word(bytes, static_cast<std::uint32_t>(text.size()));
  bytes.append(text);
}

inline std::string make_frame(Type type, std::string_view body) {
  std::string frame;
  frame.reserve(kHeadBytes + body.size());
  append_word(frame, kMagic);
  append_word(frame, static_cast<std::uint32_t>(type));
  append_text(frame, body);
  return frame;
}

struct Head {
  std::uint32_t magic;
  Type type;
  std::size_t length;
};

inline Head read_head(const char* bytes) {
  return {word_at(bytes), static_cast<Type>(word_at(bytes + 4)), word_at(bytes + 8)};
}

class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}

  std::uint32_t word() {
    if (rest_.size() < 4) return fail();
    const std::uint32_t value = word_at(rest_.data());
    rest_.remove_prefix(4);
    return value;
  }
  std::string_view text() {
    const std::size_t length = word();
    if (length > rest_.size()) return fail(), std::string_view();
    const std::string_view value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }
  // True if all reads so far succeeded and no bytes are left over.
  bool complete() const { return ok_ && rest_.empty(); }
  bool ok() const { return ok_; }

 private:
  std::uint32_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace weft::rendezvous
