#include "binary_edges.hpp"

#include <cstring>
#include <string>

#include "detect.hpp"

namespace weft::graph {

Status parse_binary_edges(std::string_view records, FileFormat format, std::uint64_t at,
                          const WeightForm& form, EdgeStore& edges) {
  const std::size_t record = record_bytes(format);
  const bool is_changed = edges.weighted() && format != FileFormat::gemini_binary &&
                          (format == FileFormat::gemini_weighted || form.real || form.scale != 1);
  for (std::size_t i = 0; i + record <= records.size(); i += record) {
    std::uint32_t words[3] = {0, 0, form.one()};
    std::memcpy(words, records.data() + i, record);
    if (words[0] == 0xffffffff || words[1] == 0xffffffff)
      return {Code::corrupt, "the edge at byte " + std::to_string(at + i) +
                                 " has vertex 4294967295, which no graph has"};
    if (is_changed) {
      float single = 0;
      std::memcpy(&single, &words[2], sizeof single);
      const double value = format == FileFormat::gemini_weighted ? double{single} : words[2];
      if (const Status status = to_weight(value, form, words[2]); !status.ok())
        return {Code::corrupt, "the edge at byte " + std::to_string(at + i) + " has the weight " +
                                   std::to_string(value) + ": " + status.text()};
    }
    edges.add(words[0], words[1], words[2]);
  }
  return Code::ok;
}

}  // namespace weft::graph
