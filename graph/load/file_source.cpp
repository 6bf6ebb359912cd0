#include "file_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "graph/formats/binary_edges.hpp"
#include "graph/formats/detect.hpp"
#include "graph/formats/headers.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;  // stays in a core's cache while parsed
constexpr std::size_t kHeaderBytes = std::size_t{1} << 16;

std::int64_t changed_ns(const struct stat& found) {
  return std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

}  // namespace

std::size_t FileFacts::record_bytes() const noexcept { return graph::record_bytes(format); }
bool FileFacts::binary() const noexcept { return is_binary(format); }

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

FileSource::FileSource(std::string path)
    : path_(std::move(path)), shown_(path_ == "-" ? "standard input" : path_) {}

FileSource::~FileSource() {
  if (descriptor_ >= 0 && descriptor_ != STDIN_FILENO) close(descriptor_);
}

Status FileSource::unreadable(const char* doing) const {
  return {errno == ENOENT ? Code::not_found : Code::not_permitted,
          shown_ + ": cannot " + doing + ": " + std::strerror(errno)};
}

Status FileSource::about(const Status& wrong) const {
  return wrong.ok() ? wrong : Status{wrong.code(), shown_ + ": " + wrong.text()};
}

Status FileSource::open_input(FileFacts& facts) {
  facts.is_pipe = path_ == "-";
  if (facts.is_pipe) {
    descriptor_ = STDIN_FILENO;
    return Code::ok;
  }
  // A pipe without a writer would block here, and is refused below.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat found {};
  if (descriptor_ < 0 || fstat(descriptor_, &found) != 0) return unreadable("open it");
  if (!S_ISREG(found.st_mode))
    return {Code::bad_argument, shown_ + ": not a file (\"-\" reads standard input)"};
  facts.bytes = static_cast<std::uint64_t>(found.st_size);
  facts.changed_ns = changed_ns(found);
  return Code::ok;
}

Status FileSource::inspect(const ReadOptions& options, FileFacts& facts) {
  if (const Status status = open_input(facts); !status.ok()) return status;
  std::string head;
  if (const Status status = read_head(head, facts); !status.ok()) return about(status);
  FileSample sample;
  sample.head = head;
  sample.is_all = head.size() < kHeaderBytes;
  sample.bytes = facts.compression == Compression::none && !facts.is_pipe ? facts.bytes
                 : sample.is_all                                          ? head.size()
                                                                          : 0;
  sample.named = format_by_name(path_);
  sample.advice = advice_on(path_);
  std::string reason;
  facts.format = options.format;
  const Status status = options.format == FileFormat::automatic
                            ? detect(sample, facts.format, reason)
                            : check_given(sample, options.format);
  if (!status.ok()) return about(status);
  const bool is_name_other = (sample.named != FileFormat::automatic || !sample.advice.empty()) &&
                             sample.named != facts.format;
  if (options.format == FileFormat::automatic && is_name_other && !head.empty())
    reading_ = "read as " + std::string(word_of(facts.format)) + ", as " + reason +
               " (--format says another)";
  const bool is_list =
      facts.format == FileFormat::edge_list || facts.format == FileFormat::weighted_edge_list;
  if (!is_list && options.names != nullptr)
    return {Code::bad_argument, shown_ + ": --named is for edge lists and tables; in " +
                                    std::string(word_of(facts.format)) + " vertices have numbers"};
  if (!is_list && !options.columns.empty())
    return {Code::bad_argument, shown_ + ": --columns is for tables, and this is " +
                                    std::string(word_of(facts.format))};
  names_ = options.names;
  facts.rules.weight_form = facts.metis.weight_form = options.weight_form;
  if (!facts.binary())
    if (const Status wrong = read_header(head, options, facts); !wrong.ok()) return wrong;
  facts_ = facts;
  return Code::ok;
}

Status FileSource::read_head(std::string& head, FileFacts& facts) {
  const auto raw = [&] {
    return facts.is_pipe ? stream_of_pipe(descriptor_) : stream_of_file(descriptor_);
  };
  std::unique_ptr<ByteStream> stream = raw();
  std::size_t got = 0;
  head.resize(kHeaderBytes);
  Status status = stream->read(head.data(), head.size(), &got);
  if (!status.ok()) return status;
  head.resize(got);
  const Compression found = compression_of(head);
  std::string name = path_;
  if (found == Compression::none) {
    if (facts.is_pipe) stream_ = stream_behind(head, std::move(stream));
    return Code::ok;
  }
  std::unique_ptr<ByteStream> inflated;
  status = inflate(found, stream_behind(head, std::move(stream)), inflated);
  std::string inside(kHeaderBytes, '\0');
  if (status.ok()) status = inflated->read(inside.data(), inside.size(), &got);
  // The reader of all of the file reports what is wrong behind its first bytes.
  if (!status.ok() && got == 0) {
    // A vertex may have the number that such files begin with: what follows then does not inflate.
    const bool is_named = compression_by_name(name) == found;
    return is_named || facts.is_pipe || status == Code::unsupported ? status : Status();
  }
  inside.resize(got);
  head = std::move(inside);
  facts.compression = found;
  if (facts.is_pipe) stream_ = stream_behind(head, std::move(inflated));
  return Code::ok;
}

