#include "mcast/copy/records.hpp"

#include <sodium.h>

#include <errno.h>
#include <fmt/core.h>
#include <unistd.h>

#include <charconv>

namespace weft::copy {

namespace {

constexpr std::size_t kMaxXattrBytes = 64 << 10;
constexpr std::uint32_t kMaxXattrs = 1000;

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes || path.find('\0') != path.npos) return false;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = end + 1;
  }
  return true;
}

std::size_t encoded_bytes(const Entry& entry) {
  std::size_t bytes = 64 + entry.path.size() + entry.target.size();
  for (const auto& [name, value] : entry.xattrs) bytes += 8 + name.size() + value.size();
  return bytes;
}

void encode(const Entry& entry, Writer& writer) {
  writer.number(entry.kind);
  writer.text(entry.path);
  writer.text(entry.target);
  writer.number(entry.mode);
  writer.number(entry.uid);
  writer.number(entry.gid);
  writer.number(entry.mtime_s);
  writer.number(entry.mtime_ns);
  writer.number(entry.size);
  writer.number(static_cast<std::uint32_t>(entry.xattrs.size()));
  for (const auto& [name, value] : entry.xattrs) {
    writer.text(name);
    writer.text(value);
  }
}

bool decode(Reader& reader, Entry& entry) {
  std::uint32_t num_xattrs = 0;
  entry.xattrs.clear();
  const bool is_whole = reader.number(entry.kind) && reader.text(entry.path, kMaxPathBytes) &&
                        reader.text(entry.target, kMaxPathBytes) && reader.number(entry.mode) &&
                        reader.number(entry.uid) && reader.number(entry.gid) &&
                        reader.number(entry.mtime_s) && reader.number(entry.mtime_ns) &&
                        reader.number(entry.size) && reader.number(num_xattrs);
  if (!is_whole || num_xattrs > kMaxXattrs || entry.mtime_ns > 999'999'999 ||
      entry.kind < EntryKind::directory || entry.kind > EntryKind::unreadable ||
      !is_safe_path(entry.path) || (entry.mode & ~07777u) != 0 || entry.size >> 62 != 0)
    return false;
  if (entry.kind == EntryKind::hard_link && !is_safe_path(entry.target)) return false;
  if (entry.kind == EntryKind::symlink &&
      (entry.target.empty() || entry.target.find('\0') != std::string::npos))
    return false;
  for (std::uint32_t i = 0; i < num_xattrs; ++i) {
    auto& [name, value] = entry.xattrs.emplace_back();
    if (!reader.text(name, 255) || !reader.text(value, kMaxXattrBytes) || name.empty() ||
        name.find('\0') != std::string::npos)
      return false;
  }
  return true;
}

std::string quote(std::string_view text) {
  std::string quoted;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte <= ' ' || byte >= 127 || byte == '%')
      quoted += fmt::format("%{:02x}", byte);
    else
      quoted += letter;
  }
  return quoted;
}

std::string printable(std::string_view text) {
  std::string shown;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < ' ' || byte == 127)
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += letter;
  }
  return shown;
}

bool unquote(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return false;
    const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (error != std::errc{} || end != text.data() + i + 3) return false;
    bytes += static_cast<char>(value);
    i += 2;
  }
  return true;
}

std::string to_ranges(const std::vector<bool>& marks) {
  std::string text;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i]) continue;
    std::size_t last = i;
    while (last + 1 < marks.size() && marks[last + 1]) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", i);
    if (last > i) text += fmt::format("-{}", last);
    i = last;
  }
  return text;
}

bool from_ranges(std::string_view text, std::vector<bool>& marks) {
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    std::size_t first = 0, last = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (error != std::errc{}) return false;
    last = first;
    if (end != part.data() + part.size()) {
      if (*end != '-') return false;
      const auto more = std::from_chars(end + 1, part.data() + part.size(), last);
      if (more.ec != std::errc{} || more.ptr != part.data() + part.size()) return false;
    }
    if (first > last || last >= marks.size()) return false;
    for (std::size_t i = first; i <= last; ++i) marks[i] = true;
  }
  return true;
}

BlockDigest block_digest(std::span<const std::byte> block) {
  BlockDigest digest;
  ::crypto_generichash(digest.data(), digest.size(),
                       reinterpret_cast<const unsigned char*>(block.data()), block.size(), nullptr,
                       0);
  return digest;
}

std::string to_hex(const BlockDigest& digest) {
  char text[2 * sizeof digest + 1];
  return ::sodium_bin2hex(text, sizeof text, digest.data(), digest.size());
}

std::string to_hex(std::span<const BlockDigest> digests) {
  std::string text;
  for (const BlockDigest& digest : digests) {
    if (!text.empty()) text += ',';
    text += to_hex(digest);
  }
  return text;
}

bool from_hex(std::string_view text, std::vector<BlockDigest>& digests) {
  constexpr std::size_t kLetters = 2 * sizeof(BlockDigest);
  for (;;) {
    BlockDigest digest;
    std::size_t length = 0;
    if (text.size() < kLetters ||
        ::sodium_hex2bin(digest.data(), digest.size(), text.data(), kLetters, nullptr, &length,
                         nullptr) != 0 ||
        length != digest.size())
      return false;
    digests.push_back(digest);
    text.remove_prefix(kLetters);
    if (text.empty()) return true;
    if (text.front() != ',') return false;
    text.remove_prefix(1);
  }
}

bool read_range(int file, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t length = ::pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return false;
    offset += static_cast<std::uint64_t>(length);
    to = to.subspan(static_cast<std::size_t>(length));
  }
  return true;
}

unsigned read_version(std::istream& words) {
  unsigned version = 0;
  return words >> version ? version : 2;
}

std::string derived_secret(std::string_view secret, std::string_view salt) {
  // Keys have at most 64 bytes, secrets any length.
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  unsigned char key[64], result[32];
  ::crypto_generichash(key, sizeof key, bytes(secret), secret.size(), nullptr, 0);
  ::crypto_generichash(result, sizeof result, bytes(salt), salt.size(), key, sizeof key);
  char text[2 * sizeof result + 1];
  return ::sodium_bin2hex(text, sizeof text, result, sizeof result);
}

}  // namespace weft::copy
