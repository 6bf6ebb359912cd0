#pragma once
// GraphCache: a graph's rows in a file beside it, GRAPH.weft-cache, from which ranks read their own
// parts alone, however many they are, instead of parsing and sending edges.
//
// A header of 64 bytes; the edges out of each vertex (u32); their other ends, row by row; their
// weights, if there are any; the same for edges in, if there are any; and the CRC-32 of each block
// of 256 KiB (the last is shorter) of all that stands between the header and these sums. Other ends
// begin at a multiple of their size, so that they can be used where the file is mapped.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "file_source.hpp"
#include "graph/common/gather.hpp"
#include "graph/common/output_file.hpp"
#include "weft/graph/graph.hpp"
#include "weft/status.hpp"

namespace weft::graph {

inline constexpr std::uint64_t kMostCached = std::uint64_t{1} << 56;  // vertices or edges
inline constexpr std::uint64_t kCacheBlockBytes = std::uint64_t{1} << 18;

struct CacheHeader {
  char magic[8];
  std::uint32_t vertex_bytes, weights;
  std::uint16_t undirected, in_edges;
  std::uint32_t format;        // that the graph's file was read in
  std::uint64_t source_bytes;  // of the graph's file, and when it was changed
  std::int64_t source_changed_ns;
  std::uint64_t num_vertices, num_edges;
  std::uint32_t crc;  // of the fields before it
  std::uint32_t zero;

  std::uint64_t weight_bytes() const noexcept {
    return static_cast<Weights>(weights) == Weights::none ? 0 : num_edges * sizeof(Weight);
  }
  // Offsets of the degrees, other ends and weights of the rows.
  std::uint64_t degrees_at(bool out) const noexcept {
    return out ? sizeof(CacheHeader) : weights_at(true) + weight_bytes();
  }
  std::uint64_t vertices_at(bool out) const noexcept {
    const std::uint64_t end = degrees_at(out) + num_vertices * 4;
    return (end + sizeof(VertexId) - 1) / sizeof(VertexId) * sizeof(VertexId);
  }
  std::uint64_t weights_at(bool out) const noexcept {
    return vertices_at(out) + num_edges * sizeof(VertexId);
  }
  std::uint64_t sums_at() const noexcept {
    return in_edges != 0 ? weights_at(false) + weight_bytes() : degrees_at(false);
  }
  std::uint64_t file_bytes() const noexcept {
    const std::uint64_t body = sums_at() - sizeof(CacheHeader);
    return sums_at() + (body / kCacheBlockBytes + (body % kCacheBlockBytes != 0 ? 1 : 0)) * 4;
  }
};
static_assert(sizeof(CacheHeader) == 64);

// True if these first bytes of a file of `file_bytes` bytes are the header of a cache for the file
// that `facts` describes, with the parts that `options` need.
bool cache_fits(std::span<const std::byte> bytes, std::uint64_t file_bytes, const FileFacts& facts,
                const LoadOptions& options, CacheHeader& header);

// The blocks that bytes [begin, end) of the file are in: the first, and one behind the last.
struct CacheBlocks {
  std::uint64_t first, last;
};
constexpr CacheBlocks cache_blocks(std::uint64_t begin, std::uint64_t end) noexcept {
  if (begin >= end) return {0, 0};
  return {(begin - sizeof(CacheHeader)) / kCacheBlockBytes,
          (end - 1 - sizeof(CacheHeader)) / kCacheBlockBytes + 1};
}

// Copies the part of the bytes [begin, end) of the file that is in `block` to `to`, whose first
// byte is byte `begin`. `spare` is reusable memory. False: the block cannot be read or its CRC is
// wrong.
bool read_cache_block(int descriptor, const CacheHeader& header, std::uint64_t block,
                      std::uint64_t begin, std::uint64_t end, char* to, std::vector<char>& spare);

// Beside the graph's file or folder.
inline std::string cache_path(std::string graph) {
  while (graph.size() > 1 && graph.back() == '/') graph.pop_back();
  return graph + ".weft-cache";
}

// The header of a cache for the file that `facts` describes, with the parts that `options` need.
CacheHeader cache_header(const FileFacts& facts, const LoadOptions& options,
                         std::uint64_t num_vertices, std::uint64_t num_edges);

// Rank 0's way to write a cache, from its beginning to its end, with a CRC for each block.
class CacheWriter {
 public:
  // The first thing that fails is what status and commit return; what is written behind it is
  // passed over.
  CacheWriter(const std::string& path, const CacheHeader& header);
  const Status& status() const noexcept { return status_; }

  void write(const void* data, std::size_t bytes);
  // An array that is distributed over the ranks, which do not change it meanwhile.
  void write(transport::Job& job, const Parts& parts);
  // Between the degrees and the other ends of the rows.
  void begin_vertices(bool out);
  // The next weights of rows, which lie behind all other ends. These may be written before and
  // after; end_weights goes on behind the weights.
  void write_weights(transport::Job& job, const Parts& parts, bool out);
  void end_weights();
  // Completes the file and gives it its name; without it, none is left.
  Status commit();

 private:
  template <class Visit>
  void for_pieces(transport::Job& job, const Parts& parts, Visit&& visit);

  // The CRCs of blocks that are written in order.
  struct Blocks {
    void add(const std::byte* from, std::size_t bytes);
    void end_block();
    std::uint32_t crc = 0;
    std::size_t in_block = 0;
    std::vector<std::uint32_t> sums;
  };
  // Weights, behind a place that the rest has not come to. They may begin in the block in which the
  // other ends end, so that their first bytes wait for those.
  struct WeightStream {
    std::uint64_t position = 0;  // 0: none was written
    std::size_t num_waiting = 0;
    std::vector<std::byte> waiting;
    Blocks blocks;
  };

  CacheHeader header_;
  OutputFile file_;
  Status status_;
  std::uint64_t position_ = sizeof(CacheHeader);
  Blocks blocks_;
  WeightStream weights_;
};

// Collective, the same result everywhere. Rank 0 writes; after an error the file is what it was.
Status write_cache(const Graph& graph, const FileFacts& facts, const LoadOptions& options,
                   const std::string& path);

}  // namespace weft::graph
