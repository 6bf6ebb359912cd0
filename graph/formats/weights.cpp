#include "weights.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace weft::graph {

Status to_weight(double value, const WeightForm& form, Weight& weight) {
  if (value < 0) return {Code::corrupt, "negative weight: shortest paths need weights from 0"};
  if (form.real) {
    const auto real = static_cast<float>(value);
    if (!std::isfinite(real)) return {Code::corrupt, "weight beyond a float (3.4e38)"};
    if (real == 0 && value > 0)
      return {Code::corrupt, "weight above 0 that is 0 as a float (1.4e-45 is the least)"};
    weight = std::bit_cast<Weight>(real + 0.0f);  // of -0, too
    return Code::ok;
  }
  const double scale = form.scale;
  const double scaled = scale == 1 ? value : std::round(value * scale);
  const bool fits = scaled <= std::numeric_limits<Weight>::max();  // not of NaN
  if (scale == 1 && !(fits && value == std::floor(value)))
    return {Code::corrupt,
            "weight is not a whole number of 32 bits: --weights real takes fractions, and "
            "--weight-scale 1000 thousandths as whole numbers"};
  if (!fits) return {Code::corrupt, "weight times --weight-scale is beyond 32 bits: take less"};
  if (scaled == 0 && value > 0)
    return {Code::corrupt, "weight above 0 that --weight-scale rounds to 0: take more"};
  weight = static_cast<Weight>(scaled);
  return Code::ok;
}

Status parse_weight(text::Cursor& cursor, std::string_view line, const WeightForm& form,
                    Weight& weight) {
  std::uint64_t whole = 0;
  text::Cursor quick = cursor;
  if (!form.real && form.scale == 1 && parse_whole(quick, whole) == text::Parsed::number &&
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
    return text::wrong("expected a number as the weight" + ways, line);
  // Beyond a double, or nearer to 0 than one.
  if (error != std::errc()) value = std::numeric_limits<double>::quiet_NaN();
  const Status status = to_weight(value, form, weight);
  return status.ok() ? status : text::wrong(status.text() + ways, line);
}

}  // namespace weft::graph
