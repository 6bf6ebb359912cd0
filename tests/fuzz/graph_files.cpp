// Headers of checkpoints and caches, of files that end anywhere: whatever is taken says where its
// parts are, one behind the other, and they end where the file ends.
#include <cstdlib>
#include <cstring>

#include "graph/engine/checkpoint.hpp"
#include "graph/load/graph_cache.hpp"

using namespace weft::graph;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  // What the file is asked for is what it says, as otherwise hardly any would be looked at.
  CacheHeader said{};
  std::memcpy(&said, data, std::min(size, sizeof said));
  FileFacts facts;
  facts.format = static_cast<FileFormat>(said.format);
  facts.bytes = said.source_bytes;
  facts.changed_ns = said.source_changed_ns;
  LoadOptions options;
  options.undirected = said.undirected != 0;
  options.in_edges = said.in_edges != 0;
  CacheHeader header;
  for (const std::uint64_t file_bytes : {std::uint64_t{size}, said.file_bytes()})
    if (cache_fits(bytes, file_bytes, facts, options, header) &&
        (header.num_vertices == 0 || header.num_vertices > kNoVertex ||
         header.vertices_at(true) < header.degrees_at(true) ||
         header.weights_at(true) < header.vertices_at(true) ||
         header.degrees_at(false) < header.weights_at(true) ||
         header.sums_at() < header.degrees_at(false) || header.file_bytes() < header.sums_at() ||
         header.file_bytes() != file_bytes))
      std::abort();

  constexpr std::uint64_t kFileBytes = 64 + 5 + 800000 + 8;
  CheckpointHeader checkpoint{};
  if (parse_checkpoint_header(bytes, kFileBytes, checkpoint).ok() &&
      (size < 64 || checkpoint.blocks_at() > kFileBytes ||
       checkpoint.num_vertices > kFileBytes / checkpoint.record_bytes))
    std::abort();
  return 0;
}
