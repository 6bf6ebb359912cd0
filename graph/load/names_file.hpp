#pragma once
// A file of names: a line for each vertex, in the order of their numbers.
#include <string>

#include "weft/graph/names.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Into `names`, which has none. not_found, not_permitted, or corrupt for an empty or second name.
Status read_names(const std::string& path, VertexNames& names);
// There completely or not at all.
Status write_names(const std::string& path, const VertexNames& names);

}  // namespace weft::graph
