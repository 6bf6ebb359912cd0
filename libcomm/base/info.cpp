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

std::string settings_text(const Settings& settings) {
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
        text += fmt::format("  WEFT_{:{}} {:{}} {:7} {:11} {}\n", row.name, name_width,
                            settings.text(row.id), value_width, unit_name(row.unit),
                            settings.is_default(row.id) ? "default" : "environment", row.meaning);
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
