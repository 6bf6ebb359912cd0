#pragma once
// Metrics in Prometheus' text format, version 0.0.4: each family with its help and type before its
// samples. One thread.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace weft::server {

enum class MetricType { counter, gauge };

class MetricsText {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Begins a family; its samples follow. A counter's name ends in _total, and no gauge's does.
  void family(std::string_view name, MetricType type, std::string_view help);
  // A sample of the family that was begun last. `value`: digits, as JSON has numbers.
  void sample(std::string_view value, Labels labels = {});
  void sample(std::uint64_t value, Labels labels = {}) { sample(std::to_string(value), labels); }

  const std::string& text() const { return text_; }

 private:
  std::string text_, name_;
};

}  // namespace weft::server
