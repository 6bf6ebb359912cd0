#pragma once
// The multicast of weft-copy: messages of records, of version kCopyVersion. A receiver checks every
// byte of them.
//
//   message: u64 number, u8 kind; then, of plan: entries; of data: parts and ends of files, and
//   parts that receivers have (--resume).
//
// Threads: any; an object is a thread's own.
#include <array>
#include <cstdint>
#include <cstring>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::copy {

// Counts the changes of records and of the lines that sender and receiver exchange (receiver.hpp).
inline constexpr unsigned kCopyVersion = 2;

// Of the group that carries messages. Larger ones wait for each other longer where members fall out
// of step: docs/use/multicast.md has what was measured.
inline constexpr std::size_t kBlockBytes = 128 << 10;

using Digest = std::array<std::uint8_t, 32>;

enum class MessageKind : std::uint8_t { plan = 1, plan_end, data, end };
// unreadable: something is there that the sender cannot have, or not all of; of a folder, beside
// its own entry. Whatever a receiver has there stays, and all below it.
enum class EntryKind : std::uint8_t { directory = 1, file, symlink, hard_link, unreadable };
enum class RecordKind : std::uint8_t { part = 1, file_end, kept };

// With --resume files of at least this size are compared in blocks.
inline constexpr std::uint64_t kResumeFileBytes = 4 << 20;
inline constexpr std::uint64_t kResumeBlockBytes = 1 << 20;
using BlockDigest = std::array<std::uint8_t, 16>;
inline constexpr BlockDigest kNoDigest{};

struct Entry {
  EntryKind kind = EntryKind::file;
  std::string path;    // relative, of any bytes
  std::string target;  // of a link; of a hard link: the path of an earlier entry
  std::uint32_t mode = 0, uid = 0, gid = 0;
  std::int64_t mtime_s = 0;
  std::uint32_t mtime_ns = 0;
  std::uint64_t size = 0;
  std::vector<std::pair<std::string, std::string>> xattrs;
};

inline constexpr std::size_t kMaxPathBytes = 4096;

// True if a receiver may take it for a path below its folder: no empty, "." or ".." part, no slash
// at the ends, no zero byte.
bool is_safe_path(std::string_view path);

class Writer {
 public:
  explicit Writer(std::span<std::byte> room) : room_(room) {}
  std::size_t size() const { return at_; }
  std::size_t left() const { return room_.size() - at_; }
  template <class T>
  void number(T value) {
    std::memcpy(room_.data() + at_, &value, sizeof value);
    at_ += sizeof value;
  }
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    std::memcpy(room_.data() + at_, text.data(), text.size());
    at_ += text.size();
  }
  std::byte* at() { return room_.data() + at_; }
  void skip(std::size_t bytes) { at_ += bytes; }
  // Overwrites what was written at this place.
  template <class T>
  void set(std::size_t at, T value) {
    std::memcpy(room_.data() + at, &value, sizeof value);
  }

 private:
  std::span<std::byte> room_;
  std::size_t at_ = 0;
};

// Every read says whether there was enough.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool is_empty() const { return bytes_.empty(); }
  template <class T>
  bool number(T& value) {
    if (bytes_.size() < sizeof value) return false;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return true;
  }
  bool text(std::string& text, std::size_t most) {
    std::uint32_t length = 0;
    if (!number(length) || length > most || length > bytes_.size()) return false;
    text.assign(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return true;
  }
  bool take(std::size_t length, std::span<const std::byte>& part) {
    if (length > bytes_.size()) return false;
    part = bytes_.first(length);
    bytes_ = bytes_.subspan(length);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

std::size_t encoded_bytes(const Entry& entry);
void encode(const Entry& entry, Writer& writer);
bool decode(Reader& reader, Entry& entry);

// Lines of the pipes between the sender and its receivers carry any bytes as %xx.
std::string quote(std::string_view text);
// For people: control characters, of which a line's end would begin a false line, as \xHH.
std::string printable(std::string_view text);
bool unquote(std::string_view text, std::string& bytes);
// The version of the other side, which ends a line. A side that names none speaks 2, the last
// version without it.
unsigned read_version(std::istream& words);
// The secret of one transfer, from that which its receivers know (it may be empty) and a number
// that everybody may know.
std::string derived_secret(std::string_view secret, std::string_view salt);
BlockDigest block_digest(std::span<const std::byte> block);
std::string to_hex(const BlockDigest& digest);
// "hex,hex", appended; false: it makes no sense.
std::string to_hex(std::span<const BlockDigest> digests);
bool from_hex(std::string_view text, std::vector<BlockDigest>& digests);
// All of it; false: it is not there, or can't be read.
bool read_range(int file, std::uint64_t offset, std::span<std::byte> to);
// "1,3-5"; false: it makes no sense.
std::string to_ranges(const std::vector<bool>& marks);
bool from_ranges(std::string_view text, std::vector<bool>& marks);

}  // namespace weft::copy
