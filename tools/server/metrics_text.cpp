#include "tools/server/metrics_text.hpp"

#include <cassert>

namespace weft::server {
namespace {

std::string escaped(std::string_view text, bool is_label) {
  std::string made;
  for (const char letter : text) {
    if (letter == '\n') {
      made += "\\n";
      continue;
    }
    if (letter == '\\' || (is_label && letter == '"')) made += '\\';
    made += letter;
  }
  return made;
}

}  // namespace

void MetricsText::family(std::string_view name, MetricType type, std::string_view help) {
  assert((type == MetricType::counter) == name.ends_with("_total"));
  name_ = name;
  text_ += "# HELP " + name_ + " " + escaped(help, false) + "\n# TYPE " + name_ +
           (type == MetricType::counter ? " counter\n" : " gauge\n");
}

void MetricsText::sample(std::string_view value, Labels labels) {
  text_ += name_;
  const char* between = "{";
  for (const auto& [name, label] : labels) {
    text_.append(between).append(name).append("=\"").append(escaped(label, true)).append("\"");
    between = ",";
  }
  if (labels.size() != 0) text_ += '}';
  text_.append(" ").append(value).append("\n");
}

}  // namespace weft::server
