#include "tools/weft-switch/metrics.hpp"

#include <iterator>

#include "tools/server/metrics_text.hpp"

namespace weft::innet {
namespace {

constexpr std::uint64_t kLongNs = 5'000'000'000;

struct Row {
  const char* name;
  const char* help;
  std::uint64_t (*number)(const Aggregator&);
};

constexpr Row kRows[] = {
    {"weft_switch_groups", "Groups that exist.",
     [](const Aggregator& a) -> std::uint64_t { return a.num_groups(); }},
    {"weft_switch_groups_max", "Groups that may exist at the same time.",
     [](const Aggregator& a) -> std::uint64_t { return a.options().max_groups; }},
    {"weft_switch_slots", "Slots that groups have.",
     [](const Aggregator& a) -> std::uint64_t { return a.num_used_slots(); }},
    {"weft_switch_slots_max", "Slots that all groups together may have.",
     [](const Aggregator& a) -> std::uint64_t { return a.options().max_slots; }},
    {"weft_switch_packets_total", "Packets that came.",
     [](const Aggregator& a) { return a.counters().packets; }},
    {"weft_switch_queries_total", "Requests to make a group, or for what the switch can do.",
     [](const Aggregator& a) { return a.counters().queries; }},
    {"weft_switch_contributions_total", "Packets of data that were reduced.",
     [](const Aggregator& a) { return a.counters().contributions; }},
    {"weft_switch_duplicates_total", "Packets of data that had come before.",
     [](const Aggregator& a) { return a.counters().duplicates; }},
    {"weft_switch_completed_total", "Results that were complete.",
     [](const Aggregator& a) { return a.counters().completed; }},
    {"weft_switch_results_sent_total", "Results that were sent to children.",
     [](const Aggregator& a) { return a.counters().results_sent; }},
    {"weft_switch_stale_total", "Packets of groups or operations that are over.",
     [](const Aggregator& a) { return a.counters().stale; }},
    {"weft_switch_refused_total", "Packets that no group takes.",
     [](const Aggregator& a) { return a.counters().refused; }},
    {"weft_switch_forged_total", "Packets with another key than their group's.",
     [](const Aggregator& a) { return a.counters().forged; }},
    {"weft_switch_malformed_total", "Packets that break the format.",
     [](const Aggregator& a) { return a.counters().malformed; }},
    {"weft_switch_groups_expired_total", "Groups that ended as their hosts were silent.",
     [](const Aggregator& a) { return a.counters().expired_groups; }},
    {"weft_switch_payload_bytes", "Bytes of data in a packet.",
     [](const Aggregator& a) -> std::uint64_t { return a.options().payload_bytes; }},
};

}  // namespace

void PublishedNumbers::publish(const Aggregator& aggregator, std::uint64_t now_ns) noexcept {
  static_assert(std::size(kRows) == kNumbers);
  for (std::size_t i = 0; i < kNumbers; ++i)
    numbers_[i].store(kRows[i].number(aggregator), std::memory_order_relaxed);
  published_ns_.store(now_ns, std::memory_order_relaxed);
}

std::string PublishedNumbers::metrics() const {
  server::MetricsText text;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const bool counts = std::string_view(kRows[i].name).ends_with("_total");
    text.family(kRows[i].name, counts ? server::MetricType::counter : server::MetricType::gauge,
                kRows[i].help);
    text.sample(numbers_[i].load(std::memory_order_relaxed));
  }
  return text.text();
}

bool PublishedNumbers::is_alive(std::uint64_t now_ns) const noexcept {
  const std::uint64_t then_ns = published_ns_.load(std::memory_order_relaxed);
  return now_ns < then_ns || now_ns - then_ns < kLongNs;
}

}  // namespace weft::innet
