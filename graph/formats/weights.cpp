#include "weights.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace weft::graph {

Status parse_weight(text::Cursor& cursor, std::string_view line, Weight& weight) {
  using text::wrong;
  std::uint64_t whole = 0;
  text::Cursor quick = cursor;
  if (parse_whole(quick, whole) == text::Parsed::number &&
      whole <= std::numeric_limits<Weight>::max()) {
    cursor = quick;
    weight = static_cast<Weight>(whole);
    return Code::ok;
  }
  double value = 0;
  if (cursor.at < cursor.end && *cursor.at == '+') ++cursor.at;
  const auto [stop, error] = std::from_chars(cursor.at, cursor.end, value);
  cursor.at = stop;
  const std::string ways = " (--weights none passes over weights)";
  if (error == std::errc::invalid_argument || !cursor.ends_field())
    return wrong("expected a number as the weight" + ways, line);
  if (value < 0) return wrong("negative weight: shortest paths need weights from 0" + ways, line);
  if (error != std::errc() || !(value <= std::numeric_limits<Weight>::max()) ||
      value != std::floor(value))
    return wrong("weight is not a whole number of 32 bits: scale the weights" + ways, line);
  weight = static_cast<Weight>(value);
  return Code::ok;
}

}  // namespace weft::graph
