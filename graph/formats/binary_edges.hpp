#pragma once
// Edges in binary, little-endian records of 8 or 12 bytes.
#include <cstdint>
#include <string_view>

#include "edge_store.hpp"
#include "weft/graph/graph.hpp"
#include "weft/status.hpp"
#include "weights.hpp"

namespace weft::graph {

// Whole records, the first of which is at byte `at` of the file. corrupt, with the wrong one's
// byte.
Status parse_binary_edges(std::string_view records, FileFormat format, std::uint64_t at,
                          const WeightForm& form, EdgeStore& edges);

}  // namespace weft::graph
