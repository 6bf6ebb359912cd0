#include "checkpoint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "graph/common/agree.hpp"
#include "graph/common/output_file.hpp"
#include "graph/load/file_source.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kBlockVertices = std::size_t{1} << 16;
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'C', 'K', 'P', '2'};
constexpr const char* kWhatToDo = ": name another file, or remove this one to begin anew";

std::uint32_t crc_of(const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const unsigned char*>(data), bytes));
}

std::size_t record_bytes_of(std::span<const Parts> columns) {
  std::size_t bytes = 0;
  for (const Parts& column : columns) bytes += column.value_bytes;
  return bytes;
}

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

// Closes itself.
struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

// The error of a file that is of another run.
Status compare(const CheckpointHeader& header, const std::string& run, std::size_t record_bytes,
               const CheckpointKey& key) {
  if (header.vertex_bytes != sizeof(VertexId))
    return {Code::bad_argument, "is of a build with vertex ids of " +
                                    std::to_string(header.vertex_bytes) + " bytes, and this has " +
                                    std::to_string(sizeof(VertexId))};
  if (run != key.run || header.record_bytes != record_bytes)
    return {Code::bad_argument, "is of the run \"" + run.substr(0, 200) + "\", and this is \"" +
                                    key.run.substr(0, 200) + "\""};
  if (header.num_vertices != key.num_vertices || header.num_edges != key.num_edges)
    return {Code::bad_argument, "is of a graph of " + std::to_string(header.num_vertices) +
                                    " vertices and " + std::to_string(header.num_edges) +
                                    " edges, and this has " + std::to_string(key.num_vertices) +
                                    " and " + std::to_string(key.num_edges)};
  if (header.edges_sum != key.edges_sum)
    return {Code::bad_argument, "is of a graph with other edges or weights (their hash is " +
                                    std::to_string(header.edges_sum) + ", and here " +
                                    std::to_string(key.edges_sum) + ")"};
  return Code::ok;
}

// Reads the header and what is said of the run, and compares it with this one.
Status load_head(int file, const CheckpointKey& key, std::size_t record_bytes,
                 CheckpointHeader& header, RunProgress& progress) {
  struct stat found {};
  if (fstat(file, &found) != 0) return {Code::not_permitted, std::strerror(errno)};
  std::byte bytes[sizeof header];
  const std::int64_t got = read_at(file, reinterpret_cast<char*>(bytes), sizeof bytes, 0);
  Status status = parse_checkpoint_header(
      std::span(bytes, static_cast<std::size_t>(std::max<std::int64_t>(got, 0))),
      static_cast<std::uint64_t>(found.st_size), header);
  if (!status.ok()) return status;
  std::string texts(header.blocks_at() - sizeof header, '\0');
  if (read_at(file, texts.data(), texts.size(), sizeof header) !=
          static_cast<std::int64_t>(texts.size()) ||
      crc_of(texts.data(), texts.size()) != header.texts_crc)
    return {Code::corrupt, "damaged behind byte 64"};
  progress = {header.step, header.num_ended, texts.substr(header.run_bytes)};
  return compare(header, texts.substr(0, header.run_bytes), record_bytes, key);
}

// Reads this rank's vertices.
Status load_part(const Graph& graph, const CheckpointKey& key, const std::string& path,
                 std::span<const Parts> columns, RunProgress& progress) {
  // A pipe without a writer must not block this.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0)
    return {Code::bad_argument, path + ": cannot open it: " + std::strerror(errno) +
                                    " (the file must be in a folder of all hosts)"};
  const std::size_t record_bytes = record_bytes_of(columns);
  CheckpointHeader header{};
  const Status status = load_head(file.number, key, record_bytes, header, progress);
  if (!status.ok()) return {status.code(), path + ": " + status.text() + kWhatToDo};
  std::vector<char> block(kBlockVertices * record_bytes + sizeof(std::uint32_t));
  for (std::uint64_t first = graph.first() / kBlockVertices * kBlockVertices; first < graph.last();
       first += kBlockVertices) {
    const std::size_t count = std::min<std::uint64_t>(kBlockVertices, key.num_vertices - first);
    const std::size_t bytes = count * record_bytes;
    const std::uint64_t offset =
        header.blocks_at() + first * record_bytes + first / kBlockVertices * sizeof(std::uint32_t);
    if (read_at(file.number, block.data(), bytes + sizeof(std::uint32_t), offset) !=
        static_cast<std::int64_t>(bytes + sizeof(std::uint32_t)))
      return {Code::corrupt, path + ": cannot read it at byte " + std::to_string(offset)};
    std::uint32_t crc = 0;
    std::memcpy(&crc, block.data() + bytes, sizeof crc);
    if (crc != crc_of(block.data(), bytes))
      return {Code::corrupt, path + ": damaged behind byte " + std::to_string(offset) + kWhatToDo};
    const std::uint64_t begin = std::max<std::uint64_t>(first, graph.first());
    const std::uint64_t end = std::min<std::uint64_t>(first + count, graph.last());
    if (begin >= end) continue;  // a rank without vertices
    const char* from = block.data();
    for (const Parts& column : columns) {
      std::memcpy(
          static_cast<std::byte*>(column.mine) + (begin - graph.first()) * column.value_bytes,
          from + (begin - first) * column.value_bytes, (end - begin) * column.value_bytes);
      from += count * column.value_bytes;
    }
  }
  return Code::ok;
}

