// Streamed files: FileSource's blocks.
#include <algorithm>
#include <cstring>
#include <vector>

#include "file_source.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kStreamBytes = std::size_t{1} << 18;

}  // namespace

Status FileSource::start_stream() {
  if (facts_.is_pipe) {
    if (stream_ != nullptr) return Code::ok;
    return {Code::bad_argument,
            shown_ + ": can be read once, and two passes are needed; give a file"};
  }
  return about(inflate(facts_.compression, stream_of_file(descriptor_), stream_));
}

std::size_t FileSource::whole_part(std::string_view text) const {
  if (facts_.binary()) return text.size() - text.size() % facts_.record_bytes();
  if (facts_.format != FileFormat::metis) return end_of_lines(text, facts_.rules.line_end);
  // Between two fields, as a line may be of any length.
  const std::size_t last = text.find_last_of(" \t\r\n");
  return last == std::string_view::npos ? 0 : last + 1;
}

Status FileSource::read_blocks(const std::function<Status(const Block&)>& visit,
                               const Progress& progress) {
  Status status = start_stream();
  if (!status.ok()) return status;
  const std::unique_ptr<ByteStream> stream = std::move(stream_);
  if (facts_.format == FileFormat::metis)
    metis_reader_ = std::make_unique<MetisReader>(facts_.metis);
  std::vector<char> block(kStreamBytes + kMaxLineBytes);
  std::size_t got = 0;
  for (std::uint64_t left = facts_.header_bytes; left > 0; left -= got) {
    const std::size_t bytes = std::min<std::uint64_t>(left, kStreamBytes);
    status = stream->read(block.data(), bytes, &got);
    if (!status.ok()) return about(status);
    if (got == 0) return {Code::corrupt, shown_ + ": changed while it was read: it is shorter now"};
  }
  std::uint64_t at = facts_.binary() ? 0 : facts_.header_lines, reported = 0;
  for (std::size_t kept = 0;;) {
    status = stream->read(block.data() + kept, kStreamBytes, &got);
    if (!status.ok()) return about(status);
    const bool is_last = got < kStreamBytes;
    const std::string_view read(block.data(), kept + got);
    std::size_t stop = whole_part(read);
    if (is_last && facts_.binary() && stop < read.size())
      return {Code::corrupt,
              shown_ + ": truncated: it ends within the edge at byte " + std::to_string(at + stop)};
    // The parser refuses a line or field that is longer.
    if (is_last || read.size() - stop > kMaxLineBytes) stop = read.size();
    status = visit({at, read.substr(0, stop), is_last});
    if (!status.ok()) return status;
    at += facts_.binary() ? stop
                          : static_cast<std::uint64_t>(std::count(block.data(), block.data() + stop,
                                                                  facts_.rules.line_end));
    kept = read.size() - stop;
    std::memmove(block.data(), block.data() + stop, kept);
    progress(stream->consumed() - reported);
    reported = stream->consumed();
    if (is_last) return Code::ok;
  }
}

Status FileSource::parse_block(const Block& block, EdgeStore& edges) {
  if (facts_.binary()) return parse_records(block.at, block.content, edges);
  Status status;
  std::uint64_t line = 0;
  if (facts_.format == FileFormat::metis) {
    status = metis_reader_->read(block.content, block.is_last, edges);
    line = facts_.header_lines + metis_reader_->lines();
  } else {
    status = parse_edges(block.content, facts_.rules, edges, &line, names_);
    line += block.at;
  }
  if (status.ok()) return status;
  return {status.code(), shown_ + ":" + std::to_string(line) + ": " + status.text()};
}

}  // namespace weft::graph
