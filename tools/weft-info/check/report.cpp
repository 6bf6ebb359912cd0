#include "tools/weft-info/check/report.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace weft::check {
namespace {

using Level = Finding::Level;
constexpr std::array kLevels = {Level::ok, Level::note, Level::warning, Level::error};

std::string text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// "1 error", "2 errors"
std::string counted(std::size_t number, const char* word) {
  return fmt::format("{} {}{}", number, word, number == 1 ? "" : "s");
}

}  // namespace

std::string level_name(Level level) {
  static constexpr const char* kNames[] = {"ok", "note", "warning", "error"};
  return kNames[static_cast<std::size_t>(level)];
}

Json to_json(const Finding& finding) {
  return {{"level", level_name(finding.level)},
          {"what", finding.what},
          {"value", finding.value},
          {"do", finding.todo}};
}

Finding finding_of(const Json& json) {
  Finding finding;
  if (!json.is_object()) return finding;
  for (const Level level : kLevels)
    if (text_of(json, "level") == level_name(level)) finding.level = level;
  finding.what = text_of(json, "what");
  finding.value = text_of(json, "value");
  finding.todo = text_of(json, "do");
  return finding;
}

void Report::add(const std::string& where, Finding finding) {
  const std::lock_guard lock(mutex_);
  for (Line& line : lines_) {
    const Finding& other = line.finding;
    if (other.level != finding.level || other.what != finding.what ||
        other.value != finding.value || other.todo != finding.todo)
      continue;
    if (std::ranges::find(line.where, where) == line.where.end()) line.where.push_back(where);
    return;
  }
  lines_.push_back({{where}, std::move(finding)});
}

std::size_t Report::count(Level level) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines_, [=](const Line& line) { return line.finding.level == level; }));
}

std::string Report::text(const std::vector<std::string>& hosts) const {
  std::string text;
  for (const Level level : kLevels)
    for (const auto& [where, finding] : lines_) {
      if (finding.level != level) continue;
      const std::string place = where.size() == hosts.size() && hosts.size() > 2 && where == hosts
                                    ? "all hosts"
                                    : fmt::format("{}", fmt::join(where, ", "));
      text +=
          fmt::format("{:<8}{}: {}: {}\n", level_name(level), place, finding.what, finding.value);
      if (!finding.todo.empty()) text += fmt::format("{:<8}do: {}\n", "", finding.todo);
    }
  const std::size_t errors = count(Level::error), warnings = count(Level::warning),
                    notes = count(Level::note);
  text += fmt::format("{}: {}, {}, {}, {} ok\n", counted(hosts.size(), "host"),
                      counted(errors, "error"), counted(warnings, "warning"),
                      counted(notes, "note"), count(Level::ok));
  return text;
}

std::string Report::json(const std::vector<std::string>& hosts) const {
  Json findings = Json::array();
  for (const Level level : kLevels)
    for (const auto& [where, finding] : lines_) {
      if (finding.level != level) continue;
      Json one = to_json(finding);
      one["where"] = where;
      findings.push_back(std::move(one));
    }
  const Json all = {{"hosts", hosts},
                    {"findings", findings},
                    {"errors", count(Level::error)},
                    {"warnings", count(Level::warning)},
                    {"notes", count(Level::note)},
                    {"ok", count(Level::ok)}};
  // Bytes that are no UTF-8, from a host's name say, become a replacement character.
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int Report::exit_status() const { return count(Level::error) > 0 ? 1 : 0; }

}  // namespace weft::check
