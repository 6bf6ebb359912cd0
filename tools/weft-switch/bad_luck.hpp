#pragma once
// BadLuck: a wire that loses, doubles and reorders packets, to test the hosts' reaction. One
// thread.
#include <cstdint>
#include <random>
#include <vector>

#include "coll/switch/aggregator.hpp"

namespace weft::innet {

class BadLuck final : public Wire {
 public:
  // percent: the share of packets for each of the three faults.
  BadLuck(Wire& wire, double percent) : wire_(wire), share_(percent / 100) {}
  // Returns true if a received packet is to be lost.
  bool strikes() { return share_ > 0 && std::uniform_real_distribution<>(0, 1)(random_) < share_; }
  void send(const Address& to, std::span<const std::byte> bytes) override {
    if (strikes()) return;
    // A packet held back follows the next one.
    if (held_.empty() && strikes()) {
      held_to_ = to;
      held_.assign(bytes.begin(), bytes.end());
      return;
    }
    wire_.send(to, bytes);
    if (strikes()) wire_.send(to, bytes);
    if (held_.empty()) return;
    wire_.send(held_to_, held_);
    held_.clear();
  }

 private:
  Wire& wire_;
  double share_;
  std::mt19937_64 random_{1};
  Address held_to_;
  std::vector<std::byte> held_;
};

}  // namespace weft::innet
