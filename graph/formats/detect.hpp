#pragma once
// What a file is, told by its content: text or binary, and of which format. Its name decides only
// where the content allows several readings.
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/graph/graph.hpp"
#include "weft/status.hpp"

namespace weft::graph {

struct FileSample {
  std::string_view head = {};                // its first bytes, inflated
  bool is_all = false;                       // there are no more
  std::uint64_t bytes = 0;                   // of the whole, inflated; 0: not known
  FileFormat named = FileFormat::automatic;  // what its name says; automatic: nothing
  std::string_view advice = {};              // on a name whose format is not read
};

// The format and why, a part of a sentence: "its first line is a MatrixMarket header". corrupt or
// unsupported for a format that is not read, and for content with several readings, which are named
// with the --format to give.
Status detect(const FileSample& sample, FileFormat& format, std::string& reason);

// The same for a format that the user gives: binary formats must not be of bytes that are text, or
// another format's that is not read.
Status check_given(const FileSample& sample, FileFormat format);

// '\r' if lines end in that alone.
char line_end_of(std::string_view head) noexcept;

bool is_binary(FileFormat format) noexcept;
std::size_t record_bytes(FileFormat format) noexcept;  // of a binary format
// The word of --format.
std::string_view word_of(FileFormat format) noexcept;

// Bytes that begin a text in UTF-8 and stand for nothing.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace weft::graph
