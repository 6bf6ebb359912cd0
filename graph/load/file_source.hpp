#pragma once
// FileSource: one rank's view of a graph file, and its part of the edges.
//
// Rank 0 inspects the file and sends the others its format; each then opens the same file. Plain
// files are read in parts, one for each thread of each rank. A gzipped one is inflated by rank 0,
// which sends blocks of complete lines to the ranks round robin (read_gzip).
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "edge_store.hpp"
#include "edge_text.hpp"
#include "weft/graph/graph.hpp"
#include "weft/job.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// The findings of rank 0, as plain bytes for the others.
struct FileFacts {
  FileFormat format = FileFormat::by_name;
  bool gzipped = false;
  TextRules rules;
  std::uint64_t header_bytes = 0, header_lines = 0;
  bool is_weight_third = false;  // of an edge list, whose third column is taken for weights
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  // the file's modification time
  std::size_t record_bytes() const noexcept { return format == FileFormat::gemini_binary ? 8 : 12; }
  bool binary() const noexcept {
    return format == FileFormat::paper_binary || format == FileFormat::gemini_binary ||
           format == FileFormat::gemini_weighted;
  }
};

class FileSource {
 public:
  explicit FileSource(std::string path) : path_(std::move(path)) {}
  ~FileSource();
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  // not_found, corrupt, unsupported: each names the file, and what to do. `wants_weights`: those of
  // the file.
  Status inspect(FileFormat format, FileFacts& facts, bool wants_weights = false);
  Status open(const FileFacts& facts);
  // Edges of part `part` of `num_parts`; progress(bytes) after each block.
  Status read_part(std::uint64_t part, std::uint64_t num_parts, EdgeStore& edges,
                   const std::function<void(std::uint64_t)>& progress) const;
  // Collective. All ranks' edges, from rank 0's inflating; the same result everywhere.
  Status read_gzip(transport::Job& job, EdgeStore& edges,
                   const std::function<void(std::uint64_t)>& progress) const;
  // A note to the user about how the file is read; empty: none. After inspect.
  std::string note() const;
  // corrupt if a matrix has more or fewer entries than its header says.
  Status check_entries(std::uint64_t num_read) const;
  // corrupt if the file is not what it was when it was inspected.
  Status check_unchanged() const;

 private:
  Status read_binary(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                     const std::function<void(std::uint64_t)>& progress) const;
  Status read_text(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                   const std::function<void(std::uint64_t)>& progress) const;
  // The file's first bytes, inflated.
  Status read_head(std::string& head) const;
  // True if a file that begins so can be in a binary format.
  Status check_binary(std::string_view head) const;
  Status read_header(const std::string& head, bool wants_weights, FileFacts& facts) const;
  // Names the file and the line, counted from `offset` on.
  Status at_line(const Status& wrong, std::uint64_t offset, std::uint64_t line) const;
  Status unreadable(const char* doing) const;

  std::string path_;
  int descriptor_ = -1;
  FileFacts facts_;
};

// Advice for a file whose name is that of a format that is not read; empty for all others.
std::string_view advice_on(const std::string& path, bool gzipped);

// The format by a file's name; gzipped: the name ends in .gz.
FileFormat format_by_name(std::string path, bool gzipped);

// Reads `bytes` at `offset`; fewer only at the file's end. -1 with errno.
std::int64_t read_at(int descriptor, char* to, std::size_t bytes, std::uint64_t offset);

}  // namespace weft::graph
