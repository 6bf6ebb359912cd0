#include "graph_cache.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr char kCacheMagic[8] = {'W', 'E', 'F', 'T', 'G', 'R', 'C', '4'};

std::uint32_t add_crc(std::uint32_t crc, const void* bytes, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const unsigned char*>(bytes), size));
}
std::uint32_t crc_of(const CacheHeader& header) {
  return add_crc(0, &header, offsetof(CacheHeader, crc));
}

// The rows of all ranks, for rank 0 to read.
struct SharedRows {
  SharedRows(const Graph& graph, const Rows& rows) : degrees(graph) {
    for (VertexId v = graph.first(); v < graph.last(); ++v)
      degrees[v] = static_cast<std::uint32_t>(rows.degree(v - graph.first()));
    transport::Job& job = graph.job();
    std::vector<std::uint64_t> counts;
    throw_if(job.all_gather(std::uint64_t{rows.vertices.size()}, counts));
    std::vector<std::uint64_t> begins{0};
    for (const std::uint64_t count : counts) begins.push_back(begins.back() + count);
    if (job.size() > 1) {
      throw_if(job.all_gather(rows.vertices.remote(), remote_vertices));
      throw_if(job.all_gather(rows.weights.remote(), remote_weights));
    }
    vertices = {begins, sizeof(VertexId), rows.vertices.data(), &remote_vertices};
    weights = {begins, sizeof(Weight), rows.weights.data(), &remote_weights};
  }
  SharedRows(const SharedRows&) = delete;
  SharedRows& operator=(const SharedRows&) = delete;

  void write(const Graph& graph, bool weighted, CacheWriter& file, bool out) const {
    file.write(graph.job(), parts_of(graph, degrees));
    file.begin_vertices(out);
    file.write(graph.job(), vertices);
    if (weighted) file.write(graph.job(), weights);
  }

  OwnedArray<std::uint32_t> degrees;
  std::vector<transport::RemoteMemory> remote_vertices, remote_weights;
  Parts vertices, weights;
};

}  // namespace

bool cache_fits(std::span<const std::byte> bytes, std::uint64_t file_bytes, const FileFacts& facts,
                const LoadOptions& options, CacheHeader& header) {
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool needs_in = options.in_edges && !options.undirected;
  return std::memcmp(header.magic, kCacheMagic, sizeof kCacheMagic) == 0 &&
         header.crc == crc_of(header) && header.vertex_bytes == sizeof(VertexId) &&
         header.format == static_cast<std::uint32_t>(facts.format) &&
         header.source_bytes == facts.bytes && header.source_changed_ns == facts.changed_ns &&
         (header.undirected != 0) == options.undirected && (!needs_in || header.in_edges != 0) &&
         (options.weights == Weights::none ||
          header.weights == static_cast<std::uint32_t>(options.weights)) &&
         // With this limit no sum of parts exceeds 64 bits.
         header.num_vertices <= kMostCached && header.num_edges <= kMostCached &&
         header.num_vertices > 0 && header.num_vertices <= kNoVertex &&
         header.num_vertices <= file_bytes / 4 &&
         header.num_edges <= file_bytes / sizeof(VertexId) && header.file_bytes() == file_bytes;
}

bool read_cache_block(int descriptor, const CacheHeader& header, std::uint64_t block,
                      std::uint64_t begin, std::uint64_t end, char* to, std::vector<char>& spare) {
  const std::uint64_t first = sizeof(CacheHeader) + block * kCacheBlockBytes;
  const std::uint64_t last = std::min(first + kCacheBlockBytes, header.sums_at());
  const std::size_t bytes = last - first;
  const bool is_whole = begin <= first && last <= end;
  if (!is_whole) spare.resize(bytes);
  char* const read = is_whole ? to + (first - begin) : spare.data();
  std::uint32_t sum = 0;
  if (read_at(descriptor, read, bytes, first) != static_cast<std::int64_t>(bytes) ||
      read_at(descriptor, reinterpret_cast<char*>(&sum), sizeof sum,
              header.sums_at() + block * sizeof sum) != sizeof sum ||
      sum != add_crc(0, read, bytes))
    return false;
  if (is_whole) return true;
  const std::uint64_t from = std::max(begin, first), until = std::min(end, last);
  std::memcpy(to + (from - begin), read + (from - first), until - from);
  return true;
}

CacheHeader cache_header(const FileFacts& facts, const LoadOptions& options,
                         std::uint64_t num_vertices, std::uint64_t num_edges) {
  CacheHeader header{};
  std::memcpy(header.magic, kCacheMagic, sizeof kCacheMagic);
  header.vertex_bytes = sizeof(VertexId);
  header.weights = static_cast<std::uint32_t>(options.weights);
  header.undirected = options.undirected ? 1 : 0;
  header.in_edges = options.in_edges && !options.undirected ? 1 : 0;
  header.format = static_cast<std::uint32_t>(facts.format);
  header.source_bytes = facts.bytes;
  header.source_changed_ns = facts.changed_ns;
  header.num_vertices = num_vertices;
  header.num_edges = num_edges;
  header.crc = crc_of(header);
  return header;
}

