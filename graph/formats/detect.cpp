#include "detect.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "metis.hpp"
#include "text.hpp"

namespace weft::graph {
namespace {

// What other files begin with.
struct Magic {
  std::string_view bytes, advice;
};
constexpr Magic kOthers[] = {
    {"PAR1", "is Parquet, which is not read: write its columns as CSV"},
    {"ARROW1", "is Arrow's file format, which is not read: write its columns as CSV"},
    {"FEA1", "is Arrow's Feather, which is not read: write its columns as CSV"},
    {"\x93NUMPY",
     "is an array of numpy, which is not read: write it as text, as numpy.savetxt does"},
    {"\x89HDF", "is HDF5, which is not read: write its edges as text"},
    {"BZh", "is compressed by bzip2, which is not read; only gzip, zstd and xz are: inflate it"},
    {"PK\x03\x04", "is a zip archive: unpack it first"},
    {"\x04\x22\x4d\x18",
     "is compressed by lz4, which is not read; only gzip, zstd and xz are: inflate it"}};

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

Status check_others(const FileSample& sample) {
  for (const Magic& other : kOthers)
    if (sample.head.starts_with(other.bytes)) return {Code::unsupported, std::string(other.advice)};
  if (is_utf16(sample.head))
    return {Code::corrupt, "is text in UTF-16; make it UTF-8, as iconv -f UTF-16 -t UTF-8 does"};
  return Code::ok;
}

// True if a DIMACS file begins so: comments, and a line of the problem.
bool begins_arcs(std::string_view text, char line_end) {
  text::HeaderLines lines(text, line_end);
  for (std::string_view line; lines.next(line);) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty() || line == "c" || line.starts_with("c ") || line.starts_with("c\t")) continue;
    return line.starts_with("p ") || line.starts_with("p\t");
  }
  return false;
}

// True if all lines of the sample are as those of an edge list: as many numbers as in the first.
bool is_list(std::string_view text, bool is_all, char line_end) {
  text::HeaderLines lines(text, line_end);
  unsigned columns = 0;
  for (std::string_view line; lines.next(line);) {
    if (!lines.is_whole() && !is_all) break;
    text::Cursor cursor = text::cursor_of(line);
    cursor.pass_blanks();
    if (cursor.is_at_end() || text::is_comment(*cursor.at)) continue;
    const unsigned count = count_numbers(cursor);
    if (columns == 0) columns = count;
    if (count < 2 || count != columns) return false;
  }
  return columns > 0;
}

Status detect_text(const FileSample& sample, FileFormat& format, std::string& reason) {
  std::string_view text = sample.head;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const char line_end = line_end_of(text);
  const FileFormat named = is_binary(sample.named) ? FileFormat::automatic : sample.named;
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::string first = text::lower(std::string(text.substr(begin, 16)));
  if (first.starts_with("%%matrixmarket") || first.starts_with("%matrixmarket")) {
    format = FileFormat::matrix_market;
    reason = "its first line is a MatrixMarket header";
    return Code::ok;
  }
  if (begins_arcs(text, line_end)) {
    format = FileFormat::dimacs;
    reason = "its first line but comments is DIMACS's \"p\"";
    return Code::ok;
  }
  // Their readers say what is missing.
  if (named == FileFormat::matrix_market || named == FileFormat::dimacs) {
    format = named;
    reason = "its name says so";
    return Code::ok;
  }
  const bool is_konect = text.starts_with("% sym") || text.starts_with("% asym") ||
                         text.starts_with("% bip") || text.starts_with("% pos");
  const bool may_be_metis =
      !is_konect && guess_metis(text, sample.is_all, line_end) == MetisGuess::possible;
  const bool may_be_list = is_list(text, sample.is_all, line_end);
  const bool is_named_list =
      named == FileFormat::edge_list || named == FileFormat::weighted_edge_list;
  if (may_be_metis && may_be_list && named == FileFormat::automatic)
    return {
        Code::corrupt,
        "is text that can be METIS's (sizes, then lines of neighbours) or an edge list (an edge "
        "a line): say which with --format metis or --format el"};
  if (may_be_metis && !(may_be_list && is_named_list)) {
    format = FileFormat::metis;
    reason = "its first line has the sizes that METIS's lines of neighbours behind it fit";
    return Code::ok;
  }
  if (named == FileFormat::metis && !may_be_list) {
    format = named;
    reason = "its name says so";
    return Code::ok;
  }
  format = named == FileFormat::weighted_edge_list ? named : FileFormat::edge_list;
  reason = "it is text with an edge a line";
  return Code::ok;
}

// What a file is like as edges of a binary format.
struct BinaryGuess {
  bool fits = false;              // its size
  std::uint64_t largest = 0;      // id in the sample
  bool is_sensible = false;       // the ids, for so many edges
  bool are_thirds_floats = true;  // all third words are whole numbers from 1 on as f32
};