Status write_file(const Graph& graph, const CheckpointKey& key, const RunProgress& progress,
                  const std::string& path, std::span<const Parts> columns) {
  const std::size_t record_bytes = record_bytes_of(columns);
  const std::string texts = key.run + progress.found;
  CheckpointHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.vertex_bytes = sizeof(VertexId);
  header.record_bytes = static_cast<std::uint32_t>(record_bytes);
  header.step = progress.step;
  header.num_ended = progress.num_ended;
  header.num_vertices = key.num_vertices;
  header.num_edges = key.num_edges;
  header.edges_sum = key.edges_sum;
  header.run_bytes = static_cast<std::uint32_t>(key.run.size());
  header.found_bytes = static_cast<std::uint32_t>(progress.found.size());
  header.texts_crc = crc_of(texts.data(), texts.size());
  header.crc = crc_of(&header, offsetof(CheckpointHeader, crc));
  OutputFile file(path);
  Status status = file.open();
  if (status.ok()) status = file.write(&header, sizeof header);
  if (status.ok()) status = file.write(texts);
  std::vector<char> block(kBlockVertices * record_bytes);
  for (std::uint64_t first = 0; first < key.num_vertices && status.ok(); first += kBlockVertices) {
    const std::size_t count = std::min<std::uint64_t>(kBlockVertices, key.num_vertices - first);
    char* to = block.data();
    for (const Parts& column : columns) {
      status = gather(graph.job(), column, first, count, to);
      if (!status.ok()) return status;
      to += count * column.value_bytes;
    }
    const std::uint32_t crc = crc_of(block.data(), count * record_bytes);
    status = file.write(block.data(), count * record_bytes);
    if (status.ok()) status = file.write(&crc, sizeof crc);
  }
  if (status.ok()) status = file.sync();
  return status.ok() ? file.commit() : status;
}

}  // namespace

CheckpointKey checkpoint_key(const Graph& graph, std::string run) {
  CheckpointKey key{std::move(run), graph.num_vertices(), graph.num_edges(), 0};
  for (VertexId v = graph.first(); v < graph.last(); ++v)
    for (const auto& [to, weight] : graph.out_edges(v))
      key.edges_sum += mix(mix(mix(v + 1) + to) + weight);
  throw_if(graph.job().all_reduce(key.edges_sum, std::plus<>()));
  return key;
}

Status save_checkpoint(const Graph& graph, const CheckpointKey& key, const RunProgress& progress,
                       const std::string& path, std::span<const Parts> columns) {
  // Rank 0 reads after all have arrived; the data stays until it has read it.
  const Status met = graph.job().barrier();
  if (!met.ok()) return met;
  Status status;
  if (graph.job().rank() == 0) status = write_file(graph, key, progress, path, columns);
  return agree(graph.job(), status);
}

Status load_checkpoint(const Graph& graph, const CheckpointKey& key, const std::string& path,
                       std::span<const Parts> columns, RunProgress& progress) {
  Status status;
  struct stat found {};
  if (graph.job().rank() == 0 && stat(path.c_str(), &found) != 0)
    status = {errno == ENOENT ? Code::not_found : Code::bad_argument,
              path + ": cannot open it: " + std::strerror(errno)};
  status = agree(graph.job(), status);
  if (!status.ok()) return status;
  status = agree(graph.job(), load_part(graph, key, path, columns, progress));
  if (!status.ok()) return status;
  // Ranks that read different files, as on hosts with different folders, cannot go on together.
  struct Read {
    std::uint32_t step, num_ended, crc;
    bool operator==(const Read&) const = default;
  };
  const Read mine{progress.step, progress.num_ended,
                  crc_of(progress.found.data(), progress.found.size())};
  std::vector<Read> all;
  const Status gathered = graph.job().all_gather(mine, all);
  if (!gathered.ok()) return gathered;
  if (std::count(all.begin(), all.end(), mine) != static_cast<std::ptrdiff_t>(all.size()))
    return {Code::corrupt, path + ": is another file on another host"};
  return Code::ok;
}

Status parse_checkpoint_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                               CheckpointHeader& header) {
  CheckpointHeader read{};
  if (bytes.size() < sizeof read) return {Code::corrupt, "not a checkpoint of weft-graph"};
  std::memcpy(&read, bytes.data(), sizeof read);
  if (std::memcmp(read.magic, kMagic, sizeof kMagic) != 0 ||
      read.crc != crc_of(&read, offsetof(CheckpointHeader, crc)))
    return {Code::corrupt, "not a checkpoint of this version of weft-graph, or damaged"};
  const std::uint64_t num_blocks =
      read.num_vertices / kBlockVertices + (read.num_vertices % kBlockVertices != 0 ? 1 : 0);
  // Both divisions keep the sum within 64 bits.
  if (read.record_bytes == 0 || read.num_vertices > file_bytes / read.record_bytes ||
      file_bytes != read.blocks_at() + read.num_vertices * read.record_bytes +
                        num_blocks * sizeof(std::uint32_t))
    return {Code::corrupt, "its size does not match its header: truncated or extended"};
  header = read;
  return Code::ok;
}

}  // namespace weft::graph
