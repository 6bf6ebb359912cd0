#include "base/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace weft {
namespace {

std::string plain(std::string_view text) {
  std::string letters;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

struct Distance {
  std::size_t to_whole, to_beginning;
};

// Levenshtein's distance of `word` to `name`, and to the beginning of `name` that is nearest.
Distance edit_distance(std::string_view word, std::string_view name) {
  std::vector<std::size_t> row(name.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= word.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= name.size(); ++j) {
      const std::size_t substituted = diagonal + (word[i - 1] == name[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return {row.back(), *std::ranges::min_element(row)};
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& names) {
  const std::string given = plain(word);
  if (given.size() < 2) return std::nullopt;
  const std::size_t tolerated = given.size() < 4 ? 1 : given.size() / 3 + 1;
  const std::string* nearest = nullptr;
  std::size_t best = 0;
  for (const std::string& name : names) {
    const std::string letters = plain(name);
    const Distance distance = edit_distance(given, letters);
    // Words of the same length are meant rather than the beginning of a longer one.
    const std::size_t score = std::min(2 * distance.to_whole, 2 * distance.to_beginning + 1);
    if (score > 2 * tolerated || distance.to_beginning >= given.size()) continue;
    if (nearest == nullptr || score < best) {
      nearest = &name;
      best = score;
    }
  }
  return nearest != nullptr ? std::optional(*nearest) : std::nullopt;
}

}  // namespace weft
