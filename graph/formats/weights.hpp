#pragma once
// Weights in text.
#include "text.hpp"
#include "weft/graph/types.hpp"

namespace weft::graph {

// The number at `cursor`, a field of `line`, as a weight. corrupt, with what to do.
Status parse_weight(text::Cursor& cursor, std::string_view line, Weight& weight);

}  // namespace weft::graph
