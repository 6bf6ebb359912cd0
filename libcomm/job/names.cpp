// A file of its own, so that weftrun does not link what boards need.
#include <fmt/core.h>

#include <algorithm>

#include "job/boards.hpp"

namespace weft {

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kMostNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

}  // namespace weft
