// Whatever is read as edges in text: all that is taken are ids that a graph can have, and what is
// read in two pieces, cut at a line's end, is the same as what is read at once. The first byte says
// what the lines mean.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "graph/formats/headers.hpp"

using weft::Status;
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

bool read(std::string_view text, const TextRules& rules, EdgeStore& edges, std::uint64_t* lines) {
  return parse_edges(text, rules, edges, lines).ok();
}

std::vector<std::uint64_t> all(EdgeStore& edges, const TextRules& rules) {
  std::vector<std::uint64_t> list;
  edges.for_each(
      true,
      [&](VertexId u, VertexId v, Weight weight) {
        if (u >= kNoVertex || v >= kNoVertex) std::abort();
        if (rules.matrix && (u >= rules.num_rows || v >= rules.num_rows)) std::abort();
        list.insert(list.end(), {u, v, weight});
      },
      [] {});
  return list;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const unsigned kind = data[0];
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  TextRules rules;
  rules.weighted = (kind & 1) != 0;
  rules.needs_weights = (kind & 2) != 0;
  const bool wants_weights = (kind & 32) != 0;
  TextHeader header;
  if ((kind & 4) != 0) {
    if (!parse_matrix_header(text, wants_weights, rules, header).ok()) return 0;
    if (header.lines < 2) std::abort();
  } else if ((kind & 8) != 0) {
    if (!parse_arcs_header(text, rules, header).ok()) return 0;
    if (header.lines < 1) std::abort();
  } else if ((kind & 16) != 0) {
    if (!parse_list_header(text, {.is_all = true, .wants_weights = wants_weights}, rules, header)
             .ok())
      return 0;
    if ((header.bytes == 0) != (header.lines == 0)) std::abort();
  }
  if (header.bytes > text.size()) std::abort();
  text.remove_prefix(header.bytes);
  EdgeStore whole(true);
  std::uint64_t num_lines = 0;
  if (!read(text, rules, whole, &num_lines)) return 0;

  const std::size_t cut = end_of_lines(text.substr(0, text.size() / 2));
  EdgeStore pieces(true);
  std::uint64_t first_lines = 0, second_lines = 0;
  if (!read(text.substr(0, cut), rules, pieces, &first_lines) ||
      !read(text.substr(cut), rules, pieces, &second_lines))
    std::abort();
  if (first_lines + second_lines != num_lines) std::abort();
  if (all(whole, rules) != all(pieces, rules)) std::abort();
  return 0;
}
