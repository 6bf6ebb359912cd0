// A file of any bytes, read as weft-graph reads it: told by its content or by --format, inflated,
// as a table, with names. Whatever is taken has vertices that a graph can have, and read in three
// parts it is the same. The first byte says how it is read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "graph/load/file_source.hpp"

using weft::Status;
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

constexpr FileFormat kFormats[] = {
    FileFormat::automatic,       FileFormat::paper_binary, FileFormat::gemini_binary,
    FileFormat::gemini_weighted, FileFormat::edge_list,    FileFormat::weighted_edge_list,
    FileFormat::matrix_market,   FileFormat::dimacs,       FileFormat::metis};
constexpr const char* kColumns[] = {"", "1,3,2", "from,to,weight", "2,1"};

// A file in memory, which has a name as others do.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("graph", MFD_CLOEXEC)) {
    if (descriptor_ < 0) std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void hold(const uint8_t* data, std::size_t size) {
    if (ftruncate(descriptor_, 0) != 0 ||
        (size > 0 && pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)))
      std::abort();
  }

 private:
  int descriptor_;
};

void append(EdgeStore& edges, std::uint64_t num_rows, std::vector<std::uint64_t>& list) {
  edges.for_each(
      true,
      [&](VertexId u, VertexId v, Weight weight) {
        if (u >= kNoVertex || v >= kNoVertex) std::abort();
        if (num_rows > 0 && (u >= num_rows || v >= num_rows)) std::abort();
        list.insert(list.end(), {u, v, weight});
      },
      [] {});
}

Status read(FileSource& source, const FileFacts& facts, unsigned parts,
            std::vector<std::uint64_t>& list) {
  const FileSource::Progress silent = [](std::uint64_t) {};
  Status status;
  if (facts.streamed())
    return source.read_blocks(
        [&](const FileSource::Block& block) {
          EdgeStore edges(true);
          const Status parsed = source.parse_block(block, edges);
          append(edges, facts.num_rows(), list);
          return parsed;
        },
        silent);
  for (unsigned part = 0; part < parts && status.ok(); ++part) {
    EdgeStore edges(true);
    status = source.read_part(part, parts, edges, silent);
    append(edges, facts.num_rows(), list);
  }
  return status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static MemoryFile file;
  const unsigned way = data[0];
  file.hold(data + 1, size - 1);
  VertexNames names, again;
  ReadOptions options;
  options.format = kFormats[(way & 15) % std::size(kFormats)];
  options.wants_weights = (way & 16) != 0;
  options.columns = kColumns[way >> 6];
  options.weight_form = {.real = (way >> 6) == 2, .scale = (way >> 6) == 3 ? 10.0 : 1.0};
  std::vector<std::uint64_t> whole, in_parts;
  FileFacts facts;
  {
    FileSource source(file.path());
    if ((way & 32) != 0) options.names = &names;
    if (!source.inspect(options, facts).ok()) return 0;
    if (!source.open(facts).ok()) std::abort();
    if (!read(source, facts, 1, whole).ok()) return 0;
    for (std::size_t i = 0; i < whole.size() && (way & 32) != 0; i += 3)
      if (whole[i] >= names.size() || whole[i + 1] >= names.size()) std::abort();
  }
  FileSource source(file.path());
  if ((way & 32) != 0) options.names = &again;
  FileFacts same;
  if (!source.inspect(options, same).ok() || !read(source, same, 3, in_parts).ok()) std::abort();
  if (whole != in_parts) std::abort();
  return 0;
}
