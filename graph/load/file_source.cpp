#include "file_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "weft/exchange.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;  // stays in a core's cache while parsed
constexpr std::size_t kHeaderBytes = std::size_t{1} << 16;

std::string lower_suffix(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  std::string suffix = dot == std::string::npos || path.find('/', dot) != std::string::npos
                           ? ""
                           : path.substr(dot + 1);
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

std::int64_t changed_ns(const struct stat& found) {
  return std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

constexpr std::string_view kTextFormats = "el, wel, mtx or gr";

// Names of unsupported formats, each with advice.
struct OtherFormat {
  std::string_view suffix, advice;
};
constexpr OtherFormat kOtherFormats[] = {
    {"graph", "METIS's format is not read: write a line \"source destination\" an edge (.el)"},
    {"metis", "METIS's format is not read: write a line \"source destination\" an edge (.el)"},
    {"sg", "GAPBS's serialized graphs are not read: write it as text with its converter -e (.el)"},
    {"wsg",
     "GAPBS's serialized graphs are not read: write it as text with its converter -e (.wel)"},
    {"bz2", "only gzip is read: inflate it first"},
    {"xz", "only gzip is read: inflate it first"},
    {"zst", "only gzip is read: inflate it first"},
    {"lz4", "only gzip is read: inflate it first"},
    {"zip", "only gzip is read: inflate it first"},
    {"tgz", "it is an archive: unpack it first"},
    {"tar", "it is an archive: unpack it first"}};

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x09 || (byte > 0x0d && byte < 0x20) || byte == 0x7f;
}

// Edges in binary have bytes of zeros in their first records: no graph has all its vertices from
// 0x09090909 on.
bool is_text(std::string_view head) {
  return !head.empty() && std::none_of(head.begin(), head.end(), is_control);
}

bool is_utf16(std::string_view head) {
  if (!head.starts_with("\xff\xfe") && !head.starts_with("\xfe\xff")) return false;
  const std::size_t zero = head[0] == '\xff' ? 1 : 0;  // of the two bytes of a letter
  for (std::size_t i = 2; i + 1 < head.size(); i += 2)
    if (head[i + zero] != 0 || is_control(head[i + 1 - zero])) return false;
  return true;
}

struct GzipClose {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, GzipClose>;

}  // namespace

std::string_view advice_on(const std::string& path, bool gzipped) {
  const std::string suffix = lower_suffix(gzipped ? path.substr(0, path.size() - 3) : path);
  for (const OtherFormat& other : kOtherFormats)
    if (other.suffix == suffix) return other.advice;
  return {};
}

FileFormat format_by_name(std::string path, bool gzipped) {
  if (gzipped) path.resize(path.size() - 3);
  const std::string suffix = lower_suffix(path);
  if (suffix == "el" || suffix == "txt" || suffix == "tsv" || suffix == "csv")
    return FileFormat::edge_list;
  if (suffix == "wel") return FileFormat::weighted_edge_list;
  if (suffix == "mtx") return FileFormat::matrix_market;
  if (suffix == "gr") return FileFormat::dimacs;
  if (suffix == "gemini") return FileFormat::gemini_binary;
  if (suffix == "wgemini") return FileFormat::gemini_weighted;
  if (suffix == "bin") return FileFormat::paper_binary;
  return gzipped ? FileFormat::edge_list : FileFormat::paper_binary;
}

std::int64_t read_at(int descriptor, char* to, std::size_t bytes, std::uint64_t offset) {
  std::size_t num_read = 0;
  while (num_read < bytes) {
    const ssize_t got =
        pread(descriptor, to + num_read, bytes - num_read, static_cast<off_t>(offset + num_read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    num_read += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(num_read);
}

FileSource::~FileSource() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status FileSource::unreadable(const char* doing) const {
  return {errno == ENOENT ? Code::not_found : Code::not_permitted,
          path_ + ": cannot " + doing + ": " + std::strerror(errno)};
}

Status FileSource::inspect(FileFormat format, FileFacts& facts, bool wants_weights) {
  facts.gzipped = path_.size() > 3 && lower_suffix(path_) == "gz";
  facts.format = format == FileFormat::by_name ? format_by_name(path_, facts.gzipped) : format;
  if (const std::string_view advice = advice_on(path_, facts.gzipped);
      format == FileFormat::by_name && !advice.empty())
    return {Code::unsupported, path_ + ": " + std::string(advice)};
  if (facts.gzipped && facts.binary())
    return {Code::unsupported, path_ + ": only text is read through gzip; inflate it first"};
  // A pipe without a writer would block here, and is refused below.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat found {};
  if (descriptor_ < 0 || fstat(descriptor_, &found) != 0) return unreadable("open it");
  if (!S_ISREG(found.st_mode))
    return {Code::bad_argument, path_ + ": not a file that can be read in parts"};
  facts.bytes = static_cast<std::uint64_t>(found.st_size);
  facts.changed_ns = changed_ns(found);
  facts_ = facts;
  std::string head;
  Status status = read_head(head);
  if (status.ok())
    status = facts.binary() ? check_binary(head) : read_header(head, wants_weights, facts);
  facts_ = facts;
  return status;
}

Status FileSource::read_head(std::string& head) const {
  head.resize(kHeaderBytes);
  std::int64_t got = 0;
  if (facts_.gzipped) {
    const GzipFile file(gzopen(path_.c_str(), "rb"));
    got =
        file == nullptr ? -1 : gzread(file.get(), head.data(), static_cast<unsigned>(kHeaderBytes));
    // The part inflated before an error is inspected; the reader of the full file reports the
    // error.
    if (got < 0) got = 0;
  } else {
    got = read_at(descriptor_, head.data(), head.size(), 0);
  }
  if (got < 0) return unreadable("read it");
  head.resize(static_cast<std::size_t>(got));
  return Code::ok;
}

Status FileSource::check_binary(std::string_view head) const {
  if (is_text(head) || is_utf16(head))
    return {Code::corrupt, path_ +
                               ": is text, where its format has edges in binary; say with "
                               "--format which text it is: " +
                               std::string(kTextFormats)};
  // A vertex may have the number that begins such files; what follows then does not inflate.
  if (head.starts_with("\x1f\x8b\x08")) {
    const GzipFile file(gzopen(path_.c_str(), "rb"));
    char inflated[64];
    if (file != nullptr && gzread(file.get(), inflated, sizeof inflated) > 0)
      return {Code::corrupt, path_ +
                                 ": is gzipped; inflate it first, or if it is text, give it a "
                                 "name that ends in .gz"};
  }
  if (head.starts_with("BZh") ||
      head.starts_with("\xfd"
                       "7zXZ") ||
      head.starts_with("\x28\xb5\x2f\xfd") || head.starts_with("PK\x03\x04"))
    return {Code::corrupt, path_ + ": is compressed; inflate it first"};
  if (facts_.bytes % facts_.record_bytes() != 0)
    return {Code::corrupt,
            path_ + ": truncated, or of another format: " + std::to_string(facts_.bytes) +
                " bytes are no whole number of edges of " + std::to_string(facts_.record_bytes()) +
                " bytes; --format says what it is"};
  return Code::ok;
}

Status FileSource::read_header(const std::string& head, bool wants_weights,
                               FileFacts& facts) const {
  if (is_utf16(head))
    return {Code::corrupt, path_ + ": is text in UTF-16; make it UTF-8, as iconv -f UTF-16 does"};
  TextRules& rules = facts.rules;
  rules.weighted = rules.needs_weights = facts.format == FileFormat::weighted_edge_list;
  const std::size_t mark = head.starts_with("\xef\xbb\xbf") ? 3 : 0;  // the byte order mark
  const std::string_view text = std::string_view(head).substr(mark);
  TextHeader header;
  const Status status =
      facts.format == FileFormat::matrix_market
          ? parse_matrix_header(text, wants_weights, rules, header)
      : facts.format == FileFormat::dimacs
          ? parse_arcs_header(text, rules, header)
          : parse_list_header(text, head.size() < kHeaderBytes, wants_weights, rules, header);
  if (!status.ok())
    return {status.code(), path_ + ":" + std::to_string(std::max<std::uint64_t>(1, header.lines)) +
                               ": " + status.text()};
  facts.header_bytes = mark + header.bytes;
  facts.header_lines = header.lines;
  facts.is_weight_third = header.is_weight_third;
  return Code::ok;
}

std::string FileSource::note() const {
  if (!facts_.is_weight_third) return {};
  return path_ + ": the third column is taken for the weights (--weights none passes over it)";
}

Status FileSource::open(const FileFacts& facts) {
  facts_ = facts;
  if (descriptor_ < 0) descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) return unreadable("open it");
  return check_unchanged();
}

Status FileSource::check_entries(std::uint64_t num_read) const {
  if (!facts_.rules.matrix || num_read == facts_.rules.num_entries) return Code::ok;
  return {Code::corrupt, path_ + ": " + std::to_string(num_read) +
                             " entries, where its header promises " +
                             std::to_string(facts_.rules.num_entries)};
}

Status FileSource::check_unchanged() const {
  struct stat now {};
  if (fstat(descriptor_, &now) != 0) return unreadable("stat it");
  if (static_cast<std::uint64_t>(now.st_size) != facts_.bytes ||
      changed_ns(now) != facts_.changed_ns)
    return {
        Code::corrupt,
        path_ + ": changed while it was read, or is another file on another host; load it again"};
  return Code::ok;
}

Status FileSource::read_part(std::uint64_t part, std::uint64_t num_parts, EdgeStore& edges,
                             const std::function<void(std::uint64_t)>& progress) const {
  const auto boundary = [&](std::uint64_t p) {
    const std::uint64_t unit = facts_.binary() ? facts_.record_bytes() : 1;
    const std::uint64_t units = (facts_.bytes - facts_.header_bytes) / unit;
    return facts_.header_bytes + unit * (units / num_parts * p + units % num_parts * p / num_parts);
  };
  const std::uint64_t begin = boundary(part), end = boundary(part + 1);
  return facts_.binary() ? read_binary(begin, end, edges, progress)
                         : read_text(begin, end, edges, progress);
}

Status FileSource::read_binary(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                               const std::function<void(std::uint64_t)>& progress) const {
  const std::size_t record = facts_.record_bytes();
  std::vector<char> block(kBlockBytes / record * record);
  for (std::uint64_t at = begin; at < end;) {
    const std::size_t bytes = std::min<std::uint64_t>(block.size(), end - at);
    const std::int64_t got = read_at(descriptor_, block.data(), bytes, at);
    if (got < 0) return unreadable("read it");
    if (static_cast<std::size_t>(got) != bytes)
      return {Code::corrupt, path_ + ": changed while it was read: it ends before byte " +
                                 std::to_string(at + bytes)};
    for (std::size_t i = 0; i < bytes; i += record) {
      std::uint32_t words[3] = {0, 0, 1};
      std::memcpy(words, block.data() + i, record);
      if (words[0] == 0xffffffff || words[1] == 0xffffffff)
        return {Code::corrupt, path_ + ": the edge at byte " + std::to_string(at + i) +
                                   " has vertex 4294967295, which no graph has"};
      if (facts_.format == FileFormat::gemini_weighted && edges.weighted()) {
        float value = 0;
        std::memcpy(&value, &words[2], sizeof value);
        if (!(value >= 0) || value >= 4294967296.0f || value != std::floor(value))
          return {Code::corrupt, path_ + ": the edge at byte " + std::to_string(at + i) +
                                     " has the weight " + std::to_string(value) +
                                     (value < 0 ? ", negative: shortest paths need weights from 0"
                                                : ", not a whole number of 32 bits")};
        words[2] = static_cast<std::uint32_t>(value);
      }
      edges.add(words[0], words[1], words[2]);
    }
    at += bytes;
    progress(bytes);
  }
  return Code::ok;
}

// A part has the lines that begin in it.
Status FileSource::read_text(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                             const std::function<void(std::uint64_t)>& progress) const {
  std::vector<char> block(kBlockBytes + kMaxLineBytes + 1);
  std::uint64_t at = begin;  // of block[0] in the file
  std::size_t kept = 0;      // bytes of an unfinished line
  bool inside = false;       // still in the line that began before this part
  if (begin > facts_.header_bytes) {
    --at;
    inside = true;
  }
  while (at < end || (kept > 0 && at < facts_.bytes)) {
    const std::int64_t got = read_at(descriptor_, block.data() + kept, kBlockBytes, at + kept);
    if (got < 0) return unreadable("read it");
    std::size_t size = kept + static_cast<std::size_t>(got);
    const bool at_end = at + size >= facts_.bytes;
    std::size_t start = 0;
    if (inside) {
      const void* newline = std::memchr(block.data(), '\n', size);
      if (newline == nullptr) {
        // The process whose line it is reports that it is too long.
        if (at_end || got == 0) return Code::ok;
        at += size;
        if (at >= end) return Code::ok;
        continue;
      }
      start = static_cast<std::size_t>(static_cast<const char*>(newline) - block.data()) + 1;
      inside = false;
    }
    if (got == 0 && !at_end)
      return {Code::corrupt, path_ + ": changed while it was read: it is shorter now"};
    // Parse up to the last line that begins in this part.
    std::size_t stop = at_end ? size : end_of_lines({block.data(), size});
    bool done = at_end;
    if (at + size > end) {
      if (at + start >= end) return Code::ok;
      // The line that contains byte end - 1 is this part's, whole.
      const auto last = static_cast<std::size_t>(end - 1 - at);
      const void* newline = std::memchr(block.data() + last, '\n', size - last);
      if (newline != nullptr) {
        stop = static_cast<std::size_t>(static_cast<const char*>(newline) - block.data()) + 1;
        done = true;
      }
    }
    if (stop <= start && size - start > kMaxLineBytes) stop = size;  // the parser refuses the line
    if (stop > start) {
      std::uint64_t num_lines = 0;
      const Status status =
          parse_edges({block.data() + start, stop - start}, facts_.rules, edges, &num_lines);
      if (!status.ok()) return at_line(status, at + start, num_lines);
    } else {
      stop = start;
    }
    progress(static_cast<std::uint64_t>(got));
    if (done) return Code::ok;
    kept = size - stop;
    if (kept > kMaxLineBytes) return at_line(long_line({block.data() + stop, kept}), at + stop, 1);
    std::memmove(block.data(), block.data() + stop, kept);
    at += stop;
  }
  return Code::ok;
}

Status FileSource::at_line(const Status& wrong, std::uint64_t offset, std::uint64_t line) const {
  std::vector<char> block(kBlockBytes);
  for (std::uint64_t at = 0; at < offset;) {
    const std::int64_t got =
        read_at(descriptor_, block.data(), std::min<std::uint64_t>(block.size(), offset - at), at);
    if (got <= 0) break;
    line += static_cast<std::uint64_t>(std::count(block.data(), block.data() + got, '\n'));
    at += static_cast<std::uint64_t>(got);
  }
  return {wrong.code(), path_ + ":" + std::to_string(line) + ": " + wrong.text()};
}

Status FileSource::read_gzip(transport::Job& job, EdgeStore& edges,
                             const std::function<void(std::uint64_t)>& progress) const {
  // A block is handed on as its first line's number (8 bytes) and its lines.
  const auto parse = [&](std::span<const std::byte> block) -> Status {
    std::uint64_t first_line = 0, num_lines = 0;
    std::memcpy(&first_line, block.data(), sizeof first_line);
    const Status status =
        parse_edges({reinterpret_cast<const char*>(block.data()) + sizeof first_line,
                     block.size() - sizeof first_line},
                    facts_.rules, edges, &num_lines);
    if (status.ok()) return status;
    return {status.code(),
            path_ + ":" + std::to_string(first_line + num_lines) + ": " + status.text()};
  };
  Status result;
  transport::Exchange<transport::Bytes> exchange(job, 1);
  if (job.rank() == 0) {
    const GzipFile file(gzopen(path_.c_str(), "rb"));
    std::vector<std::byte> block(sizeof(std::uint64_t) + kBlockBytes + kMaxLineBytes);
    char* const text = reinterpret_cast<char*>(block.data()) + sizeof(std::uint64_t);
    if (file == nullptr) result = unreadable("open it");
    if (result.ok()) (void)gzbuffer(file.get(), kBlockBytes);
    std::uint64_t line = facts_.header_lines;
    if (result.ok() && gzseek(file.get(), static_cast<z_off_t>(facts_.header_bytes), SEEK_SET) < 0)
      result = {Code::corrupt, path_ + ": cannot inflate it"};
    std::size_t kept = 0;
    std::int64_t reported = 0;
    for (int to = 0; result.ok(); to = (to + 1) % job.size()) {
      const int got = gzread(file.get(), text + kept, static_cast<unsigned>(kBlockBytes));
      int code = Z_OK;
      if (got < static_cast<int>(kBlockBytes)) {
        const char* why = gzerror(file.get(), &code);
        if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
          result = {Code::corrupt, path_ + ": cannot inflate it: " + why};
          break;
        }
      }
      const std::size_t size = kept + static_cast<std::size_t>(got);
      std::size_t stop = got == 0 ? size : end_of_lines({text, size});
      if (size - stop > kMaxLineBytes) stop = size;  // the parser refuses the line
      if (stop > 0) {
        std::memcpy(block.data(), &line, sizeof line);
        const std::span<const std::byte> lines(block.data(), sizeof line + stop);
        if (to == 0) {
          result = parse(lines);
        } else if (const Code sent = exchange.send(to, 0, lines); sent != Code::ok) {
          result = {sent, "cannot hand edges to " + job.describe(to)};
        }
        line += static_cast<std::uint64_t>(std::count(text, text + stop, '\n'));
        kept = size - stop;
        std::memmove(text, text + stop, kept);
      } else {
        kept = size;
      }
      const std::int64_t at = gzoffset(file.get());
      progress(static_cast<std::uint64_t>(std::max<std::int64_t>(0, at - reported)));
      reported = at;
      if (got == 0) break;
    }
  }
  const Status ended = exchange.quiesce(0, [&](transport::Bytes block) {
    if (result.ok() && block.size() >= sizeof(std::uint64_t)) result = parse(block);
  });
  return ended.ok() ? result : ended;
}

}  // namespace weft::graph
