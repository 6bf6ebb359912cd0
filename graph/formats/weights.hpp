#pragma once
// Weights in files: any numbers from 0, as the whole numbers of the engine.
#include "text.hpp"
#include "weft/graph/types.hpp"

namespace weft::graph {

// `value` times `scale`, rounded to the nearest whole number. With a scale of 1 nothing is rounded:
// what is no whole number is refused. corrupt for negative numbers, those beyond the type, and
// those that would become 0 without being it; the text says what to do.
Status to_weight(double value, double scale, Weight& weight);

// The number at `cursor`, a field of `line`, as a weight.
Status parse_weight(text::Cursor& cursor, std::string_view line, double scale, Weight& weight);

}  // namespace weft::graph
