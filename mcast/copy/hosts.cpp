#include "mcast/copy/hosts.hpp"

#include <fmt/core.h>

#include <charconv>

namespace weft::copy {

namespace {

constexpr std::size_t kMaxHosts = 100'000;

bool to_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && text.size() <= 9;
}

// Splits at commas outside of brackets.
bool split(std::string_view text, std::vector<std::string_view>& parts) {
  bool is_inside = false;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || (text[at] == ',' && !is_inside)) {
      if (at > start) parts.push_back(text.substr(start, at - start));
      start = at + 1;
    } else if (text[at] == '[' || text[at] == ']') {
      if (is_inside == (text[at] == '[')) return false;
      is_inside = !is_inside;
    }
  }
  return !is_inside;
}

bool expand(const std::string& before, std::string_view text, std::vector<std::string>& hosts) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) {
    hosts.push_back(before + std::string(text));
    return hosts.size() <= kMaxHosts;
  }
  const std::size_t close = text.find(']');
  std::vector<std::string_view> ranges;
  split(text.substr(open + 1, close - open - 1), ranges);
  if (ranges.empty()) return false;
  for (const std::string_view range : ranges) {
    const std::string_view low = range.substr(0, range.find('-'));
    const std::string_view high = low.size() == range.size() ? low : range.substr(low.size() + 1);
    std::uint64_t first = 0, last = 0;
    if (!to_number(low, first) || !to_number(high, last) || first > last) return false;
    for (std::uint64_t number = first; number <= last; ++number)
      if (!expand(before + std::string(text.substr(0, open)) +
                      fmt::format("{:0{}}", number, low.size()),
                  text.substr(close + 1), hosts))
        return false;
  }
  return true;
}

}  // namespace

bool expand_hosts(std::string_view text, std::vector<std::string>& hosts) {
  std::vector<std::string_view> parts;
  if (!split(text, parts)) return false;
  for (const std::string_view part : parts)
    if (!expand("", part, hosts)) return false;
  return true;
}

}  // namespace weft::copy
