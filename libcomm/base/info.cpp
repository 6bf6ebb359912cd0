#include "base/info.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/os/topology.hpp"

namespace weft {
namespace {

std::string bytes_text(std::size_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

// "0-3,8": as the kernel writes it.
std::string cpus_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (end > i) text += fmt::format("-{}", cpus[end]);
    i = end + 1;
  }
  return text;
}

std::string_view sharing_name(Sharing sharing) {
  switch (sharing) {
    case Sharing::nothing:
      return "nothing";
    case Sharing::node:
      return "a NUMA node";
    case Sharing::last_cache:
      return "the last cache";
    case Sharing::inner_cache:
      return "an inner cache";
    case Sharing::core:
      return "a core";
  }
  return "?";
}

}  // namespace

Status InfoReport::print(const std::vector<std::string>& names, std::string& out) const {
  for (const std::string& name : names)
    if (std::ranges::find(sections_, name, &InfoSection::name) == sections_.end())
      return {Code::not_found, fmt::format("there is no section \"{}\"", name)};
  std::string text;
  for (const InfoSection& section : sections_) {
    const bool wanted =
        names.empty() ? section.by_default : std::ranges::find(names, section.name) != names.end();
    if (!wanted) continue;
    if (names.size() != 1) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", section.name);
    text += section.text();
  }
  out = std::move(text);
  return {};
}

namespace {

std::string_view origin_name(Settings::Origin origin) {
  switch (origin) {
    case Settings::Origin::built_in:
      return "default";
    case Settings::Origin::file:
      return "file";
    case Settings::Origin::environment:
      return "environment";
  }
  return "unknown";
}

// `first`, and behind it the words of `text` in lines of at most `width` columns (0: in one), those
// after the first line below the start of `text`, or indented a little where that leaves no room.
std::string wrapped(std::string first, std::string_view text, std::size_t width) {
  constexpr std::size_t kLeastColumns = 76, kIndentation = 6;
  if (width == 0) return first + std::string(text) + "\n";
  std::size_t start = first.size(), column = start;
  std::string lines = std::move(first);
  if (start + kLeastColumns > width) {
    while (!lines.empty() && lines.back() == ' ') lines.pop_back();
    start = kIndentation;
    lines += "\n" + std::string(start, ' ');
    column = start;
  }
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    // Long lists without blanks break behind a comma.
    if (const std::size_t comma = word.rfind(',', width - start - 1);
        start + word.size() > width && comma != std::string_view::npos)
      word = word.substr(0, comma + 1);
    text.remove_prefix(word.size());
    if (text.starts_with(' ')) text.remove_prefix(1);
    if (column > start && column + 1 + word.size() > width) {
      lines += "\n" + std::string(start, ' ');
      column = start;
    }
    if (column > start) {  // a part of a list never fits beside another
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

}  // namespace

std::string settings_text(const Settings& settings, std::size_t width) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const SettingRow& row : setting_rows()) {
    name_width = std::max(name_width, row.name.size());
    value_width = std::max(value_width, settings.text(row.id).size());
  }
  const auto rows_for = [&](Audience audience) {
    std::string text;
    for (const SettingRow& row : setting_rows())
      if (row.audience == audience)
        text += wrapped(fmt::format("  WEFT_{:{}} {:{}} {:7} {:11} ", row.name, name_width,
                                    settings.text(row.id), value_width, unit_name(row.unit),
                                    origin_name(settings.origin(row.id))),
                        row.meaning, width);
    return text;
  };
  return fmt::format(
      "  for users:\n{}\n  for experts, whose defaults suit almost all programs:\n{}",
      rows_for(Audience::user), rows_for(Audience::expert));
}

std::string topology_text() {
  Topology topology;
  if (Status status = Topology::read(topology); !status)
    return fmt::format("  not known: {}\n", status.text());
  std::string text =
      fmt::format("  usable: {} cores, {} processors\n", topology.num_cores(), topology.num_cpus());
  for (std::size_t i = 0; i < topology.cores().size(); ++i)
    text += fmt::format("  core {}: processors {}\n", i, cpus_text(topology.cores()[i]));
  for (const Cache& cache : topology.caches())
    text += fmt::format("  L{} cache: {}, line {} B, processors {}\n", cache.level,
                        bytes_text(cache.size_bytes), cache.line_bytes, cpus_text(cache.cpus));
  for (const NumaNode& node : topology.numa_nodes())
    text += fmt::format("  NUMA node {}: {}, processors {}\n", node.id,
                        bytes_text(node.memory_bytes), cpus_text(node.cpus));
  const auto& cores = topology.cores();
  for (std::size_t i = 1; i < cores.size(); ++i)
    text += fmt::format("  cores 0 and {} share {}\n", i,
                        sharing_name(topology.sharing(cores[0], cores[i])));
  return text;
}

}  // namespace weft