Status FileSource::read_header(const std::string& head, const ReadOptions& options,
                               FileFacts& facts) const {
  TextRules& rules = facts.rules;
  rules.weighted = rules.needs_weights = facts.format == FileFormat::weighted_edge_list;
  const std::size_t mark = head.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const std::string_view text = std::string_view(head).substr(mark);
  rules.line_end = facts.metis.line_end = line_end_of(text);
  TextHeader header;
  const Status status = facts.format == FileFormat::matrix_market
                            ? parse_matrix_header(text, options.wants_weights, rules, header)
                        : facts.format == FileFormat::dimacs
                            ? parse_arcs_header(text, rules, header)
                        : facts.format == FileFormat::metis
                            ? parse_metis_header(text, facts.metis, header)
                            : parse_list_header(text,
                                                {.is_all = head.size() < kHeaderBytes,
                                                 .wants_weights = options.wants_weights,
                                                 .named = options.names != nullptr,
                                                 .columns = options.columns},
                                                rules, header);
  if (!status.ok())
    return {status.code(), shown_ + ":" + std::to_string(std::max<std::uint64_t>(1, header.lines)) +
                               ": " + status.text()};
  facts.header_bytes = mark + header.bytes;
  facts.header_lines = header.lines;
  facts.is_weight_third = header.is_weight_third;
  facts.has_no_weights = header.has_no_weights;
  return Code::ok;
}

std::string FileSource::note() const {
  std::string text = reading_;
  if (facts_.is_weight_third)
    text += std::string(text.empty() ? "" : "; ") +
            "the third column is taken for the weights (--weights none passes over it)";
  if (facts_.has_no_weights)
    text += std::string(text.empty() ? "" : "; ") +
            "no column is named weight, so every edge weighs 1 (--columns says which it is)";
  return text.empty() ? text : shown_ + ": " + text;
}

Status FileSource::open(const FileFacts& facts) {
  facts_ = facts;
  if (facts.is_pipe) return Code::ok;
  if (descriptor_ < 0) descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) return unreadable("open it");
  return check_unchanged();
}

Status FileSource::check_entries(std::uint64_t num_read) const {
  const bool is_metis = facts_.format == FileFormat::metis;
  if (!facts_.rules.matrix && !is_metis) return Code::ok;
  const std::uint64_t promised = is_metis ? facts_.metis.num_entries : facts_.rules.num_entries;
  if (num_read == promised) return Code::ok;
  return {Code::corrupt, shown_ + ": " + std::to_string(num_read) +
                             (is_metis ? " neighbours, where" : " entries, where") +
                             " its header promises " + std::to_string(promised) +
                             (is_metis ? ", two for each edge" : "")};
}

Status FileSource::check_unchanged() const {
  if (facts_.is_pipe) return Code::ok;
  struct stat now {};
  if (fstat(descriptor_, &now) != 0) return unreadable("stat it");
  if (static_cast<std::uint64_t>(now.st_size) != facts_.bytes ||
      changed_ns(now) != facts_.changed_ns)
    return {
        Code::corrupt,
        shown_ + ": changed while it was read, or is another file on another host; load it again"};
  return Code::ok;
}

Status FileSource::read_part(std::uint64_t part, std::uint64_t num_parts, EdgeStore& edges,
                             const Progress& progress) const {
  const auto boundary = [&](std::uint64_t p) {
    const std::uint64_t unit = facts_.binary() ? facts_.record_bytes() : 1;
    const std::uint64_t units = (facts_.bytes - facts_.header_bytes) / unit;
    return facts_.header_bytes + unit * (units / num_parts * p + units % num_parts * p / num_parts);
  };
  const std::uint64_t begin = boundary(part), end = boundary(part + 1);
  return facts_.binary() ? read_binary(begin, end, edges, progress)
                         : read_text(begin, end, edges, progress);
}

Status FileSource::parse_records(std::uint64_t at, std::string_view records,
                                 EdgeStore& edges) const {
  return about(parse_binary_edges(records, facts_.format, at, facts_.rules.weight_form, edges));
}

Status FileSource::read_binary(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                               const Progress& progress) const {
  const std::size_t record = facts_.record_bytes();
  std::vector<char> block(kBlockBytes / record * record);
  for (std::uint64_t at = begin; at < end;) {
    const std::size_t bytes = std::min<std::uint64_t>(block.size(), end - at);
    const std::int64_t got = read_at(descriptor_, block.data(), bytes, at);
    if (got < 0) return unreadable("read it");
    if (static_cast<std::size_t>(got) != bytes)
      return {Code::corrupt, shown_ + ": changed while it was read: it ends before byte " +
                                 std::to_string(at + bytes)};
    if (const Status status = parse_records(at, {block.data(), bytes}, edges); !status.ok())
      return status;
    at += bytes;
    progress(bytes);
  }
  return Code::ok;
}

// A part has the lines that begin in it.
Status FileSource::read_text(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                             const Progress& progress) const {
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
      const void* newline = std::memchr(block.data(), facts_.rules.line_end, size);
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
      return {Code::corrupt, shown_ + ": changed while it was read: it is shorter now"};
    // Parse up to the last line that begins in this part.
    std::size_t stop = at_end ? size : end_of_lines({block.data(), size}, facts_.rules.line_end);
    bool done = at_end;
    if (at + size > end) {
      if (at + start >= end) return Code::ok;
      // The line that contains byte end - 1 is this part's, whole.
      const auto last = static_cast<std::size_t>(end - 1 - at);
      const void* newline = std::memchr(block.data() + last, facts_.rules.line_end, size - last);
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
    if (kept > kMaxLineBytes)
      return at_line(long_line({block.data() + stop, kept}, facts_.rules.line_end), at + stop, 1);
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
    line += static_cast<std::uint64_t>(
        std::count(block.data(), block.data() + got, facts_.rules.line_end));
    at += static_cast<std::uint64_t>(got);
  }
  return {wrong.code(), shown_ + ":" + std::to_string(line) + ": " + wrong.text()};
}

}  // namespace weft::graph
