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
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'C', 'K', 'P', '1'};

struct Header {
  char magic[8];
  std::uint32_t vertex_bytes, algorithm, step, record_bytes;
  std::uint64_t num_vertices, num_edges, edges_sum, source;
  std::uint32_t crc;  // of the fields before it
  std::uint32_t zero;
};
static_assert(sizeof(Header) == kCheckpointHeaderBytes);

std::uint32_t crc_of(const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const unsigned char*>(data), bytes));
}

std::size_t record_bytes_of(std::span<const Parts> columns) {
  std::size_t bytes = 0;
  for (const Parts& column : columns) bytes += column.value_bytes;
  return bytes;
}

std::uint64_t file_bytes_of(std::uint64_t num_vertices, std::size_t record_bytes) {
  const std::uint64_t num_blocks = (num_vertices + kBlockVertices - 1) / kBlockVertices;
  return sizeof(Header) + num_vertices * record_bytes + num_blocks * sizeof(std::uint32_t);
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

// Reads this rank's vertices.
Status load_part(const Graph& graph, const CheckpointKey& key, const std::string& path,
                 std::span<const Parts> columns, std::uint32_t& step) {
  // A pipe without a writer must not block this.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (file.number < 0 || fstat(file.number, &found) != 0)
    return {errno == ENOENT ? Code::not_found : Code::not_permitted,
            path + ": cannot open it: " + std::strerror(errno)};
  const std::size_t record_bytes = record_bytes_of(columns);
  std::vector<char> block(kBlockVertices * record_bytes + sizeof(std::uint32_t));
  const std::int64_t got = read_at(file.number, block.data(), sizeof(Header), 0);
  const Status status = parse_checkpoint_header(
      std::as_bytes(
          std::span(block.data(), static_cast<std::size_t>(std::max<std::int64_t>(got, 0)))),
      static_cast<std::uint64_t>(found.st_size), record_bytes, key, step);
  if (!status.ok()) return {status.code(), path + ": " + status.text()};
  for (std::uint64_t first = graph.first() / kBlockVertices * kBlockVertices; first < graph.last();
       first += kBlockVertices) {
    const std::size_t count = std::min<std::uint64_t>(kBlockVertices, key.num_vertices - first);
    const std::size_t bytes = count * record_bytes;
    const std::uint64_t offset =
        sizeof(Header) + first * record_bytes + first / kBlockVertices * sizeof(std::uint32_t);
    if (read_at(file.number, block.data(), bytes + sizeof(std::uint32_t), offset) !=
        static_cast<std::int64_t>(bytes + sizeof(std::uint32_t)))
      return {Code::corrupt, path + ": cannot read it at byte " + std::to_string(offset)};
    std::uint32_t crc = 0;
    std::memcpy(&crc, block.data() + bytes, sizeof crc);
    if (crc != crc_of(block.data(), bytes))
      return {Code::corrupt, path + ": damaged behind byte " + std::to_string(offset)};
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

Status write_file(const Graph& graph, const CheckpointKey& key, std::uint32_t step,
                  const std::string& path, std::span<const Parts> columns) {
  const std::size_t record_bytes = record_bytes_of(columns);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.vertex_bytes = sizeof(VertexId);
  header.algorithm = key.algorithm;
  header.step = step;
  header.record_bytes = static_cast<std::uint32_t>(record_bytes);
  header.num_vertices = key.num_vertices;
  header.num_edges = key.num_edges;
  header.edges_sum = key.edges_sum;
  header.source = key.source;
  header.crc = crc_of(&header, offsetof(Header, crc));
  OutputFile file(path);
  Status status = file.open();
  if (status.ok()) status = file.write(&header, sizeof header);
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

CheckpointKey checkpoint_key(const Graph& graph, std::uint32_t algorithm, std::uint64_t source) {
  CheckpointKey key{algorithm, source, graph.num_vertices(), graph.num_edges(), 0};
  for (VertexId v = graph.first(); v < graph.last(); ++v)
    for (const auto& [to, weight] : graph.out_edges(v))
      key.edges_sum += mix(mix(mix(v + 1) + to) + weight);
  throw_if(graph.job().all_reduce(key.edges_sum, std::plus<>()));
  return key;
}

Status save_checkpoint(const Graph& graph, const CheckpointKey& key, std::uint32_t step,
                       const std::string& path, std::span<const Parts> columns) {
  // Rank 0 reads after all have arrived; the data stays until it has read it.
  const Status met = graph.job().barrier();
  if (!met.ok()) return met;
  Status status;
  if (graph.job().rank() == 0) status = write_file(graph, key, step, path, columns);
  return agree(graph.job(), status);
}

Status load_checkpoint(const Graph& graph, const CheckpointKey& key, const std::string& path,
                       std::span<const Parts> columns, std::uint32_t& step) {
  const Status status = agree(graph.job(), load_part(graph, key, path, columns, step));
  if (!status.ok()) return status;
  // Ranks that read different files, as on hosts with different folders, cannot resume together.
  std::vector<std::uint32_t> steps;
  const Status gathered = graph.job().all_gather(step, steps);
  if (!gathered.ok()) return gathered;
  if (std::count(steps.begin(), steps.end(), step) != static_cast<std::ptrdiff_t>(steps.size()))
    return {Code::corrupt, path + ": is another file on another host"};
  return Code::ok;
}

Status parse_checkpoint_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                               std::size_t record_bytes, const CheckpointKey& key,
                               std::uint32_t& step) {
  Header header{};
  if (bytes.size() < sizeof header) return {Code::corrupt, "not a checkpoint of weft-graph"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 ||
      header.crc != crc_of(&header, offsetof(Header, crc)))
    return {Code::corrupt, "not a checkpoint of weft-graph, or damaged"};
  if (header.algorithm != key.algorithm || header.vertex_bytes != sizeof(VertexId) ||
      header.record_bytes != record_bytes)
    return {Code::bad_argument, "a checkpoint of another algorithm"};
  if (header.num_vertices != key.num_vertices || header.num_edges != key.num_edges ||
      header.edges_sum != key.edges_sum)
    return {Code::bad_argument, "a checkpoint of another graph, or of other weights"};
  if (header.source != key.source)
    return {Code::bad_argument, "a checkpoint from another vertex, or of pagerank by other rules"};
  if (file_bytes != file_bytes_of(header.num_vertices, record_bytes))
    return {Code::corrupt, "its size does not match its header: truncated or extended"};
  step = header.step;
  return Code::ok;
}

}  // namespace weft::graph
