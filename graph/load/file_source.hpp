#pragma once
// FileSource: one rank's view of a graph file, and its part of the edges.
//
// Rank 0 inspects the file and sends the others what it found; each then opens the same file. Plain
// files are read in parts, one for each thread of each rank. What must be read from its beginning
// is read by rank 0, block by block (read_blocks): what is compressed, standard input, and formats
// in which a line's meaning depends on those before it.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "byte_stream.hpp"
#include "graph/formats/edge_text.hpp"
#include "graph/formats/metis.hpp"
#include "weft/graph/graph.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// How a file is to be read.
struct ReadOptions {
  FileFormat format = FileFormat::automatic;
  bool wants_weights = false;  // those of the file
  std::string columns = {};    // of a table: "source,destination[,weight]"
  WeightForm weight_form = {};
  VertexNames* names = nullptr;  // numbers the vertices, whose ids may be any words
};

// The findings of rank 0, as plain bytes for the others.
struct FileFacts {
  FileFormat format = FileFormat::automatic;
  Compression compression = Compression::none;
  bool is_pipe = false;  // standard input
  TextRules rules;
  MetisRules metis;
  std::uint64_t header_bytes = 0, header_lines = 0;
  bool is_weight_third = false;  // of an edge list, whose third column is taken for weights
  bool has_no_weights = false;   // of a table, where weights are wanted
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  // the file's modification time
  std::size_t record_bytes() const noexcept;
  bool binary() const noexcept;
  // Blocks mean something only one after the other.
  bool in_order() const noexcept { return format == FileFormat::metis || rules.named; }
  bool streamed() const noexcept {
    return compression != Compression::none || is_pipe || in_order();
  }
  // The vertices and entries that the file says it has; 0: it does not.
  std::uint64_t num_rows() const noexcept {
    return format == FileFormat::metis ? metis.num_rows : rules.num_rows;
  }
};

class FileSource {
 public:
  using Progress = std::function<void(std::uint64_t bytes)>;
  // "-": standard input.
  explicit FileSource(std::string path);
  ~FileSource();
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  // not_found, corrupt, unsupported: each names the file, and what to do.
  Status inspect(const ReadOptions& options, FileFacts& facts);
  Status open(const FileFacts& facts);
  // Edges of part `part` of `num_parts` of a file that is not streamed; progress after each block.
  Status read_part(std::uint64_t part, std::uint64_t num_parts, EdgeStore& edges,
                   const Progress& progress) const;

  // A part of a stream: whole lines, records or fields.
  struct Block {
    std::uint64_t at;  // lines before it, or bytes in binary
    std::string_view content;
    bool is_last;
  };
  // On rank 0: visits all blocks of a streamed file in order, until one returns an error.
  Status read_blocks(const std::function<Status(const Block&)>& visit, const Progress& progress);
  // The edges of a block. On any rank; on rank 0, for all blocks, if the file is in_order().
  Status parse_block(const Block& block, EdgeStore& edges);

  // A note to the user about how the file is read; empty: none. After inspect.
  std::string note() const;
  // corrupt if there are more or fewer entries than the file's header says.
  Status check_entries(std::uint64_t num_read) const;
  // corrupt if the file is not what it was when it was inspected.
  Status check_unchanged() const;

 private:
  Status read_binary(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                     const Progress& progress) const;
  Status read_text(std::uint64_t begin, std::uint64_t end, EdgeStore& edges,
                   const Progress& progress) const;
  Status open_input(FileFacts& facts);
  // The file's first bytes, inflated, and how it is compressed.
  Status read_head(std::string& head, FileFacts& facts);
  Status read_header(const std::string& head, const ReadOptions& options, FileFacts& facts) const;
  Status start_stream();
  // The length of the beginning of `text` that can be a block.
  std::size_t whole_part(std::string_view text) const;
  Status parse_records(std::uint64_t at, std::string_view records, EdgeStore& edges) const;
  // Names the file and the line, counted from `offset` on.
  Status at_line(const Status& wrong, std::uint64_t offset, std::uint64_t line) const;
  Status about(const Status& wrong) const;  // names the file
  Status unreadable(const char* doing) const;

  std::string path_, shown_;
  int descriptor_ = -1;
  FileFacts facts_;
  std::string reading_;                 // what the file is read as, if its name says something else
  std::unique_ptr<ByteStream> stream_;  // from the beginning; of standard input since inspect
  std::unique_ptr<MetisReader> metis_reader_;
  VertexNames* names_ = nullptr;
};

// Advice for a file whose name is that of a format that is not read; empty for all others.
std::string_view advice_on(std::string path);

// The format by a file's name, also behind .gz; automatic: it says none.
FileFormat format_by_name(std::string path);

// Reads `bytes` at `offset`; fewer only at the file's end. -1 with errno.
std::int64_t read_at(int descriptor, char* to, std::size_t bytes, std::uint64_t offset);

}  // namespace weft::graph
