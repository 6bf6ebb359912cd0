#include "binary_edges.hpp"

#include <cmath>
#include <cstring>
#include <string>

#include "detect.hpp"

namespace weft::graph {

Status parse_binary_edges(std::string_view records, FileFormat format, std::uint64_t at,
                          EdgeStore& edges) {
  const std::size_t record = record_bytes(format);
  const bool has_floats = format == FileFormat::gemini_weighted && edges.weighted();
  for (std::size_t i = 0; i + record <= records.size(); i += record) {
    std::uint32_t words[3] = {0, 0, 1};
    std::memcpy(words, records.data() + i, record);
    if (words[0] == 0xffffffff || words[1] == 0xffffffff)
      return {Code::corrupt, "the edge at byte " + std::to_string(at + i) +
                                 " has vertex 4294967295, which no graph has"};
    if (has_floats) {
      float value = 0;
      std::memcpy(&value, &words[2], sizeof value);
      if (!(value >= 0) || value >= 4294967296.0f || value != std::floor(value))
        return {Code::corrupt, "the edge at byte " + std::to_string(at + i) + " has the weight " +
                                   std::to_string(value) +
                                   (value < 0 ? ", negative: shortest paths need weights from 0"
                                              : ", not a whole number of 32 bits")};
      words[2] = static_cast<std::uint32_t>(value);
    }
    edges.add(words[0], words[1], words[2]);
  }
  return Code::ok;
}

}  // namespace weft::graph