BinaryGuess guess_binary(const FileSample& sample, std::size_t record) {
  BinaryGuess guess;
  guess.fits = sample.bytes % record == 0;
  for (std::size_t i = 0; i + record <= sample.head.size(); i += record) {
    std::uint32_t words[3] = {0, 0, 0};
    std::memcpy(words, sample.head.data() + i, record);
    // The reader refuses the number that no vertex has, with its place.
    for (const std::uint32_t id : {words[0], words[1]})
      if (id != 0xffffffff) guess.largest = std::max<std::uint64_t>(guess.largest, id);
    float value = 0;
    std::memcpy(&value, &words[2], sizeof value);
    if (!(value >= 1 && value < 4294967296.0f && value == std::floor(value)))
      guess.are_thirds_floats = false;
  }
  // A graph may have many vertices without edges, but not nearly all of them.
  constexpr std::uint64_t kFew = std::uint64_t{1} << 24, kMostForAnEdge = 1024;
  guess.is_sensible = guess.largest < std::max(kFew, sample.bytes / record * kMostForAnEdge);
  return guess;
}

std::string not_whole(std::uint64_t bytes, std::size_t record) {
  return std::to_string(bytes) + " bytes are no whole number of edges of " +
         std::to_string(record) + " bytes";
}

Status detect_binary(const FileSample& sample, FileFormat& format, std::string& reason) {
  if (is_binary(sample.named)) {
    format = sample.named;
    reason = "its bytes are no text, and its name says so";
    if (sample.bytes == 0) return Code::ok;
    const std::size_t record = record_bytes(format);
    const BinaryGuess guess = guess_binary(sample, record);
    if (!guess.fits)
      return {Code::corrupt, "truncated, or of another format: " + not_whole(sample.bytes, record) +
                                 "; --format says what it is"};
    if (!guess.is_sensible)
      return {Code::corrupt,
              "as edges of " + std::to_string(record) + " bytes it would have vertices up to " +
                  std::to_string(guess.largest) + " for " + std::to_string(sample.bytes / record) +
                  " edges; if it is that, say --format " + std::string(word_of(format))};
    return Code::ok;
  }
  if (!sample.advice.empty()) return {Code::unsupported, std::string(sample.advice)};
  // A text with a stray byte is no edges.
  if (sample.named != FileFormat::automatic) {
    format = sample.named;
    reason = "its name says so";
    return Code::ok;
  }
  const BinaryGuess wide = guess_binary(sample, 12), narrow = guess_binary(sample, 8);
  const bool known = sample.bytes != 0;
  const bool may_be_wide = !known || (wide.fits && wide.is_sensible);
  const bool may_be_narrow = !known || (narrow.fits && narrow.is_sensible);
  if (!may_be_wide && !may_be_narrow)
    return {Code::corrupt,
            "is neither text nor edges in binary: " +
                (wide.fits || narrow.fits
                     ? "as such it would have vertices up to " +
                           std::to_string(wide.fits ? wide.largest : narrow.largest) + " for " +
                           std::to_string(sample.bytes / (wide.fits ? 12 : 8)) + " edges"
                     : std::to_string(sample.bytes) +
                           " bytes are no whole number of edges of 12 or 8 bytes") +
                "; --format says what it is"};
  if (may_be_wide && may_be_narrow)
    return {Code::corrupt,
            "is binary that can be edges of 12 bytes or of 8: say which with --format paper (or "
            "gemini-weighted) or --format gemini"};
  format = may_be_narrow            ? FileFormat::gemini_binary
           : wide.are_thirds_floats ? FileFormat::gemini_weighted
                                    : FileFormat::paper_binary;
  reason = "its bytes are no text, and its size and ids are those of edges of " +
           std::to_string(record_bytes(format)) + " bytes";
  return Code::ok;
}

}  // namespace

char line_end_of(std::string_view head) noexcept {
  return head.find('\n') == std::string_view::npos && head.find('\r') != std::string_view::npos
             ? '\r'
             : '\n';
}

bool is_binary(FileFormat format) noexcept {
  return format == FileFormat::paper_binary || format == FileFormat::gemini_binary ||
         format == FileFormat::gemini_weighted;
}

std::size_t record_bytes(FileFormat format) noexcept {
  return format == FileFormat::gemini_binary ? 8 : 12;
}

std::string_view word_of(FileFormat format) noexcept {
  switch (format) {
    case FileFormat::automatic:
      return "auto";
    case FileFormat::paper_binary:
      return "paper";
    case FileFormat::gemini_binary:
      return "gemini";
    case FileFormat::gemini_weighted:
      return "gemini-weighted";
    case FileFormat::edge_list:
      return "el";
    case FileFormat::weighted_edge_list:
      return "wel";
    case FileFormat::matrix_market:
      return "mtx";
    case FileFormat::dimacs:
      return "gr";
    case FileFormat::metis:
      return "metis";
  }
  return "";
}

Status detect(const FileSample& sample, FileFormat& format, std::string& reason) {
  if (sample.head.empty()) {
    format = sample.named == FileFormat::automatic ? FileFormat::edge_list : sample.named;
    reason = "it is empty";
    return Code::ok;
  }
  if (const Status status = check_others(sample); !status.ok()) return status;
  return is_text(sample.head) ? detect_text(sample, format, reason)
                              : detect_binary(sample, format, reason);
}

Status check_given(const FileSample& sample, FileFormat format) {
  if (const Status status = check_others(sample); !status.ok()) return status;
  if (!is_binary(format)) return Code::ok;
  if (is_text(sample.head))
    return {
        Code::corrupt,
        "is text, where its format has edges in binary; say with --format which text it is: el, "
        "wel, mtx, gr or metis"};
  const std::size_t record = record_bytes(format);
  if (sample.bytes % record != 0)
    return {Code::corrupt, "truncated, or of another format: " + not_whole(sample.bytes, record)};
  return Code::ok;
}

}  // namespace weft::graph