CacheWriter::CacheWriter(const std::string& path, const CacheHeader& header)
    : header_(header), file_(path) {
  status_ = file_.open();
  if (status_.ok()) status_ = file_.write(&header, sizeof header);
}

void CacheWriter::Blocks::add(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t taken = std::min<std::size_t>(bytes - at, kCacheBlockBytes - in_block);
    crc = add_crc(crc, from + at, taken);
    at += taken;
    in_block += taken;
    if (in_block == kCacheBlockBytes) end_block();
  }
}

void CacheWriter::Blocks::end_block() {
  sums.push_back(crc);
  crc = 0;
  in_block = 0;
}

void CacheWriter::write(const void* data, std::size_t bytes) {
  blocks_.add(static_cast<const std::byte*>(data), bytes);
  position_ += bytes;
  if (status_.ok()) status_ = file_.write(data, bytes);
}

void CacheWriter::write(transport::Job& job, const Parts& parts) {
  for_pieces(job, parts, [&](const std::byte* piece, std::size_t bytes) { write(piece, bytes); });
}

// visit(bytes) of all ranks' values, in order.
template <class Visit>
void CacheWriter::for_pieces(transport::Job& job, const Parts& parts, Visit&& visit) {
  std::vector<std::byte> piece(kPieceBytes);
  const std::uint64_t end = parts.begins.back();
  for (std::uint64_t first = 0; first < end && status_.ok();) {
    const std::size_t count = std::min<std::uint64_t>(end - first, kPieceBytes / parts.value_bytes);
    status_ = gather(job, parts, first, count, piece.data());
    visit(piece.data(), count * parts.value_bytes);
    first += count;
  }
}

void CacheWriter::begin_vertices(bool out) {
  const char zeros[sizeof(VertexId)] = {};
  write(zeros, header_.vertices_at(out) - position_);
}

void CacheWriter::write_weights(transport::Job& job, const Parts& parts, bool out) {
  if (weights_.position == 0) {
    weights_.position = header_.weights_at(out);
    const std::size_t before = (weights_.position - sizeof(CacheHeader)) % kCacheBlockBytes;
    weights_.num_waiting = before == 0 ? 0 : kCacheBlockBytes - before;
  }
  for_pieces(job, parts, [&](const std::byte* piece, std::size_t bytes) {
    if (status_.ok()) status_ = file_.write_at(weights_.position, piece, bytes);
    weights_.position += bytes;
    std::vector<std::byte>& waiting = weights_.waiting;
    const std::size_t first = std::min(bytes, weights_.num_waiting - waiting.size());
    waiting.insert(waiting.end(), piece, piece + first);
    weights_.blocks.add(piece + first, bytes - first);
  });
}

void CacheWriter::end_weights() {
  if (weights_.position == 0) return;
  blocks_.add(weights_.waiting.data(), weights_.waiting.size());
  // What did not wait begins a block.
  Blocks& more = weights_.blocks;
  blocks_.sums.insert(blocks_.sums.end(), more.sums.begin(), more.sums.end());
  if (more.in_block > 0) {
    blocks_.crc = more.crc;
    blocks_.in_block = more.in_block;
  }
  position_ = weights_.position;
  if (status_.ok()) status_ = file_.seek(position_);
  weights_ = {};
}

Status CacheWriter::commit() {
  if (blocks_.in_block > 0) blocks_.end_block();
  const std::vector<std::uint32_t>& sums = blocks_.sums;
  if (status_.ok()) status_ = file_.write(sums.data(), sums.size() * sizeof(std::uint32_t));
  if (status_.ok()) status_ = file_.commit();
  return status_;
}

Status write_cache(const Graph& graph, const FileFacts& facts, const LoadOptions& options,
                   const std::string& path) {
  const CacheHeader header = cache_header(facts, options, graph.num_vertices(), graph.num_edges());
  const bool weighted = options.weights != Weights::none;
  const SharedRows out(graph, graph.out());
  std::unique_ptr<SharedRows> in;
  if (header.in_edges != 0) in = std::make_unique<SharedRows>(graph, graph.in());
  const Status met = graph.job().barrier();
  if (!met.ok()) return met;
  Status status;
  if (graph.job().rank() == 0) {
    CacheWriter file(path, header);
    out.write(graph, weighted, file, true);
    if (in != nullptr) in->write(graph, weighted, file, false);
    status = file.commit();
  }
  return agree(graph.job(), status);
}

}  // namespace weft::graph
