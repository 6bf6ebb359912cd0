#pragma once
// The numbers of a running switch for other threads, without a lock: the switch's thread publishes
// them after packets, and the endpoint of --metrics reads them.
#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "coll/switch/aggregator.hpp"

namespace weft::innet {

class PublishedNumbers {
 public:
  // The switch's thread alone, which takes its turn at least once a second.
  void publish(const Aggregator& aggregator, std::uint64_t now_ns) noexcept;

  // Any thread. Prometheus' text format.
  std::string metrics() const;
  // False: the switch's thread has not taken its turn for some seconds.
  bool is_alive(std::uint64_t now_ns) const noexcept;

 private:
  static constexpr std::size_t kNumbers = 16;
  // relaxed everywhere: each number is right by itself, and nothing depends on it.
  std::array<std::atomic<std::uint64_t>, kNumbers> numbers_{};
  std::atomic<std::uint64_t> published_ns_{0};
};

}  // namespace weft::innet
