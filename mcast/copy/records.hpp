#pragma once
// The messages of weft-copy, of version kCopyVersion, which consist of records. A receiver checks
// every byte.
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
inline constexpr unsigned kCopyVersion = 3;

// Block size of the group. Members that fall out of step wait longer for larger blocks:
// docs/use/multicast.md has measurements.
inline constexpr std::size_t kBlockBytes = 128 << 10;

using Digest = std::array<std::uint8_t, 32>;

enum class MessageKind : std::uint8_t { plan = 1, plan_end, data, end };
// unreadable: the sender could not read the entry or all of it; a folder has an entry of its own
// beside this one. Receivers keep what they have at and below the path.
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

// True if the path stays below the receiver's folder: no empty, "." or ".." part, no slash at the
// ends, no zero byte.
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
  // Overwrites the value at this offset.
  template <class T>
  void set(std::size_t at, T value) {
    std::memcpy(room_.data() + at, &value, sizeof value);
  }

 private:
  std::span<std::byte> room_;
  std::size_t at_ = 0;
};

// Each read returns false if too few bytes are left.
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

// Escapes arbitrary bytes as %xx for the lines between the sender and its receivers.
std::string quote(std::string_view text);
// For messages: escapes control characters as \xHH, so that a name cannot begin a line of its own.
std::string printable(std::string_view text);
bool unquote(std::string_view text, std::string& bytes);
// Reads the other side's version from the end of a line. A side that sends none speaks 2, the last
// version without it.
unsigned read_version(std::istream& words);
// Derives the secret of one transfer from the listeners' secret, which may be empty, and a public
// salt.
std::string derived_secret(std::string_view secret, std::string_view salt);
BlockDigest block_digest(std::span<const std::byte> block);
std::string to_hex(const BlockDigest& digest);
// Parses "hex,hex" and appends the digests; false: invalid.
std::string to_hex(std::span<const BlockDigest> digests);
bool from_hex(std::string_view text, std::vector<BlockDigest>& digests);
// Reads the complete range; false: the file is shorter or can't be read.
bool read_range(int file, std::uint64_t offset, std::span<std::byte> to);
// Parses "1,3-5"; false: invalid.
std::string to_ranges(const std::vector<bool>& marks);
bool from_ranges(std::string_view text, std::vector<bool>& marks);

}  // namespace weft::copy
