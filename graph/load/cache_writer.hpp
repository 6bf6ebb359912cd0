#pragma once
// CacheWriter: rank 0's way to write a cache of rows, from its beginning to its end, with a CRC for
// each block.
#include <cstdint>
#include <string>
#include <vector>

#include "graph/common/gather.hpp"
#include "graph/common/output_file.hpp"
#include "graph_cache.hpp"
#include "weft/status.hpp"

namespace weft::graph {

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
  // Completes the file and gives it its name; without it, none is left.
  Status commit();

 private:
  void end_block();

  CacheHeader header_;
  OutputFile file_;
  Status status_;
  std::uint64_t position_ = sizeof(CacheHeader);
  std::uint32_t crc_ = 0;
  std::size_t in_block_ = 0;
  std::vector<std::uint32_t> sums_;
};

}  // namespace weft::graph
