#pragma once
// Report: the findings of weft-info --check, of all hosts and pairs, and how they are printed: a
// line each, the worst at the end, those that are the same of several hosts in one. add() may be
// called by any thread; the rest by one, after the last add().
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/finding.hpp"

namespace weft::check {

using Json = nlohmann::json;

std::string level_name(Finding::Level level);
Json to_json(const Finding& finding);
// Of to_json(); what is missing or of another type stays empty, as it comes from another host.
Finding finding_of(const Json& json);

class Report {
 public:
  // where: "h1", "h1 -> h2".
  void add(const std::string& where, Finding finding);
  // The whole report; `hosts` in the order of the command line.
  std::string text(const std::vector<std::string>& hosts) const;
  std::string json(const std::vector<std::string>& hosts) const;
  // Of the command: 1 if there are errors.
  int exit_status() const;

 private:
  struct Line {
    std::vector<std::string> where;
    Finding finding;
  };
  std::size_t count(Finding::Level level) const;

  mutable std::mutex mutex_;
  std::vector<Line> lines_;
};

}  // namespace weft::check
