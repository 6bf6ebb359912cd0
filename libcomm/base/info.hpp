#pragma once
// The report of weft-info: sections, each a function that returns text. A layer offers a function;
// weft-info's main adds it to the report by name, so that all sections are listed in one place. One
// thread.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"

namespace weft {

struct InfoSection {
  std::string name;                   // also the option that asks for it: "topology" is --topology
  std::string meaning;                // one line for --help
  bool by_default = true;             // also printed when no section is named
  std::function<std::string()> text;  // called only if printed; ends with a newline
};

class InfoReport {
 public:
  void add(InfoSection section) { sections_.push_back(std::move(section)); }
  const std::vector<InfoSection>& sections() const noexcept { return sections_; }
  // Prints the sections named, or those by default if none is. not_found names the first unknown
  // one.
  Status print(const std::vector<std::string>& names, std::string& out) const;

 private:
  std::vector<InfoSection> sections_;
};

// The settings table, users' settings before those for experts: name, value, unit, where the value
// came from, meaning. width: the columns of a terminal, into which meanings are broken; 0: a line
// each.
std::string settings_text(const Settings& settings, std::size_t width = 0);
// The cores, caches and NUMA nodes, and what the processors share.
std::string topology_text();

}  // namespace weft
