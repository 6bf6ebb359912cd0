#pragma once
// Weights in files: any numbers from 0, as those of the engine.
#include <bit>

#include "text.hpp"
#include "weft/graph/types.hpp"

namespace weft::graph {

// What becomes of a file's number.
struct WeightForm {
  bool real = false;  // floats, the nearest ones
  double scale = 1;   // of whole numbers, the nearest ones; of 1: those of the file

  Weight one() const noexcept { return real ? std::bit_cast<Weight>(1.0f) : 1; }
};

// With a scale of 1 what is no whole number is refused. corrupt for negative numbers, those beyond
// the type, and those that would become 0 without being it; the text says what to do.
Status to_weight(double value, const WeightForm& form, Weight& weight);

// The number at `cursor`, a field of `line`, as a weight.
Status parse_weight(text::Cursor& cursor, std::string_view line, const WeightForm& form,
                    Weight& weight);

}  // namespace weft::graph
